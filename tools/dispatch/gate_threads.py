"""Plugins' synchronous gates in a worker thread, so that a gate that hangs denies its call and delays no other."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tools.dispatch.hooks import Hook
from tools.dispatch.progress import LIMIT
from tools.dispatch.threads import shared_pool

THREADS = 256
"""Maximum number of a process's gate threads. A call beyond it waits for one, and is denied if that takes too long."""
STRIKES = 3
"""Number of a plugin's gate threads that may be overdue before the plugin is cut off."""
_LONGEST = 3600.0
"""Seconds of one wait; a longer limit is waited for in parts."""


class PluginCutOff(Exception):
    """A plugin's hook was not called, since earlier calls of its hooks still hang."""


async def call_in_worker(hooks: Sequence[Hook], args: Sequence[Any], seconds: float, *, inline: bool) -> list[object]:
    """Return what each hook answers, in order; instead of an answer, the exception that the hook raised.

    One thread calls all hooks, each with a copy of the caller's context variables and ``seconds`` of its own. If one is late, its
    answer is ``TimeoutError(LIMIT)``, its thread is given up, and another thread calls the rest. An answer that comes too late is
    dropped. If a plugin is cut off, the answer is PluginCutOff. ``inline`` blocks instead of awaiting.
    """
    answers: list[object] = []
    try:
        while len(answers) < len(hooks):
            hop = _Hop(hooks[len(answers) :], args, seconds)
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
    """Hooks on their way through one worker thread. The caller and the worker share it."""

    def __init__(self, hooks: Sequence[Hook], args: Sequence[Any], seconds: float) -> None:
        self._hooks = hooks
        self._args = args
        self._seconds = seconds
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._answers: list[object] = []
        self._late_at = time.monotonic() + seconds
        self._begun = self._given_up = False
        self._wake: Callable[[], object]

    async def blocking(self) -> None:
        """Block until all hooks have answered, or one is late. Does not await: for calls that no loop drives."""
        done = threading.Lock()
        done.acquire()
        self._wake = done.release
        shared_pool(THREADS).submit(self)
        while left := self._left():
            done.acquire(timeout=left)

    async def awaiting(self) -> None:
        """Wait likewise, while the loop runs on."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._wake = lambda: loop.call_soon_threadsafe(done.cancel)
        shared_pool(THREADS).submit(self)
        while left := self._left():
            await asyncio.wait([done], timeout=left)

    def _left(self) -> float:
        """Return the seconds that the caller should wait, 0 if all hooks have answered. Gives up the thread if one is late."""
        with self._lock:
            if self._is_over:
                return 0.0
            left = self._late_at - time.monotonic()
            if left <= 0:
                self._give_up()
            return min(max(left, 0.0), _LONGEST)

    def end(self) -> list[object]:
        """Return the answers so far, and give up the thread if it still calls hooks."""
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
            self._hooks[len(self._answers)].hanging[self] = self._late_at
        self._answers.append(TimeoutError(LIMIT))

    def run(self) -> None:
        """Call the hooks; the worker's part."""
        with self._lock:
            if self._given_up:
                return
            self._begun = True
        for hook in self._hooks:
            answer = self._called(hook)
            with self._lock:
                if self._given_up:
                    hook.hanging.pop(self, None)
                    _drop(answer)
                    return
                now = time.monotonic()
                if now > self._late_at:  # its caller may not have had a chance to see it
                    _drop(answer)
                    answer = TimeoutError(LIMIT)
                self._late_at = now + self._seconds
                self._answers.append(answer)
        try:
            self._wake()
        except RuntimeError:  # the loop is closed: nothing waits
            return

    def _called(self, hook: Hook) -> object:
        overdue = [late_at for late_at in list(hook.hanging.values()) if late_at <= time.monotonic()]
        if len(overdue) >= STRIKES:
            return PluginCutOff(
                f"the plugin {hook.plugin!r} is cut off, so the call is denied: {len(overdue)} earlier calls of it still hang. "
                f"Restart toolcrib; to start without the plugin, run `toolcrib plugins disable {hook.plugin}` first"
            )
        try:
            return self._context.copy().run(hook.call, *self._args)
        except BaseException as error:
            return error


def _drop(answer: object) -> None:
    if inspect.iscoroutine(answer):
        answer.close()
