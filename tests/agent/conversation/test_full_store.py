"""A store that can't be written for a while: what users and the model read about the calls that ran during that time."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.cli.jsonl import JsonLines
from agent.cli.render import brief_line
from agent.conversation.session import Session
from agent.events import Event, SessionBusy, ToolFinished
from agent.store._leases import SqliteLeases
from agent.store._ledger import SqliteLedger
from toolcrib import Block, StoreFailed, ToolCall, ToolCallContext, hookimpl
from toolcrib.contract.display import NO_DISPLAY
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async

FULL = "store.db can't grow: the disk is full; free space and try again"


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, *methods: str) -> Iterator[None]:
    """Make these writes of the ledger fail."""

    async def fail(*args: Any, **options: Any) -> None:
        raise StoreFailed(FULL)

    with monkeypatch.context() as patch:
        for method in methods:
            patch.setattr(SqliteLedger, method, fail)
        yield


def conversation(server: ChatServer, project: Path, seen: list[Event]) -> Agent:
    return Agent(model="m", base_url=server.base_url, project_dir=project, on_event=seen.append)


def as_line(event: Event) -> str:
    out = io.StringIO()
    JsonLines(out)(event)
    return out.getvalue()


def results(server: ChatServer) -> list[str]:
    return [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"]


def test_an_end_that_is_not_on_record_is_no_success_and_is_recorded_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process continues, so that the model reads what really happened."""
    seen: list[Event] = []
    responses = [ChatServer.calls(("write_file", {"path": "a", "content": "x"})), ChatServer.text("ok")]
    with ChatServer(*responses) as server, conversation(server, tmp_path, seen) as agent:
        with failing(monkeypatch, "finish"), monkeypatch.context() as patch:
            keep = Session.keep

            async def full(self: Session, state: Any, messages: Any = (), taken: Any = ()) -> Any:
                if messages and messages[0]["role"] == "results":
                    raise StoreFailed(FULL)
                return await keep(self, state, messages, taken)

            patch.setattr(Session, "keep", full)
            with pytest.raises(StoreFailed):
                agent.ask("go")
        (finished,) = [event for event in seen if isinstance(event, ToolFinished)]
        assert finished.executed.unrecorded
        assert finished.executed.result.is_success
        assert "it ran, but its outcome could not be recorded" in brief_line(finished.executed, NO_DISPLAY)
        assert '"status": "unrecorded"' in as_line(finished)
        assert (tmp_path / "a").read_text() == "x"
        agent.ask("go on")
        (told,) = results(server)
        assert "may have run" not in told
        assert "error" not in told
        (known,) = run_async(agent.session.store.ledger.calls(agent.session.id))
        assert (known.status.value, known.handler_started) == ("succeeded", True)


@pytest.mark.parametrize("method", ["open", "handler_started"])
def test_a_store_that_fails_before_the_handler_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """The call does not run, and no traceback hides what to do."""
    seen: list[Event] = []
    responses = [ChatServer.calls(("write_file", {"path": "a", "content": "x"})), ChatServer.text("ok")]
    with ChatServer(*responses) as server, conversation(server, tmp_path, seen) as agent:
        with failing(monkeypatch, method, "finish"):
            agent.ask("go")
        (told,) = results(server)
        assert FULL in told
    assert not (tmp_path / "a").exists()
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    doing = "gating" if method == "open" else "running"
    assert said == f"{doing} write_file failed: {FULL}"


class Failing:
    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: ToolCallContext) -> Block | None:
        raise StoreFailed(FULL)


def test_a_gate_that_the_store_fails_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The gate denies the call."""
    seen: list[Event] = []
    responses = [ChatServer.calls(("write_file", {"path": "a", "content": "x"})), ChatServer.text("ok")]
    with ChatServer(*responses) as server, conversation(server, tmp_path, seen) as agent:
        agent.crib.dispatcher.hooks.register(Failing(), "careful")
        agent.ask("go")
        assert "the gate 'careful' failed" in results(server)[0]
    assert not (tmp_path / "a").exists()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert said == [f"the gate 'careful' failed on write_file; the call is denied: {FULL}"]


def test_a_lease_that_cannot_be_given_back_is_not_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process does not wait for its own lease if it could not release it."""
    seen: list[Event] = []
    with ChatServer(ChatServer.text("one"), ChatServer.text("two")) as server, conversation(server, tmp_path, seen) as agent:

        async def fail(*args: Any) -> None:
            raise StoreFailed(FULL)

        with monkeypatch.context() as patch:
            patch.setattr(SqliteLeases, "release", fail)
            assert agent.ask("go").text == "one"
            with pytest.raises(StoreFailed, match="free space"):
                agent.ask("again")
        assert agent.ask("again").text == "two"
        assert not [event for event in seen if isinstance(event, SessionBusy)]
