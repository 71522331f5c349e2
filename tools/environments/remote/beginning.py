"""The part of a call before its command is given to a shell: it may be given up, since nothing has run yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Ended, ExecOutcome
from tools.environments._request import never_run
from tools.environments._waiter import Waiter

Result = TypeVar("Result")

_LEAST = 2.0
"""Seconds in which a shell may be made ready, even where the command's own time limit is shorter."""


class NotBegun(Exception):
    """The call was interrupted, or met its time limit, before its command could begin."""


class RemoteBeginning:
    """Beginning of one call. ``limit`` is the command's time limit in seconds: where a host or an engine does not answer, it
    counts before the command too. Belongs to the event loop that it was made in; only ``interrupt`` may be called from other
    threads.
    """

    def __init__(self, limit: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = None if limit is None else self._loop.time() + max(limit, _LEAST)
        self._ended: Ended = "exited"
        self._waiter = Waiter()

    async def wait_for(self, work: Coroutine[Any, Any, Result], drop: Callable[[Result], object] = lambda _: None) -> Result:
        """Return or raise as ``work`` does. Raises NotBegun, after ``work`` was cancelled. ``drop`` takes a result that comes
        when nobody waits for it any more.
        """
        task = self._loop.create_task(work)
        task.add_done_callback(lambda _: self._waiter.wake())
        try:
            while not task.done() and not self._is_over():
                await self._waiter.wait(self._deadline)
            task.cancel()
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(lambda task: _take(task, drop))
            raise
        if task.cancelled() and self._ended != "exited":
            raise NotBegun
        return task.result()

    def _is_over(self) -> bool:
        if self._ended == "exited" and self._deadline is not None and self._loop.time() >= self._deadline:
            self._ended = "timeout"
        return self._ended != "exited"

    def outcome(self, cwd: str, where: str) -> ExecOutcome:
        """Return the outcome of the call that was given up."""
        outcome = never_run(cwd, where)
        if self._ended != "timeout":
            return outcome
        notice = f"{where} was not ready within the time limit, so the command was not run. Call again, with a longer limit"
        return replace(outcome, ended="timeout", notice=f"{notice} if that happens often.")

    def interrupt(self) -> None:
        """Give the call up. Callable from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupted)
        except RuntimeError:  # its loop is closed, so nobody awaits it any more
            return

    def _interrupted(self) -> None:
        if self._ended == "exited":
            self._ended = "interrupted"
            self._waiter.wake()


def _take(task: asyncio.Task[Result], drop: Callable[[Result], object]) -> None:
    """Drop the result of a task that nobody waits for, where it has one."""
    if not task.cancelled() and task.exception() is None:
        drop(task.result())
