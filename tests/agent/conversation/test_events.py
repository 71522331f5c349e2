"""Events of one conversation across its runs and its processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.api import Agent, Crib, assemble
from agent.conversation.state import RunResult
from agent.events import Event, TextDelta, ThinkingDelta, ToolStarted, TurnFinished
from toolcrib import ProviderTurn, StreamEvent
from toolcrib.testing import ChatServer, ScriptedSession
from tools.dispatch.bridge import run_async


def thinking(text: str) -> Any:
    deltas = [{"reasoning_content": "hm"}, {"content": text}]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return ChatServer.stream(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events if isinstance(event, TextDelta | ThinkingDelta)]


def test_004_2_ids_are_those_of_no_other_run(tmp_path: Path) -> None:
    """004-2: ids are unique across a process and another one that resumes the conversation."""
    events: list[Event] = []
    with ChatServer(*map(thinking, ("One.", "Two.", "Three."))) as server:
        about: dict[str, Any] = {"model": "m", "base_url": server.base_url, "project_dir": tmp_path, "on_event": events.append}
        with Agent(**about) as agent:
            agent.ask("one")
            agent.ask("two")
            begun = agent.session.id
        with Agent(**about, resume=begun) as agent:
            agent.ask("three")
    assert len(ids(events)) == len(set(ids(events))) == 6


def test_004_2_calls_have_ids_of_their_own_though_the_server_counts_anew(tmp_path: Path) -> None:
    """004-2: ids are unique across turns, runs and processes, and the server gets each result by the id of its call."""
    events: list[Event] = []
    counted = ChatServer.calls(("todo", {}), ("todo", {}), ids=["call_0", "call_1"])
    done = ChatServer.text("Done.")
    with ChatServer(counted, counted, done, counted, done, counted, done) as server:
        about: dict[str, Any] = {"model": "m", "base_url": server.base_url, "project_dir": tmp_path, "on_event": events.append}
        with Agent(**about) as agent:
            agent.ask("one")
            agent.ask("two")
            begun = agent.session.id
        with Agent(**about, resume=begun) as agent:
            agent.ask("three")
        sent = server.requests[-1]["messages"]
    started = [event.call.id for event in events if isinstance(event, ToolStarted)]
    assert len(started) == len(set(started)) == 8
    called = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
    assert called == started == [message["tool_call_id"] for message in sent if message["role"] == "tool"]


class Breaking(ScriptedSession):
    """A model whose process dies in the middle of its reply."""

    async def stream_turn(self, on_event: Any) -> ProviderTurn:
        on_event(StreamEvent("assistant_delta", "I th"))
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)
        raise AssertionError


def test_004_2_a_reply_that_is_begun_anew_has_ids_of_its_own(tmp_path: Path) -> None:
    """004-2: an interface that joins deltas by their id never appends the whole reply to half of it."""
    events: list[Event] = []

    async def drive(crib: Crib, model: ScriptedSession, resume: str = "") -> tuple[str, RunResult | None]:
        session = await crib.open(resume=resume)
        session.link.use(model)
        try:
            asking = session.advance(events.append) if resume else session.ask("go", emit=events.append)
            return session.id, await asking
        except asyncio.CancelledError:
            return session.id, None
        finally:
            await session.close()

    with assemble(project_dir=tmp_path) as crib:
        begun, nothing = asyncio.run(drive(crib, Breaking()))
    assert nothing is None
    with assemble(project_dir=tmp_path) as crib:
        _, result = asyncio.run(drive(crib, ScriptedSession("I think so."), begun))
    assert result is not None
    assert result.text == "I think so."
    texts = [event for event in events if isinstance(event, TextDelta)]
    assert [event.text for event in texts] == ["I th", "I think so."]
    assert texts[0].id != texts[1].id


def test_how_each_reply_ended_is_told(tmp_path: Path) -> None:
    """Each turn's event has the end of its reply; the result has the last one, even if the run continues in another process."""
    events: list[Event] = []
    cut = {"choices": [{"index": 0, "delta": {"content": "Half"}, "finish_reason": "length"}]}
    delete = ChatServer.calls(("terminal", {"command": "rm -rf build"}))
    with ChatServer(delete, ChatServer.stream(cut)) as server:
        about: dict[str, Any] = {"model": "m", "base_url": server.base_url, "project_dir": tmp_path, "on_event": events.append}
        (tmp_path / "build").mkdir()
        with Agent(**about, parks=True) as agent:
            parked = agent.ask("go")
            begun = agent.session.id
        with Agent(**about, parks=True, resume=begun) as agent:
            run_async(agent.answer(parked.tickets[0], {"approved": True, "scope": "once"}))
            result = run_async(agent.resume_run())
    assert (parked.stopped, parked.finish) == ("parked", "tool_calls")
    assert result is not None
    assert (result.text, result.stopped, result.finish) == ("Half", "done", "length")
    assert [event.finish for event in events if isinstance(event, TurnFinished)] == ["tool_calls", "length"]
