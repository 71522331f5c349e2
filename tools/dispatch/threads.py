"""Run sync functions beside a loop, in a bounded pool of daemon threads.

A handler that hangs therefore delays neither the end of the loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LIMIT = 64
"""Maximum number of threads in a process; further calls wait."""
IDLE = 5.0
"""Seconds after which an idle thread ends."""

_in_pool: contextvars.ContextVar[bool] = contextvars.ContextVar("toolcrib_in_pool", default=False)
"""True in code that runs in a thread of this module. Its nested calls get their own threads and never wait for the pool."""


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Await a sync function in one of the process's threads, with the caller's context variables.

    If all threads are busy, the call waits for one. Cancelling ends the wait: a function that has not started never starts, but
    a running one cannot be stopped.
    """
    return await shared_pool().run(function, *args)


async def in_own_thread(function: Callable[..., T], *args: Any) -> T:
    """Await a sync function in its own thread outside the pool's limit: for functions that wait for a user."""
    job = _Job(function, args, asyncio.get_running_loop())
    _start(job.run, f"toolcrib-{_name_of(function)}")
    value: T = await job.done()
    return value


class ThreadPool:
    """A pool of at most ``limit`` threads, started on demand and ended after ``idle`` seconds without work."""

    def __init__(self, limit: int = LIMIT, idle: float = IDLE) -> None:
        self.limit = limit
        self._seconds = idle
        self._ready = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._threads = 0
        self._idle = 0

    @property
    def threads(self) -> int:
        """The number of threads, including idle ones."""
        return self._threads

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a thread."""
        return len(self._queue)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Await ``function`` in a thread; see in_daemon_thread."""
        if _in_pool.get():
            return await in_own_thread(function, *args)
        job = _Job(function, args, asyncio.get_running_loop())
        self._submit(job)
        try:
            value: T = await job.done()
            return value
        finally:
            if job.withdraw():
                self._forget(job)

    def _submit(self, job: _Job) -> None:
        with self._ready:
            self._queue.append(job)
            if len(self._queue) <= self._idle:
                self._ready.notify()
            elif self._threads < self.limit:
                self._grow(job)

    def _grow(self, job: _Job) -> None:
        self._threads += 1
        try:
            _start(self._work, f"toolcrib-worker-{self._threads}")
        except RuntimeError:  # the system has no thread left
            self._threads -= 1
            if not self._threads:  # no thread would ever take the job
                self._queue.remove(job)
                raise

    def _forget(self, job: _Job) -> None:
        with self._ready:
            if job in self._queue:
                self._queue.remove(job)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            del job  # release its objects before the next job

    def _next(self) -> _Job | None:
        """Return the next job, or None after a while without one: the thread then ends."""
        with self._ready:
            if not self._queue:
                self._idle += 1
                self._ready.wait_for(lambda: bool(self._queue), self._seconds)
                self._idle -= 1
            if self._queue:
                return self._queue.popleft()
            self._threads -= 1
            return None


class _Job:
    """A function on its way to a thread and back. It is either started or withdrawn, never both."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._args = args
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()
        self._context = contextvars.copy_context()
        self._context.run(_in_pool.set, True)
        self._claim = threading.Lock()  # taken once, to start or to withdraw the job

    def done(self) -> asyncio.Future[Any]:
        return self._future

    def withdraw(self) -> bool:
        """Keep the function from starting. Return False if it has started."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._context.run(self._function, *self._args)
        except (StopIteration, GeneratorExit) as stop:  # a future refuses StopIteration; GeneratorExit would close a task
            error = RuntimeError(f"{type(stop).__name__}: {stop}")
        except BaseException as raised:
            error = raised
        try:
            self._loop.call_soon_threadsafe(self._deliver, value, error)
        except RuntimeError:  # the loop is closed, so no task waits
            return

    def _deliver(self, value: Any, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(value)


_pools: dict[int, ThreadPool] = {}


def shared_pool() -> ThreadPool:
    """Return the process's pool. A fork gets its own, because threads do not survive a fork."""
    pool = _pools.get(os.getpid())
    return pool if pool is not None else _pools.setdefault(os.getpid(), ThreadPool())


def _start(run: Callable[[], None], name: str) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "call"))
