"""A thread with its own event loop: connections belong to one loop, and callers may await the store from any."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias, TypeVar

from toolcrib.contract.errors import StoreFailed

T = TypeVar("T")


_Asked: TypeAlias = "tuple[Callable[[], Coroutine[Any, Any, Any]], asyncio.AbstractEventLoop, asyncio.Future[Any]]"
_Ended: TypeAlias = "tuple[asyncio.Future[Any], asyncio.Task[Any]]"


class LoopThread:
    """Runs coroutines in its thread, which starts with the first one. ``name`` is for messages.

    All requests from one iteration of a caller's loop reach the thread's loop with a single wake-up, and so do all results on
    their way back: a wake-up costs as much as the rest of a statement here.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked: list[_Asked] = []
        self._ended: dict[asyncio.AbstractEventLoop, list[_Ended]] = {}

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Start a coroutine. Raises StoreFailed if the store is closed, or was opened before this process was forked."""
        with self._lock:
            loop = self._open()
            return asyncio.run_coroutine_threadsafe(work(), loop)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine and return its result. Call this from any event loop; without a running one, it blocks.

        The coroutine finishes even if its waiter is cancelled.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self.submit(work).result()
        done: asyncio.Future[asyncio.Task[T]] = loop.create_future()
        with self._lock:
            ours = self._open()
            if not self._asked:
                ours.call_soon_threadsafe(self._begin)
            self._asked.append((work, loop, done))
        return (await done).result()

    def _begin(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, []
        for work, theirs, done in asked:
            asyncio.ensure_future(work()).add_done_callback(functools.partial(self._end, theirs, done))

    def _end(self, theirs: asyncio.AbstractEventLoop, done: asyncio.Future[Any], task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # marks the exception as seen, even if the waiter is gone
        ended = self._ended.setdefault(theirs, [])
        if not ended:
            asyncio.get_running_loop().call_soon(self._tell, theirs)
        ended.append((done, task))

    def _tell(self, theirs: asyncio.AbstractEventLoop) -> None:
        ended = self._ended.pop(theirs)
        with contextlib.suppress(RuntimeError):  # that loop was closed, so no task waits
            theirs.call_soon_threadsafe(_wake, ended)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait until all running coroutines have ended, await ``last`` in the thread, and end the thread.

        Repeating it does nothing.
        """
        with self._lock:
            loop, thread, closed = self._loop, self._thread, self._closed
            self._closed = True
        if closed or loop is None or thread is None or os.getpid() != self._pid:
            return
        asyncio.run_coroutine_threadsafe(_drained(last), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise StoreFailed(f"the store {self._name} is closed")
        if os.getpid() != self._pid:
            raise StoreFailed(f"the store {self._name} was opened before this process was forked; open it again in this process")
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(loop,), name="toolcrib-postgres", daemon=True)
            self._thread.start()
        return self._loop


def _wake(ended: Iterable[_Ended]) -> None:
    for done, task in ended:
        if not done.done():
            done.set_result(task)


async def _drained(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    own = asyncio.current_task()
    while waiting := [task for task in asyncio.all_tasks() if task is not own and task.get_name() != BACKGROUND]:
        await asyncio.wait(waiting)
    await last()


BACKGROUND = "toolcrib-background"
"""The name of a task that ``last`` ends; closing does not wait for it."""


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
