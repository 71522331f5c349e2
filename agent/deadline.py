"""A time limit on frequent waits, such as for the next piece of a stream, with one timer for many of them."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadline:
    """A reusable context manager that limits the time of its block.

    It limits as asyncio.timeout does, at a fraction of the cost: the timer is set again only if it would fire too late, or fired
    too early.

        with deadline.within(seconds):
            await something
    """

    __slots__ = ("_asked", "_due", "_has_passed", "_loop", "_task", "_timer")

    def __init__(self) -> None:
        """Create it in the event loop that uses it."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._due = 0.0
        self._asked = 0
        self._has_passed = False

    def within(self, seconds: float) -> Deadline:
        """Set the time limit of the next block. The block raises TimeoutError if it takes longer."""
        self._due = self._loop.time() + seconds
        return self

    def __enter__(self) -> Deadline:
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a deadline can be used only within a task")
        self._task, self._asked = task, task.cancelling()
        if self._timer is None or self._timer.when() > self._due:
            self.close()
            self._timer = self._loop.call_at(self._due, self._look)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        task, self._task = self._task, None
        if self._has_passed:
            self._has_passed = False
            if task is not None and task.uncancel() <= self._asked and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def close(self) -> None:
        """Cancel the timer. The deadline may be used again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return  # no block waits; the next one sets it again
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._has_passed = True
            self._task.cancel()
