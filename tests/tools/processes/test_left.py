"""Processes that a killed toolcrib left on this machine are found and ended, and those of a living one are not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import alive
from tools.environments import open_environment
from tools.processes.left import LeftSession, left_sessions
from tools.processes.table import ProcessTable

KEEPS = """
import asyncio, sys
from tools.environments import open_environment
from tools.processes.table import ProcessTable

async def main():
    table = ProcessTable(open_environment("local", cwd="/"), sys.argv[1])
    for name in ("one", "two"):
        process = await table.start(name, "setsid sleep 300 & exec sleep 300", "/")
        print(process.pid, flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.fixture
def session() -> str:
    return f"left-{secrets.token_hex(6)}"


@pytest.fixture
def keeper(session: str, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", KEEPS, session], cwd=root, stdout=subprocess.PIPE, text=True)


def left(session: str) -> list[LeftSession]:
    return [one for one in left_sessions() if one.folder.name.startswith(session)]


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_they_are_ended_with_their_descendants_after_a_kill(keeper: subprocess.Popen[str], session: str) -> None:
    """003-30"""
    assert keeper.stdout is not None
    with keeper.stdout:
        pids = [int(keeper.stdout.readline()) for _ in range(2)]
        assert left(session) == []
        os.kill(keeper.pid, signal.SIGKILL)
        keeper.wait()
    until(lambda: left(session))
    assert all(alive.started(pid) is not None for pid in pids)
    (found,) = left(session)
    assert set(pids) <= set(found.running)
    assert found.names == ["one", "two"]
    found.end()
    assert not found.folder.exists()
    until(lambda: not any(alive.started(pid) is not None for pid in found.running))
    assert left(session) == []


async def test_a_session_is_not_left_after_a_cancelled_call(session: str) -> None:
    environment = open_environment("local", cwd="/")
    table = ProcessTable(environment, session)
    try:
        await table.start("one", "exec sleep 300", "/")
        call = asyncio.create_task(table.look())
        for _ in range(3):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        for _ in range(50):
            assert left(session) == []
            await asyncio.sleep(0.01)
    finally:
        await table.end("one")
        await table.close()
        await environment.close()


def test_a_reused_number_is_not_ended(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        folder = tmp_path / "session"
        (folder / "x").mkdir(parents=True)
        (folder / "x/pid").write_text(f"{other.pid} 1 {other.pid} 1\n")
        LeftSession(folder, ()).end()
        assert not folder.exists()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
