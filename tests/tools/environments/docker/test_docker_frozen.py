"""An engine that answers nothing: each call returns within its own time limit, and the session continues afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.time_limit import TimeLimit

pytestmark = pytest.mark.xdist_group("docker")

GENEROUS = 40.0
"""Seconds: much more than the tests need, and less than the engine's client waits twice (30 s each)."""


@pytest.fixture
def frozen(engine: Any, env: Environment) -> Iterator[Callable[..., None]]:
    """Return a function that stops the engine; ``on=False`` continues it."""
    pid = int((Path(engine.host.removeprefix("unix://")).parent / "docker.pid").read_text())
    yield lambda on=True: os.kill(pid, signal.SIGSTOP if on else signal.SIGCONT)
    os.kill(pid, signal.SIGCONT)


def test_a_command_returns_at_its_limit_if_the_engine_freezes(env: Environment, frozen: Callable[..., None]) -> None:
    """003-29"""

    async def main() -> ExecOutcome:
        seen = asyncio.Event()
        request = ExecRequest("echo begun; sleep 7031", timeout=6.0, on_output=lambda *_: seen.set())
        call = asyncio.create_task(env.execute(request))
        await seen.wait()
        frozen()
        return await call

    asyncio.run(env.execute(ExecRequest("kept=1; true", timeout=60)))
    begun = time.monotonic()
    outcome = asyncio.run(main())
    assert time.monotonic() - begun < GENEROUS
    assert (outcome.ended, outcome.stdout.head) == ("timeout", b"begun\n")
    assert "engine does not answer" in outcome.notice
    assert "this command could not be stopped" in outcome.notice
    frozen(on=False)
    after = asyncio.run(env.execute(ExecRequest("echo $kept; ps -e -o args= | grep -c '[s]leep 7031'", timeout=60)))
    assert after.stdout.head == b"1\n0\n"


@pytest.mark.parametrize("used", [False, True])
def test_a_gate_gets_the_reason_before_its_limit(env: Environment, frozen: Callable[..., None], used: bool) -> None:
    async def main() -> None:
        with TimeLimit(5.0), pytest.raises(EnvironmentFailed, match=r"not answer.*; nothing was run"):
            await asyncio.wait_for(env.shell_state(), GENEROUS)

    if used:
        asyncio.run(env.execute(ExecRequest("x=1; true", timeout=60)))
    frozen()
    asyncio.run(main())
    frozen(on=False)
    assert asyncio.run(env.execute(ExecRequest("echo $x", timeout=60))).stdout.head == (b"1\n" if used else b"\n")
