"""Threads for blocking work. They are few, and end when there is no work."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_IDLE = 5.0
"""Idle seconds after which a thread ends."""


class Workers:
    """A pool of at most ``most`` threads, shared by all event loops of the process. A forked process starts with none."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._forget()

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = self._free = 0
        self._owner = os.getpid()

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` as soon as a thread is free. ``work`` must not raise. May be called from any thread.

        Raises RuntimeError if no thread runs and none can be started; then ``work`` is dropped.
        """
        if self._owner != os.getpid():
            self._forget()
        with self._changed:
            self._waiting.append(work)
            if self._free >= len(self._waiting):
                self._changed.notify()
            elif self._threads < self._most:
                try:
                    threading.Thread(target=self._serve, name=self._name, daemon=True).start()
                except RuntimeError:
                    if self._threads:  # one of them runs it later
                        return
                    self._waiting.pop()
                    raise
                self._threads += 1

    async def run(self, work: Callable[[], _T], *, drop: Callable[[_T], None] | None = None) -> _T:
        """Return the result of ``work``, or raise its error.

        The work finishes even if its waiter is cancelled; ``drop`` then receives the result.
        """
        job = _Job(work, drop)
        self.submit(job.do)
        try:
            return await job.done
        except BaseException:
            if job.give_up():
                self.submit(job.forget)
            raise

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._free += 1
                found = self._changed.wait_for(lambda: bool(self._waiting), _IDLE)
                self._free -= 1
                if not found:
                    self._threads -= 1
                    return
                work = self._waiting.popleft()
            try:
                work()
            except Exception:  # noqa: BLE001 - work must not raise; if it does, later work still needs this thread
                _log.exception("work in the background failed")
            del work  # release the objects it refers to while this thread waits


class _Job(Generic[_T]):
    """Work for a thread. It belongs to the event loop that created it; its result is delivered there or dropped."""

    def __init__(self, work: Callable[[], _T], drop: Callable[[_T], None] | None) -> None:
        self._work, self._drop = work, drop
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[_T] = self._loop.create_future()
        self._lock = threading.Lock()
        self._results: list[_T] = []
        self._given_up = False

    def do(self) -> None:
        fault: BaseException | None = None
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - the waiter gets the error
            fault = error
        else:
            with self._lock:
                self._results.append(result)
        with self._lock:
            wanted = not self._given_up
        if wanted:
            try:
                self._loop.call_soon_threadsafe(self._tell, fault)
            except RuntimeError:  # the loop is closed, so no coroutine waits there
                wanted = False
        if not wanted:
            self.forget()

    def _tell(self, fault: BaseException | None) -> None:
        if self.done.done():
            return
        if fault is not None:
            self.done.set_exception(fault)
            return
        with self._lock:
            result = self._results.pop() if self._results else None
        self.done.set_result(result)  # type: ignore[arg-type]  # without a fault there is a result

    def give_up(self) -> bool:
        """Cancel the wait. Return True if there is a result that ``forget`` must drop."""
        with self._lock:
            self._given_up = True
            if self.done.done() and not self.done.cancelled() and self.done.exception() is None:  # delivered at the same moment
                self._results.append(self.done.result())
            return bool(self._results)

    def forget(self) -> None:
        with self._lock:
            results, self._results = self._results, []
        for result in results:
            if self._drop is not None:
                self._drop(result)
