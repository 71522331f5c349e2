"""Resources and prompts that a user names in the chat: ``@SERVER:URI`` and ``/SERVER:PROMPT``."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from agent.api import Crib
from agent.cli.attaching import attach
from agent.cli.conversation import Conversation
from agent.cli.opening import ChatOpening
from agent.cli.render import Screen
from agent.cli.slash import obey
from agent.conversation.limits import RunLimits
from agent.model_choice.models import ModelChoice
from tests.agent.mcp.conftest import Asked, configure, lock
from tests.agent.mcp.test_sdk_server import SERVER
from toolcrib.testing import ChatServer


@pytest.fixture
def crib(opened: Callable[[], Crib]) -> Crib:
    configure({"memory": {"command": [sys.executable, SERVER]}})
    lock("memory")
    return opened()


async def test_a_resource_is_attached_to_a_message(crib: Crib, asked: Asked) -> None:
    session = await crib.open(platform="api", asker=asked, enabled=["mcp-memory"])
    text = "Compare @memory:note://a, @memory:memory://all and @memory:memory://all (@other:note://b)"
    done = await attach(session, text, None)
    assert done.notes[:2] == ["attached memory:note://a: a resource", "attached memory:memory://all: a resource"]
    assert [part.text for part in done.parts] == ["[note://a]\nthe note a", '[memory://all]\n{"items": []}']
    assert "is the resource note://a of the MCP server memory" in done.parts[0].about
    assert len(asked.tickets) == 1, "it is a call like any other"
    failed = await attach(session, "@memory:nothing://here", None)
    assert failed.parts == []
    assert failed.faults[0].startswith("@memory:nothing://here was not attached: ")
    await session.close()


@pytest.mark.parametrize("agrees", [True, False])
async def test_a_prompt_is_sent_after_the_users_yes(
    agrees: bool, crib: Crib, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[str] = []

    async def confirm(question: str) -> bool:
        questions.append(question)
        return agrees

    with ChatServer(ChatServer.text("Fine.")) as server:
        opening = ChatOpening(crib, asked, RunLimits(), confirm=confirm)
        chat = Conversation(opening, ModelChoice("test-model", server.base_url), Screen(interactive=False), obey=obey)
        await chat.open()
        await chat.say("/memory:review code='!rm -rf @x'")
        assert "Review this: !rm -rf @x" in capsys.readouterr().out
        assert questions == ["Send this text of the MCP server memory to the model, as your message?"]
        sent = [request["messages"][-1]["content"] for request in server.requests]
        assert sent == (["Review this: !rm -rf @x"] if agrees else [])
        for line, fault in (
            ("/memory:review code", "write the arguments as NAME=VALUE"),
            ("/memory:nothing", "✗ the MCP server memory: "),
            ("/other:review", "unknown command /other:review"),
        ):
            await chat.say(line)
            assert fault in capsys.readouterr().err
        assert len(server.requests) == len(sent)
        await chat.close()


async def test_a_prompt_that_begins_like_a_command_is_none(crib: Crib, asked: Asked) -> None:
    """A server must not type into the chat."""

    async def confirm(question: str) -> bool:
        return True

    with ChatServer(ChatServer.text("Fine.")) as server:
        opening = ChatOpening(crib, asked, RunLimits(), confirm=confirm)
        chat = Conversation(opening, ModelChoice("test-model", server.base_url), Screen(interactive=False), obey=obey)
        await chat.open()
        await chat.send("/mode plan")
        assert server.requests[0]["messages"][-1]["content"] == "/mode plan"
        assert chat.session.mode.now == "default"
        await chat.close()
