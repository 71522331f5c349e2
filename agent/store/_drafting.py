"""The file that a repair makes, and the lock on the one that it replaces."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

from agent.store import _placing
from toolcrib.contract.errors import StoreFailed

_LOCKED_FROM, _LOCKED = 0x40000002, 510
"""The bytes of a file on which every connection of SQLite holds a lock while it is open."""


def make_missing(path: Path) -> bool:
    """Make an empty file where there is none, to hold the lock. Return whether it did."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def lock_file(descriptor: int, path: Path) -> None:
    """Keep those out who opened the file before, until the descriptor is closed."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKED, _LOCKED_FROM)
    except (BlockingIOError, PermissionError) as error:  # which of them is up to the system
        raise StoreFailed(f"{path} is in use by another process; end it, and repair the store then") from error


def make_empty(fresh: Path) -> None:
    """Make an empty file for its owner only, in the place of whatever has the name."""
    for leftover in (fresh, *_placing.beside(fresh)):
        leftover.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def connected(fresh: Path) -> sqlite3.Connection:
    """Connect to the draft, which is there: an empty one must not be begun where somebody removed it."""
    connection = sqlite3.connect(f"{fresh.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    return connection
