"""The default time limits: they hold, and their minutes pass at once, because the loop's clock jumps to its next timer."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from toolcrib import ToolCall
from tools.dispatch.batch import run_calls
from tools.dispatch.scope import Limits

LONGEST = 24 * 3600.0
"""Seconds after which a wait counts as endless."""


class Jumping(selectors.DefaultSelector):
    """A selector that never waits: if nothing is ready, the time until the next timer counts as passed."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self.passed += LONGEST if timeout is None else timeout
            assert self.passed < LONGEST, "nothing would ever have ended this wait"
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.waits = Jumping()
        super().__init__(self.waits)

    def time(self) -> float:
        return super().time() + self.waits.passed


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)


@pytest.fixture
def by_default(bench: Any) -> Any:
    bench.scope.limits = Limits()
    return bench


def call(bench: Any, name: str) -> Any:
    (executed,) = at_once(run_calls(bench.dispatcher, [ToolCall("c1", name, {})], bench.scope))
    return executed.result


def test_an_async_handler_that_never_ends(by_default: Any) -> None:
    """000-37"""

    async def never(args: Any) -> None:
        await asyncio.Event().wait()

    by_default.tool("never", never)
    assert "Timeout: no result within 300 s" in call(by_default, "never").message


def test_a_sync_handler_that_never_ends(by_default: Any) -> None:
    """000-37"""
    release = threading.Event()
    by_default.tool("never", lambda args: release.wait(60))
    try:
        assert "Timeout: no result within 300 s" in call(by_default, "never").message
    finally:
        release.set()


def test_a_gate_that_never_answers(by_default: Any) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    ran: list[Any] = []
    by_default.tool("t", ran.append)
    by_default.plugin(tool_gate=never)
    assert call(by_default, "t").is_error
    assert not ran
