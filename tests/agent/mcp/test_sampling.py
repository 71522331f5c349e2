"""Requests of a server to the session's model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from agent.conversation.limits import TokenCapReached
from agent.mcp.asking import ACTION
from agent.model_choice.models import ModelChoice
from tests.agent.mcp.conftest import Asked, configure, lock
from toolcrib.testing import ChatServer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def ask(raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, server: ChatServer) -> Callable[..., Any]:
    """Return a function that runs a session, and returns the results of its model's calls. A text of ``replies`` is a reply,
    a tuple has the texts of calls of ``samples``.
    """

    async def run(*replies: str | tuple[str, ...], sampling: str = "ask", **more: Any) -> list[str]:
        configure({"raw": {**raw, "sampling": sampling}}, **more)
        await asyncio.to_thread(lock, "raw")
        for reply in replies:
            calls = [] if isinstance(reply, str) else [("samples", {"text": text}) for text in reply]
            server.responses.append(ChatServer.text(str(reply)) if isinstance(reply, str) else ChatServer.calls(*calls))
        choice = ModelChoice("test-model", server.base_url)
        session = await opened().open(platform="api", asker=asked, enabled=["mcp-raw"], choice=choice)
        try:
            outcome = await session.ask("go")
        finally:
            await session.close()
        assert outcome.text == "done"
        return [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"]

    return run


async def test_the_model_answers_after_the_users_yes(ask: Any, asked: Asked, server: ChatServer) -> None:
    asked.replies = ["maybe", "yes"]
    [told] = await ask(("What colour?",), "It is red.", "done")
    for part in ('"role": "assistant"', '"text": "It is red."', '"model": "test-model"', '"stopReason": "endTurn"'):
        assert part in told.replace('\\"', '"')
    first, again = (ticket for ticket in asked.tickets if ticket.action == ACTION)
    assert first.message == (
        "The MCP server raw asks your model:\nsystem: You are short.\nuser: What colour?\nassistant: Go on.\n"
        "user: What colour?\nMay the model answer?"
    )
    assert first.parameters["choices"] == ["yes", "no"]
    assert "(expected yes or no)" in again.message
    request = server.requests[1]
    assert "tools" not in request
    assert [one["role"] for one in request["messages"]] == ["system", "user", "assistant", "user"]
    assert request["messages"][0]["content"] == "You are short."
    assert most_of(request) == 40


def most_of(request: Any) -> int:
    return int(request.get("max_tokens") or request.get("max_completion_tokens"))


async def test_an_image_reaches_the_model(ask: Any, asked: Asked, server: ChatServer) -> None:
    await ask(("picture",), "It is red.", "done", sampling="allow")
    assert "data:image/png;base64,iVBOR" in json.dumps(server.requests[1]["messages"][-1])
    assert not [ticket for ticket in asked.tickets if ticket.action == ACTION]


async def test_without_the_users_yes_the_model_is_not_asked(ask: Any, asked: Asked) -> None:
    asked.replies = ["no"]
    [told] = await ask(("What colour?",), "done")
    assert "refused: the user declines" in told


async def test_a_server_that_may_not_ask_knows_it(ask: Any, asked: Asked, tmp_path: Path) -> None:
    [told] = await ask(("What colour?",), "done", sampling="never")
    assert "code" in told
    assert not [ticket for ticket in asked.tickets if ticket.action == ACTION]
    assert '"sampling":' not in (tmp_path / "raw/read").read_text()


async def test_content_that_the_model_cannot_have_is_refused(ask: Any) -> None:
    [told] = await ask(("sound",), "done", sampling="allow")
    assert "refused: the model can't be given content of the type audio" in told


async def test_the_requests_count_against_the_runs_limit(ask: Any, server: ChatServer) -> None:
    """Each reply uses 15 tokens."""
    with pytest.raises(TokenCapReached):
        await ask(("one",), "1", ("two",), "2", "done", sampling="allow", run={"max_tokens": 45})
    assert [request["messages"][-1]["role"] for request in server.requests] == ["user", "user", "tool"]
    assert most_of(server.requests[1]) == 30


async def test_requests_in_one_turn_share_what_the_run_has_left(ask: Any, server: ChatServer) -> None:
    with pytest.raises(TokenCapReached):
        await ask(("one", "two"), "1", "2", sampling="allow", run={"max_tokens": 45})
    assert [most_of(request) for request in server.requests[1:]] == [30, 15]


async def test_a_failing_model_server_is_a_refusal(ask: Any, server: ChatServer) -> None:
    server.responses = [ChatServer.calls(("samples", {"text": "one"})), ChatServer.body({"error": {"message": "no"}}, 400)]
    [told] = await ask("done", sampling="allow")
    assert "refused: " in told
