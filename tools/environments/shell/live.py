"""Limit the number of shells that this process keeps alive, and choose which session's shell to suspend for another."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import resource
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._census import FULL, Sessions, census
from tools.environments._spare import Spare
from tools.environments._waiter import Waiter

_PART = 0.7
"""Share of this process's descriptor limit for shells; connections, files and pipes use the rest."""
_MOST = 3600
"""Maximum number of descriptors in any case: each shell is a process, and restoring a suspended one takes only 10 ms."""
_LEAST = 28
_WAIT = 30.0
"""Seconds that a call waits for room."""
_FIRST, _OTHERS = 0.1, 2.0
"""Seconds between attempts: for the call that has waited longest, and for the others."""


class Resting(Protocol):
    """A session's pool, which keeps a shell between two commands."""

    @property
    def weight(self) -> int:
        """The descriptors of its shell."""
        ...

    def is_idle(self) -> bool:
        """Return True if it has an idle shell. Callable from any thread."""
        ...

    async def rest_shell(self, sessions: Sessions) -> bool:
        """Suspend the shell and keep its state. Return False if that is impossible. ``sessions``: a scan from just now."""
        ...


class _Waiting:
    """A call that waits in its own event loop."""

    def __init__(self, need: int) -> None:
        self.need = need
        self.granted = False
        self._loop = asyncio.get_running_loop()
        self._waiter = Waiter()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed, so it no longer waits
            self._loop.call_soon_threadsafe(self._waiter.wake)

    async def wait(self, seconds: float) -> None:
        await self._waiter.wait(self._loop.time() + seconds)


class LiveShells:
    """The living shells of this process. ``room`` is in descriptors. Safe to use from several threads and event loops at once."""

    def __init__(self, room: int) -> None:
        self.room = self._free = room
        self._coming = 0
        """Descriptors of shells that are being suspended."""
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._idle: OrderedDict[Resting, None] = OrderedDict()
        """Sessions with an idle shell, the one used longest ago first."""
        self._spare = Spare()
        self._spare.hold()

    def used(self, one: Resting) -> None:
        """Record that this session has just used a shell that it keeps."""
        with self._lock:
            self._idle[one] = None
            self._idle.move_to_end(one)
            first = self._waiting[0] if self._waiting else None
        if first is not None:
            first.wake()

    def forget(self, one: Resting) -> None:
        """Record that this session no longer has a shell."""
        with self._lock:
            self._idle.pop(one, None)

    async def take(self, need: int, wanted: Callable[[], bool]) -> bool:
        """Wait for room for a shell, and return True. ``give`` frees the room.

        Return False if the call is no longer wanted; ``look_again`` makes it check that again. Raises EnvironmentFailed if all
        shells stay busy.
        """
        with self._lock:
            if not self._waiting and need <= self._free:
                self._free -= need
                return True
            waiting = _Waiting(need)
            self._waiting.append(waiting)
        try:
            await self._until_granted(waiting, wanted)
        except BaseException:
            self._leave(waiting)
            raise
        if waiting.granted:
            return True
        self._leave(waiting)
        if wanted():
            raise EnvironmentFailed(_why(self.room, need))
        return False

    async def _until_granted(self, waiting: _Waiting, wanted: Callable[[], bool]) -> None:
        give_up = time.monotonic() + _WAIT
        while not waiting.granted and wanted() and (left := give_up - time.monotonic()) > 0:
            if not await self._make_room() and not waiting.granted and wanted():
                await waiting.wait(min(left, _FIRST if self._waiting and self._waiting[0] is waiting else _OTHERS))

    def _leave(self, waiting: _Waiting) -> None:
        with self._lock:
            with contextlib.suppress(ValueError):  # it was granted
                self._waiting.remove(waiting)
            granted, waiting.granted = waiting.granted, False
        if granted:
            self.give(waiting.need)

    def give(self, need: int) -> None:
        """Free the room of a closed shell. Callable from any thread."""
        with self._lock:
            self._free += need
            woken = []
            while self._waiting and self._waiting[0].need <= self._free:
                one = self._waiting.popleft()
                self._free -= one.need
                one.granted = True
                woken.append(one)
            if woken and self._waiting:
                woken.append(self._waiting[0])
        for one in woken:
            one.wake()

    def look_again(self) -> None:
        """Wake the waiting calls: some may no longer be wanted."""
        with self._lock:
            waiting = list(self._waiting)
        for one in waiting:
            one.wake()

    async def _make_room(self) -> bool:
        """Suspend the least recently used shells, as many as the waiting calls need. Return True if one was suspended."""
        with self._lock:
            lacking = sum(one.need for one in self._waiting) - self._free - self._coming
        return lacking > 0 and await self.release_descriptors(lacking)

    async def rest_in_need(self, lacking: int) -> bool:
        """Suspend shells when this process cannot open more files. Return True if one was suspended."""
        with self._spare.lent():
            return await self.release_descriptors(lacking)

    async def release_descriptors(self, lacking: int) -> bool:
        """Suspend the least recently used shells until this many descriptors are free. Return True if any was suspended."""
        chosen = []
        with self._lock:
            for one in self._idle:
                if lacking <= 0:
                    break
                if one.is_idle():
                    chosen.append(one)
                    lacking -= one.weight
            for one in chosen:
                del self._idle[one]
            self._coming += sum(one.weight for one in chosen)
        if not chosen:
            return False
        rested: list[bool] = []
        try:
            sessions = await census.take()
            rested = list(await asyncio.gather(*(one.rest_shell(sessions) for one in chosen)))
        except OSError:  # no file can be opened to read /proc
            return False
        finally:
            with self._lock:
                self._coming -= sum(one.weight for one in chosen)
                for one, done in zip(chosen, rested or [False] * len(chosen), strict=True):
                    if not done:  # put it at the end of the queue
                        self._idle[one] = None
        return any(rested)


def is_full(error: BaseException) -> bool:
    """Return True if a shell could not start because no more files can be opened."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in FULL


def _why(room: int, need: int) -> str:
    return (
        f"no shell could be started within {_WAIT:g} seconds: all {room // need} that this process may keep are busy, with "
        "commands or with processes that these left running. Wait for some to end, end them, or raise `ulimit -n`"
    )


def live_shells() -> LiveShells:
    """Return the registry of this process's shells."""
    return _of(os.getpid())


@functools.lru_cache(maxsize=1)
def _of(pid: int) -> LiveShells:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = _MOST if soft == resource.RLIM_INFINITY else int(soft * _PART)
    return LiveShells(max(_LEAST, min(_MOST, room)))
