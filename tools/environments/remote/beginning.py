"""The part of a call before a shell gets its command. It may be cancelled, because nothing has run yet."""

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
"""Minimum seconds for preparing a shell, even if the command's own time limit is shorter."""


class NotBegun(Exception):
    """The call was interrupted, or reached its time limit, before its command started."""


class RemoteBeginning:
    """The beginning of one call. ``limit`` is the command's time limit in seconds; it also applies before the command starts.

    It belongs to the event loop that created it; only ``interrupt`` may be called from other threads.
    """

    def __init__(self, limit: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = None if limit is None else self._loop.time() + max(limit, _LEAST)
        self._ended: Ended = "exited"
        self._waiter = Waiter()

    async def wait_for(self, work: Coroutine[Any, Any, Result], drop: Callable[[Result], object] = lambda _: None) -> Result:
        """Return the result of ``work``, or raise its error. After an interrupt or the time limit, cancel ``work`` and raise
        NotBegun.

        ``drop`` receives a result that arrives after the wait was cancelled.
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
            task.add_done_callback(lambda task: drop_result(task, drop))
            raise
        if task.cancelled() and self._ended != "exited":
            raise NotBegun
        return task.result()

    def _is_over(self) -> bool:
        if self._ended == "exited" and self._deadline is not None and self._loop.time() >= self._deadline:
            self._ended = "timeout"
        return self._ended != "exited"

    def outcome(self, cwd: str, where: str) -> ExecOutcome:
        """Return the outcome of the cancelled call."""
        outcome = never_run(cwd, where)
        if self._ended != "timeout":
            return outcome
        notice = f"{where} was not ready within the time limit, so the command was not run. Call again, with a longer limit"
        return replace(outcome, ended="timeout", notice=f"{notice} if that happens often.")

    def interrupt(self) -> None:
        """Cancel the call. Callable from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupted)
        except RuntimeError:  # its loop is closed, so no task awaits it
            return

    def _interrupted(self) -> None:
        if self._ended == "exited":
            self._ended = "interrupted"
            self._waiter.wake()


def drop_result(task: asyncio.Task[Result], drop: Callable[[Result], object]) -> None:
    """Drop the result of a task, if it has one, after its waiter was cancelled."""
    if not task.cancelled() and task.exception() is None:
        drop(task.result())
