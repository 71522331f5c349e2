"""The text of a reply that an interrupt, a lost connection or the end of the process cut off."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation.limits import RunLimits
from agent.conversation.session import Session
from agent.conversation.state import RunState
from agent.events import Event, TextDelta, ToolCallDelta
from agent.model_choice.models import ModelChoice
from agent.model_choice.retry import RetryPolicy
from toolcrib import ProviderError, StreamEvent
from toolcrib.testing import ChatServer, ScriptedSession

SLOW = {"pieces": 40, "pause": 0.03}


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


async def opened(crib: Crib, base_url: str, provider: str = "", resume: str = "") -> Session:
    session = await crib.open(enabled=[], resume=resume)
    await session.connect(ModelChoice("m", base_url, provider=provider))
    return session


async def interrupted_after(session: Session, kind: type[Event], text: str = "go") -> str:
    """Interrupt the run at the first event of that kind; return why it stopped."""

    def watch(event: Event) -> None:
        if isinstance(event, kind):
            session.interrupt()

    return (await session.ask(text, emit=watch)).stopped


async def test_the_next_request_has_what_was_said_before_an_interrupt(tmp_path: Path) -> None:
    replies = [ChatServer.text("one two three four five six", **SLOW), *[ChatServer.text("ok")] * 3]
    with ChatServer(*replies) as server, assemble(project_dir=tmp_path) as crib:
        session = await opened(crib, server.base_url)
        assert await interrupted_after(session, TextDelta) == "interrupted"
        assert (await session.ask("and?")).text == "ok"
        await session.ask("more")
        await session.close()
        again = await opened(crib, server.base_url, resume=session.id)
        await again.ask("last")
        await again.close()
    _, first, second, third = (request["messages"] for request in server.requests)
    assert roles(first) == ["system", "user", "assistant", "user"]
    said = first[2]["content"]
    assert said.startswith("one two")
    assert said.endswith("\n\n[interrupted by the user]")
    assert len(said) < len("one two three four five six\n\n[interrupted by the user]")
    assert json.dumps(second[: len(first)]) == json.dumps(first)  # so the server's cache of the prefix stays valid
    assert json.dumps(third[: len(second)]) == json.dumps(second)


async def test_a_call_that_was_being_written_is_told_of_and_not_run(tmp_path: Path) -> None:
    calls = ChatServer.calls(("terminal", {"command": "touch made"}), text="I make it.", pieces=60, pause=0.03)
    with ChatServer(calls, ChatServer.text("ok")) as server, assemble(project_dir=tmp_path) as crib:
        session = await opened(crib, server.base_url)
        assert await interrupted_after(session, ToolCallDelta) == "interrupted"
        await session.ask("and?")
        await session.close()
    told = server.requests[1]["messages"]
    assert roles(told) == ["system", "user", "assistant", "user"]
    assert "tool_calls" not in told[2]
    assert told[2]["content"] == (
        "I make it.\n\n[interrupted by the user, while a call of terminal was being written; it did not run]"
    )
    assert not (tmp_path / "made").exists()


async def test_an_interrupt_before_the_first_word_is_told_too(tmp_path: Path) -> None:
    """Some servers' templates refuse two user messages in a row."""
    with ChatServer(ChatServer.text("late", delay=5), ChatServer.text("ok")) as server, assemble(project_dir=tmp_path) as crib:
        session = await opened(crib, server.base_url)
        asked = asyncio.ensure_future(session.ask("go"))
        while not server.requests:
            await asyncio.sleep(0.01)
        session.interrupt()
        assert (await asked).stopped == "interrupted"
        await session.ask("and?")
        await session.close()
    assert [one["content"] for one in server.requests[1]["messages"][1:]] == ["go", "[interrupted by the user]", "and?"]


async def test_what_came_before_the_connection_was_lost_is_kept(tmp_path: Path) -> None:
    broken = ChatServer.text("one two three four five six", cut=400)
    limits = RunLimits(retry=RetryPolicy(attempts=1))
    with ChatServer(broken, ChatServer.text("ok")) as server, assemble(project_dir=tmp_path) as crib:
        session = await opened(crib, server.base_url)
        with pytest.raises(ProviderError):
            await session.ask("go", limits=limits)
        await session.ask("and?")
        await session.close()
    told = server.requests[1]["messages"]
    assert roles(told) == ["system", "user", "assistant", "user"]
    assert told[2]["content"].startswith("one two")
    assert told[2]["content"].endswith("[the connection to the model ended here]")


class Stuck(ScriptedSession):
    """A model that says a part of its reply, and then hangs."""

    async def stream_turn(self, on_event: Any) -> Any:
        on_event(StreamEvent("thinking_delta", "hm"))
        for word in ("a ", "long ", "answer"):
            on_event(StreamEvent("assistant_delta", word))
        await asyncio.sleep(60)


async def test_a_killed_process_leaves_what_was_said_a_second_before(tmp_path: Path) -> None:
    """The store receives the text about once a second; the run that answers the next message adds it to the conversation."""
    with assemble(project_dir=tmp_path) as crib:
        session = await crib.open(enabled=[])
        session.link.use(Stuck())
        asked = asyncio.ensure_future(session.ask("go"))
        state = RunState(id="none", session_id=session.id)
        while not state.said:
            await asyncio.sleep(0.02)
            record = await crib.store.runs.current(session.id)
            state = state if record is None else RunState.of(record)
        assert (state.said, state.phase, state.step) == ("a long answer", "asking", 2)
        assert [one["role"] for one in await session.records()] == ["user"]
        asked.cancel()  # leaves the run in the same state as a kill
        with pytest.raises(asyncio.CancelledError):
            await asked
        await session.close()
        again = await crib.open(enabled=[], resume=session.id)
        again.link.use(ScriptedSession("ok"))
        assert (await again.ask("and?")).text == "ok"
        records = await again.records()
        await again.close()
    assert [one["role"] for one in records] == ["user", "assistant", "user", "assistant"]
    assert (records[1]["text"], records[1]["broken"]) == ("a long answer", "interrupted here, before it was complete")


async def test_a_reply_shorter_than_a_second_is_written_once(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("quick")) as server, assemble(project_dir=tmp_path) as crib:
        session = await opened(crib, server.base_url)
        await session.ask("go")
        run = (await session.store.runs.get(f"{session.id}-1")) or pytest.fail("no run")
        await session.close()
    assert run.step == 2  # the text and the answer
    assert "said" not in run.state
