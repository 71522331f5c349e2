"""The calls that use a pool of shells, and the room that is reserved for a launcher's next shell."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from tools.environments.shell.launcher import Launcher
from tools.environments.shell.live import live_shells


class CallsInside:
    """The calls that have a shell, or wait for one. ``lock`` is the pool's lock, which the caller of ``enter`` holds."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._number = 0
        self.is_own_taken = False
        """True while one of the calls uses the session's own shell."""
        self.quiet_since = 0.0
        """The time (``time.monotonic``) when a call last ended."""

    def __bool__(self) -> bool:
        return self._number > 0

    def enter(self, *, own: bool) -> contextlib.AbstractContextManager[None]:
        """Count a call from now on until the end of the block. ``own``: it uses the session's own shell."""
        self.is_own_taken = self.is_own_taken or own
        self._number += 1
        return self._until_left(own)

    @contextlib.contextmanager
    def _until_left(self, own: bool) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._number -= 1
                self.is_own_taken = self.is_own_taken and not own
                self.quiet_since = time.monotonic()


async def reserve_room(launcher: Launcher, wanted: Callable[[], bool]) -> bool:
    """Wait for room for a launcher and its next shell, before the launcher starts anything. Raises EnvironmentFailed.

    Return False if the call is no longer wanted.
    """
    if launcher.reserved:
        return True
    live, weight = live_shells(), launcher.descriptors
    if not await live.take(weight, wanted):
        return False
    launcher.reserved.append(partial(live.give, weight))
    return True


async def take_room(launcher: Launcher, wanted: Callable[[], bool]) -> bool:
    """Take the room for a shell, reserved or free. Return False if the call is no longer wanted. Raises EnvironmentFailed."""
    try:
        launcher.reserved.pop()
    except IndexError:
        return await live_shells().take(launcher.descriptors, wanted)
    return True
