"""The lock for opening a store's file, shared by any number of processes, or for replacing it, held by a single process.

SQLite's own locks belong to a file, not to its name: a process that had opened the damaged file and waited for its lock would
continue with the old file and the new log. Therefore this lock is on the folder. It leaves nothing behind, and works in a
read-only folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed

_log = logging.getLogger(__name__)
_LOOK = 0.02
"""Seconds between two attempts."""


@dataclass(frozen=True, slots=True)
class FolderLock:
    """A held lock. ``descriptor`` is None if the folder can't be opened; then, as on some network disks, nothing is locked."""

    descriptor: int | None

    def is_alone(self) -> bool:
        """Make the lock exclusive, and return whether that worked; False if the folder can't be opened."""
        return self.descriptor is not None and _try(self.descriptor, fcntl.LOCK_EX)


@contextmanager
def opening(path: Path, seconds: float) -> Iterator[FolderLock]:
    """Hold the lock of an existing folder, shared with other openers. Raises StoreFailed while the file is being replaced."""
    with _descriptor(path) as descriptor:
        end = time.monotonic() + seconds
        while descriptor is not None and not _try(descriptor, fcntl.LOCK_SH):
            if time.monotonic() > end:
                raise StoreFailed(f"{path} is being repaired by another process; try again later")
            time.sleep(_LOOK)
        yield FolderLock(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[FolderLock]:
    """Hold the lock exclusively. Raises StoreFailed at once if another process holds it."""
    with _descriptor(path) as descriptor:
        if descriptor is not None and not _try(descriptor, fcntl.LOCK_EX):
            raise StoreFailed(f"{path} is in use by another process, which opens or repairs it; try again later")
        yield FolderLock(descriptor)


@contextmanager
def looking(path: Path) -> Iterator[bool]:
    """Hold the lock exclusively if it is free, so that no process opens the file meanwhile; otherwise yield False."""
    with _descriptor(path) as descriptor:
        yield descriptor is not None and _try(descriptor, fcntl.LOCK_EX)


@contextmanager
def _descriptor(path: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _log.debug("%s can't be locked: %s", path.parent, error)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try(descriptor: int, how: int) -> bool:
    """Take the lock without waiting. Return False if another process holds it, but True if the folder can't be locked."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        _log.debug("the store's folder can't be locked: %s", error)
    return True
