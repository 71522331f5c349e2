"""Calls that are cancelled or run at the same time: the server gets a notice, and stays usable."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from agent.conversation.session import Session
from tests.agent.mcp.conftest import configure, lock
from tests.agent.mcp.test_sdk_server import SERVER
from toolcrib.contract.types import ToolCall
from toolcrib.testing import ScriptedSession

ALLOWED = [{"toolset": "mcp-*", "decision": "allow", "why": "my own server"}]


@pytest.fixture
def crib(raw: dict[str, Any], opened: Callable[[], Crib]) -> Crib:
    configure({"raw": raw}, approval={"tools": ALLOWED})
    lock("raw")
    return opened()


def messages(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "raw/read").read_text().splitlines()]


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "raw/starts").read_text().split())


def is_cancelled(tmp_path: Path) -> bool:
    """Return whether the server has read that its last call is cancelled."""
    read = messages(tmp_path)
    calls = [one["id"] for one in read if one.get("method") == "tools/call"]
    return calls[-1:] == [one["params"]["requestId"] for one in read if one.get("method") == "notifications/cancelled"]


async def until(happens: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)


async def waiting(crib: Crib, tmp_path: Path) -> tuple[Session, asyncio.Task[Any], int]:
    """Return a session whose model has called ``waits``, its run, and the number of starts so far."""
    session = await crib.open(platform="api", enabled=["mcp-raw"])
    session.link.use(ScriptedSession([("waits", {})], "done", "done"))
    run = asyncio.create_task(session.ask("go"))
    await until((tmp_path / "raw/waits").exists)
    return session, run, starts(tmp_path)


async def test_an_interrupt_cancels_the_call_at_the_server(crib: Crib, tmp_path: Path) -> None:
    session, run, before = await waiting(crib, tmp_path)
    session.interrupt()
    assert (await run).stopped == "interrupted"
    await until(lambda: is_cancelled(tmp_path))
    executed = await session.acall(ToolCall("c2", "echo", {"text": "still there"}))
    assert (executed.result.data, starts(tmp_path)) == ("still there", before)
    await session.close()


async def test_a_closed_session_cancels_its_call(crib: Crib, tmp_path: Path) -> None:
    session, run, before = await waiting(crib, tmp_path)
    await session.close()
    await asyncio.wait([run], timeout=30)
    assert run.done()
    await until(lambda: is_cancelled(tmp_path))
    other = await crib.open(platform="api", enabled=["mcp-raw"])
    assert (await other.acall(ToolCall("c2", "echo", {"text": "x"}))).result.data == "x"
    assert starts(tmp_path) == before
    await other.close()


def test_ctrl_c_cancels_the_call_at_the_server(crib: Crib, tmp_path: Path) -> None:
    session = crib.open_session(platform="api", enabled=["mcp-raw"])

    def press() -> None:
        while not (tmp_path / "raw/waits").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        session.call("waits", {})
    asyncio.run(until(lambda: is_cancelled(tmp_path)))
    assert session.call("echo", {"text": "x"}).result.data == "x"


def test_a_call_beyond_its_time_is_cancelled_at_the_server(
    raw: dict[str, Any], opened: Callable[[], Crib], tmp_path: Path
) -> None:
    configure({"raw": {**raw, "timeout": 0.5}}, approval={"tools": ALLOWED})
    lock("raw")
    session = opened().open_session(platform="api", enabled=["mcp-raw"])
    assert "no result within 0.5 s" in str(session.call("waits", {}).result.message)
    asyncio.run(until(lambda: is_cancelled(tmp_path)))
    assert session.call("echo", {"text": "x"}).result.data == "x"


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_calls_of_two_sessions_share_a_server(protocol: str, opened: Callable[[], Crib]) -> None:
    """Each call gets its own result, in whatever order the results come, and a cancelled call disturbs no other."""
    configure({"memory": {"command": [sys.executable, SERVER], "protocol": protocol}}, approval={"tools": ALLOWED})
    await asyncio.to_thread(lock, "memory")
    crib = opened()
    one, two, three = [await crib.open(platform="api", enabled=["mcp-memory"]) for _ in range(3)]
    await one.acall(ToolCall("c0", "slow", {"seconds": 0}))
    gone = asyncio.create_task(one.acall(ToolCall("c1", "slow", {"seconds": 120})))
    slow = asyncio.create_task(two.acall(ToolCall("c2", "slow", {"seconds": 1})))
    for n in range(5):
        executed = await three.acall(ToolCall(f"c3-{n}", "kom.memory.v1.upsert_memory", {"namespace": "a", "items": [0] * n}))
        assert executed.result.data == {"upserted": n}
    assert not gone.done()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert (await slow).result.data == "done"
    assert crib.mcp is not None
    assert [row.running for row in crib.mcp.rows()] == [1]
    for session in (one, two, three):
        await session.close()
