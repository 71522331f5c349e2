"""Replace a damaged file with one that a repair makes, while no other process uses it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from agent.store import _locking, _placing
from toolcrib.contract.errors import StoreFailed

T = TypeVar("T")
U = TypeVar("U")
CLOSED = "permission denied; make it and its folder readable and writable, then run the repair again"
_LOCKED_FROM, _LOCKED = 0x40000002, 510
"""The bytes of a file that every open connection of SQLite locks."""


def replace_damaged(
    path: Path,
    is_damaged: Callable[[], bool],
    make: Callable[[Path, Path], T],
    count: Callable[[sqlite3.Connection], U],
) -> tuple[Path, U, T | None] | None:
    """Replace a damaged file with a new one, or finish a repair that was interrupted. Return None if the file is sound.

    ``make`` gets the new file and a copy of the damaged one, and fills the new file; ``count`` then counts its contents. Return
    the damaged file's new name, the result of ``count``, and the result of ``make``, None if this only finished a repair. Raises
    StoreFailed, and then leaves everything as it was, except in the last steps: the next repair finishes those.
    """
    try:
        with _locking.replacing(path):
            if not _placing.repaired(path).exists() and not is_damaged():
                return None
            with held(path) as descriptor:
                made = None if _placing.repaired(path).exists() else _drafted(descriptor, path, make)
                with closing(connected(_placing.repaired(path))) as connection:
                    counted = count(connection)
                return _placing.finish(path), counted, made
    except (OSError, sqlite3.Error) as error:
        if _placing.repaired(path).exists():
            raise StoreFailed(
                f"the repair of {path} is not finished ({error}). Fix that and run the repair again; it continues"
            ) from error
        why = CLOSED if isinstance(error, PermissionError) else error
        raise StoreFailed(f"{path} could not be repaired and was not changed: {why}") from error


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold SQLite's lock on a file, and yield its descriptor.

    A missing file is created, and removed again if the repair fails.
    """
    made = _make_missing(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _lock(descriptor, path)
        yield descriptor
    except BaseException:
        if made and not _placing.repaired(path).exists():
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def make_empty(fresh: Path) -> None:
    """Create an empty file, readable only by its owner, replacing any file of that name."""
    _remove(fresh)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def connected(fresh: Path) -> sqlite3.Connection:
    """Return a connection to the existing draft. If the draft was removed, this fails instead of creating an empty one."""
    connection = _opened(fresh)
    connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    return connection


def connected_damaged(copy: Path) -> sqlite3.Connection:
    """Return a connection to the copy of a damaged file, or to a backup, to read as much as SQLite can."""
    connection = _opened(copy)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA writable_schema = ON")  # otherwise SQLite reads nothing from a truncated file
    return connection


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _drafted(descriptor: int, path: Path, make: Callable[[Path, Path], T]) -> T:
    """Create and fill the new file, and rename it to the name of a repaired file."""
    _placing.remove_left(path, "repairing")
    fresh = _placing.draft_of(path)
    try:
        make_empty(fresh)
        with _copied(descriptor, path, fresh.with_name(f"{fresh.name}-damaged")) as damaged:
            made = make(fresh, damaged)
        _placing.commit(path, fresh)
    finally:
        _remove(fresh)
    return made


@contextmanager
def _copied(descriptor: int, path: Path, copy: Path) -> Iterator[Path]:
    """Yield a copy of a damaged file and its log, because SQLite would write to the original when it opens it."""
    log, _ = _placing.beside(path)
    try:
        make_empty(copy)
        # closing another descriptor of the file would drop the lock on it
        with open(descriptor, "rb", closefd=False) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        if log.exists():
            shutil.copyfile(log, _placing.beside(copy)[0])
        yield copy
    finally:
        _remove(copy)


def _remove(path: Path) -> None:
    for file in (path, *_placing.beside(path)):
        file.unlink(missing_ok=True)


def _make_missing(path: Path) -> bool:
    """Create an empty file for the lock if there is none. Return whether it was created."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def _lock(descriptor: int, path: Path) -> None:
    """Lock out processes that opened the file before, until the descriptor is closed."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKED, _LOCKED_FROM)
    except (BlockingIOError, PermissionError) as error:  # which of the two depends on the system
        raise StoreFailed(f"{path} is in use by another process; stop it, then repair the store") from error
