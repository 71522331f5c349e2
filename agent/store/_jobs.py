"""Work for a thread of the store, awaited by its caller."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import traceback
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]
_log = logging.getLogger(__name__)


class Job(Generic[T]):
    """A piece of work, awaitable once by the thread that made it. Without an event loop, awaiting it blocks.

    The work finishes even if its waiter is cancelled. ``alone``: it needs a connection without an open transaction.
    """

    __slots__ = ("_done", "_future", "_loop", "alone", "error", "value", "work")

    def __init__(self, work: Work[T], *, alone: bool = False) -> None:
        self.work = work
        self.alone = alone
        self.value: T | None = None
        self.error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._future: asyncio.Future[None] | None = None
        self._done: threading.Event | None = None
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._done = threading.Event()
        else:
            self._future = self._loop.create_future()

    def __await__(self) -> Generator[Any, None, T]:
        if self._done is not None:
            self._done.wait()
        elif self._future is not None:
            yield from self._future
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # set by the thread that did the work

    def do(self, connection: sqlite3.Connection) -> None:
        """Run the work in the connection's own thread. Raises what the work raises."""
        self.value = done(self.work, connection)

    @staticmethod
    def deliver(jobs: Iterable[Job[Any]]) -> None:
        """Wake the waiters of jobs, from any thread: each event loop once for all of its jobs."""
        waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for job in jobs:
            if job._done is not None:
                job._done.set()
            elif job._loop is not None and job._future is not None:
                waiting.setdefault(job._loop, []).append(job._future)
        for loop, futures in waiting.items():
            try:
                loop.call_soon_threadsafe(_wake, futures)
            except RuntimeError:  # the loop was closed, and the waiter ended with it
                _log.debug("%d operations of the store ended after their event loop", len(futures))


def done(work: Work[T], connection: sqlite3.Connection) -> T | None:
    """Run the work and return its value, or None for a cursor. Raises what the work raises.

    No cursor leaves this function, as a result or in a traceback: a freed cursor resets its statement, which another thread may
    be using again by then ("bad parameter or other API misuse", https://github.com/python/cpython/issues/118172).
    """
    try:
        value = work(connection)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise
    return None if isinstance(value, sqlite3.Cursor) else value


def _wake(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
