"""A thread with an event loop of its own: connections belong to one loop, and the store may be awaited from any."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolcrib import StoreFailed

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in its thread, which starts with the first one. ``name`` is for messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Start it. Raises StoreFailed where the store is closed, or was opened before this process was forked."""
        with self._lock:
            if self._closed:
                raise StoreFailed(f"the store {self._name} is closed")
            if os.getpid() != self._pid:
                raise StoreFailed(f"the store {self._name} was opened before this process was forked; open one of its own")
            return asyncio.run_coroutine_threadsafe(work(), self._started())

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await it from any loop, or block where none runs. Where the waiting is cancelled, it is done all the same."""
        future = self.submit(work)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return future.result()
        done = loop.create_future()

        def wake(_future: object) -> None:
            with contextlib.suppress(RuntimeError):  # that loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_wake, done)

        future.add_done_callback(wake)
        await done
        return future.result()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait until all that was begun has ended, await ``last`` in the thread, and end it. Again does nothing."""
        with self._lock:
            loop, thread, closed = self._loop, self._thread, self._closed
            self._closed = True
        if closed or loop is None or thread is None or os.getpid() != self._pid:
            return
        asyncio.run_coroutine_threadsafe(_drained(last), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(loop,), name="toolcrib-postgres", daemon=True)
            self._thread.start()
        return self._loop


def _wake(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def _drained(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    own = asyncio.current_task()
    while waiting := [task for task in asyncio.all_tasks() if task is not own and task.get_name() != BACKGROUND]:
        await asyncio.wait(waiting)
    await last()


BACKGROUND = "toolcrib-background"
"""The name of a task that ``last`` ends; none waits for it."""


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
