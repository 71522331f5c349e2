"""Questions of a server in a run that waits for their answer, and calls that end without one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from agent.conversation.session import Session
from tests.agent.mcp.conftest import configure, lock
from tests.agent.mcp.test_sdk_server import SERVER
from toolcrib import Answer, ToolCallStatus
from toolcrib.testing import ScriptedSession


@pytest.fixture
def crib(raw: dict[str, Any], opened: Callable[[], Crib]) -> Crib:
    rules = [{"toolset": "mcp-raw", "decision": "allow", "why": "my own server"}]
    configure({"raw": {**raw, "idle": 0.1}}, approval={"tools": rules})
    lock("raw")
    return opened()


async def parked(crib: Crib, tool: str, args: Any, toolset: str = "mcp-raw") -> tuple[Session, str]:
    """Open a session whose model calls the tool, and return it with the ticket of the server's question."""
    session = await crib.open(platform="api", suspends=True, enabled=[toolset])
    session.link.use(ScriptedSession([(tool, args)], "done"))
    result = await session.ask("go")
    assert result.stopped == "parked"
    [ticket] = result.tickets
    return session, ticket


def answered(ticket: str, payload: Any) -> Answer:
    return Answer(ticket, payload=payload, by="me", at=time.time())


async def result_of(session: Session) -> str:
    """Return the result that the model reads after the run has continued to its end."""
    last = await session.advance()
    assert last is not None
    assert last.text == "done"
    return str((await session.records())[-2]["results"][0]["text"])


def calls_read(tmp_path: Path) -> int:
    return (tmp_path / "raw/read").read_text().count('"tools/call"')


def wait_until(happens: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < give_up
        time.sleep(0.02)


async def test_a_parked_question_is_answered_later(crib: Crib, tmp_path: Path) -> None:
    session, ticket = await parked(crib, "asks", {})
    await session.answer(answered(ticket, "42"))
    assert '"size": 42' in await result_of(session)
    assert calls_read(tmp_path) == 1


async def test_a_parked_question_of_the_newer_protocol(opened: Callable[[], Crib]) -> None:
    rules = [{"toolset": "mcp-memory", "decision": "allow", "why": "my own server"}]
    configure({"memory": {"command": [sys.executable, SERVER]}}, approval={"tools": rules})
    await asyncio.to_thread(lock, "memory")
    session, ticket = await parked(opened(), "reserve", {"name": "Ada"}, "mcp-memory")
    await session.answer(answered(ticket, "2"))
    again = await session.advance()
    assert again is not None
    await session.answer(answered(again.tickets[0], "yes"))
    assert "Ada: 2 True" in await result_of(session)
    await session.close()


async def test_a_closed_session_may_be_resumed_for_the_answer(crib: Crib, tmp_path: Path) -> None:
    """The call belongs to the process, not to the opened session."""
    session, ticket = await parked(crib, "asks", {})
    await session.close()
    again = await crib.open(platform="api", suspends=True, enabled=["mcp-raw"], resume=session.id)
    again.link.use(ScriptedSession("done"))
    await again.answer(answered(ticket, "42"))
    assert '"size": 42' in await result_of(again)
    assert calls_read(tmp_path) == 1


async def test_after_a_restart_the_call_ends_once(crib: Crib, opened: Callable[[], Crib], tmp_path: Path) -> None:
    session, ticket = await parked(crib, "asks", {})
    await session.close()
    await crib.aclose()
    other = opened()
    again = await other.open(platform="api", suspends=True, enabled=["mcp-raw"], resume=session.id)
    again.link.use(ScriptedSession("done"))
    await again.answer(answered(ticket, "42"))
    told = await result_of(again)
    assert "the MCP server raw asked in a process of toolcrib that has ended, and its call with it" in told
    assert "its effects are unknown" in told
    assert calls_read(tmp_path) == 1


async def test_a_refused_question_ends_the_servers_call(crib: Crib, tmp_path: Path) -> None:
    """Otherwise the server would wait for ever, and never be idle."""
    session, ticket = await parked(crib, "asks", {})
    await session.answer(Answer(ticket, "cancel", by="me", at=time.time()))
    await result_of(session)
    pid = int((tmp_path / "raw/starts").read_text().split()[-1])
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert '"notifications/cancelled"' in (tmp_path / "raw/read").read_text()


def test_without_a_user_the_servers_call_ends(crib: Crib, tmp_path: Path) -> None:
    session = crib.open_session(platform="api", enabled=["mcp-raw"])
    executed = session.call("asks", {})
    assert executed.status is ToolCallStatus.FAILED
    assert "The MCP server raw asks: Which size?: this needs a user's answer" in str(executed.result.message)
    pid = int((tmp_path / "raw/starts").read_text().split()[-1])
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
