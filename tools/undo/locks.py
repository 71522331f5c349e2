"""Locks on files, so that only one call at a time changes a file, across all sessions of one store."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

_SLOTS = 64
_FIRST, _LONGEST = 0.002, 0.05


class Slots(Protocol):
    """A fixed number of locks."""

    def take(self, slot: int) -> int | None:
        """Take a lock. Return a number for ``give_back``, or None if the lock is already taken.

        Raises OSError if locks are unavailable.
        """
        ...

    def give_back(self, taken: int) -> None:
        """Release a lock by the number that ``take`` returned."""
        ...


class FileSlots:
    """Locks that several processes share, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, slot: int) -> int | None:
        fd = _open(self._folder / f"{slot:02x}")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def give_back(self, taken: int) -> None:
        os.close(taken)


class MemorySlots:
    """Locks that the threads of one process share."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, slot: int) -> int | None:
        with self._lock:
            if slot in self._taken:
                return None
            self._taken.add(slot)
            return slot

    def give_back(self, taken: int) -> None:
        with self._lock:
            self._taken.discard(taken)


def _open(path: Path) -> int:
    """Open a lock file. Create it with its private folder if missing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


@asynccontextmanager
async def held(slots: Slots, keys: Sequence[str], seconds: float) -> AsyncIterator[None]:
    """Hold the locks of these keys. Raises TimeoutError after ``seconds``, and OSError if locks are unavailable."""
    wanted = sorted({int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:4]) % _SLOTS for key in keys})
    taken: list[int] = []
    try:
        end = time.monotonic() + seconds
        for slot in wanted:  # in order, so that two sessions never wait for each other
            wait = _FIRST
            while (got := slots.take(slot)) is None:
                if time.monotonic() > end:
                    raise TimeoutError
                await asyncio.sleep(wait)
                wait = min(_LONGEST, wait * 2)
            taken.append(got)
        yield
    finally:
        for got in reversed(taken):
            slots.give_back(got)
