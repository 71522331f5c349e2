"""Call plugins' synchronous gates in a worker thread: if a gate hangs, its own call is denied and no other call is delayed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from toolcrib.contract.decision import Block
from tools.dispatch.hooks import Hook
from tools.dispatch.progress import LIMIT

THREADS = 512
"""Maximum number of gate threads in a process. A call that would need one more fails."""
STRIKES = 3
"""Number of late answers after which a plugin is cut off."""
IDLE = 5.0
"""Seconds after which an idle thread ends."""
_LONGEST = 0.5
"""Maximum seconds of one wait. Longer limits take several waits, so that Python handles signals that other threads received."""


class PluginCutOff(Exception):
    """A plugin's hook was not called, because earlier answers of the plugin were late."""

    def __init__(self, plugin: str) -> None:
        super().__init__(
            f"the plugin {plugin!r} is cut off, so the call is denied: it did not answer {STRIKES} earlier calls in time. "
            f"Restart toolcrib; to start without the plugin, run `toolcrib plugins disable {plugin}` first"
        )


async def call_in_worker(hooks: Sequence[Hook], args: Sequence[Any], seconds: float, *, inline: bool) -> list[object]:
    """Return each hook's answer, in order, or the exception that it raised.

    One thread calls all hooks, each with a copy of the caller's context variables and its own ``seconds``. If a hook is
    late, its answer is ``TimeoutError(LIMIT)``, the thread is abandoned, and another thread calls the remaining hooks. A late
    answer is dropped. If a hook's plugin is cut off, the hook is not called and its answer is PluginCutOff. With ``inline``, this
    function blocks and never awaits.
    """
    answers: list[object] = []
    try:
        while len(answers) < len(hooks):
            callable_now = list(itertools.takewhile(_may_be_called, hooks[len(answers) :]))
            if not callable_now:
                answers.append(PluginCutOff(hooks[len(answers)].plugin))
                continue
            hop = _Hop(callable_now, args, seconds)
            try:
                await (hop.blocking() if inline else hop.awaiting())
            finally:
                answers += hop.end()
    except BaseException:
        for answer in answers:
            _drop(answer)
        raise
    return answers


class _Hop:
    """Hooks that one worker thread calls. The caller and the worker share this object."""

    def __init__(self, hooks: Sequence[Hook], args: Sequence[Any], seconds: float) -> None:
        self._hooks = hooks
        self._args = args
        self._seconds = seconds
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._answers: list[object] = []
        self._late_at = time.monotonic() + seconds
        self._begun = self._given_up = False
        self.wake: Callable[[], object]
        """Wakes the waiting caller. May be called from any thread."""

    async def blocking(self) -> None:
        """Block until all hooks have answered, or one is late. Never awaits, so it also works without a loop."""
        done = threading.Lock()
        done.acquire()
        self.wake = done.release
        _threads().submit(self)
        while left := self._left():
            done.acquire(timeout=left)

    async def awaiting(self) -> None:
        """Wait until all hooks have answered, or one is late. The loop continues meanwhile."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(done.cancel)

        self.wake = wake
        _threads().submit(self)
        while left := self._left():
            await asyncio.wait([done], timeout=left)

    def _left(self) -> float:
        """Return the seconds to wait; 0 if all hooks have answered or one is late, whose thread is then abandoned."""
        with self._lock:
            if self._is_over:
                return 0.0
            left = self._late_at - time.monotonic()
            if left <= 0:
                self._give_up()
            return min(max(left, 0.0), _LONGEST)

    def end(self) -> list[object]:
        """Return the answers so far, and abandon the thread if it still calls hooks."""
        with self._lock:
            if not self._is_over:
                self._give_up()
            return self._answers

    @property
    def _is_over(self) -> bool:
        return self._given_up or len(self._answers) == len(self._hooks)

    def _give_up(self) -> None:
        self._given_up = True
        if self._begun:
            self._hooks[len(self._answers)].late_at[self] = self._late_at
        self._answers.append(TimeoutError(LIMIT))

    def run(self) -> None:
        """Call the hooks, in the worker thread."""
        with self._lock:
            self._begun = not self._given_up
        if not self._begun:
            return
        for hook in self._hooks:
            answer = self._called(hook)
            with self._lock:
                now = time.monotonic()
                if self._given_up:
                    if now <= self._late_at:  # the caller was interrupted before the deadline
                        hook.late_at.pop(self, None)
                    _drop(answer)
                    return
                if now > self._late_at:  # the caller may not have noticed yet
                    hook.late_at[self] = self._late_at
                    _drop(answer)
                    answer = TimeoutError(LIMIT)
                self._late_at = now + self._seconds
                self._answers.append(answer)

    def _called(self, hook: Hook) -> object:
        try:
            answer = self._context.copy().run(hook.call, *self._args)
            isinstance(answer, Block)  # an answer may compute its class: do it here and not in the loop
            return answer
        except BaseException as error:
            return error


def _may_be_called(hook: Hook) -> bool:
    return len(hook.late_at) < STRIKES or sum(late_at <= time.monotonic() for late_at in list(hook.late_at.values())) < STRIKES


def _drop(answer: object) -> None:
    if inspect.iscoroutine(answer):
        answer.close()


class _Threads:
    """Daemon threads that run one hop at a time each. One that hangs delays neither other hops nor the process's exit."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[_Hop]] = []
        """The queues of threads that have nothing to do."""
        self._lock = threading.Lock()
        self._number = 0

    def submit(self, hop: _Hop) -> None:
        """Run ``hop`` in an idle thread or a new one. Raises RuntimeError if no more threads can start."""
        try:
            jobs: queue.SimpleQueue[_Hop] | None = self._idle.pop()
        except IndexError:
            jobs = None
        if jobs is None:
            jobs = self._started()
        jobs.put(hop)

    def _started(self) -> queue.SimpleQueue[_Hop]:
        jobs: queue.SimpleQueue[_Hop] = queue.SimpleQueue()
        with self._lock:
            if self._number >= THREADS:
                raise RuntimeError(f"{THREADS} threads are calling plugins' gates already")
            threading.Thread(target=self._work, args=(jobs,), name="toolcrib-gate", daemon=True).start()
            self._number += 1
        return jobs

    def _work(self, jobs: queue.SimpleQueue[_Hop]) -> None:
        while (hop := self._next(jobs)) is not None:
            hop.run()
            self._idle.append(jobs)
            hop.wake()
            del hop  # release its objects before the next hop
        with self._lock:
            self._number -= 1

    def _next(self, jobs: queue.SimpleQueue[_Hop]) -> _Hop | None:
        try:
            return jobs.get(timeout=IDLE)
        except queue.Empty:
            with contextlib.suppress(ValueError):  # not in the list: a hop was just assigned
                self._idle.remove(jobs)
                return None
        return jobs.get()


_of_process: dict[int, _Threads] = {}


def _threads() -> _Threads:
    """Return the process's threads. A fork has its own, because threads do not survive a fork."""
    found = _of_process.get(os.getpid())
    return found if found is not None else _of_process.setdefault(os.getpid(), _Threads())
