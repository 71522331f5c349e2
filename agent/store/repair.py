"""Repairing a damaged store: from a backup, or with all rows that can still be read. The damaged file is kept."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from agent.store import _damage, _file, _schema
from agent.store._backup import Backups
from agent.store._mending import Mended, mend
from agent.store._pages import Pages
from agent.store._salvage import count_rows, fill
from toolcrib import StoreFailed

_NO_VERSION = 10_000
"""A version that no file has: it was overwritten."""
_LOCKED_FROM, _LOCKED = 0x40000002, 510
"""The bytes of a file on which every connection of SQLite holds a lock while it is open."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Outcome of a repair. ``saved`` has the number of rows by table."""

    path: Path
    kept: Path
    """The damaged file, under its new name."""
    saved: Mapping[str, int]
    unreadable: int
    """Rows that were there and could not be used."""
    missing_pages: int
    mended: Mended
    backup: float | None = None
    """When the backup was made that it was restored from, in Unix seconds; None where it was read out of the damaged file."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A candidate for the new file."""

    saved: Mapping[str, int]
    unreadable: int = 0
    missing_pages: int = 0
    backup: Path | None = None

    @property
    def worth(self) -> int:
        return self.saved.get("messages", 0) + self.saved.get("sessions", 0)


def examine(path: Path, evidence: Sequence[Path] = ()) -> None:
    """Check the whole file; nothing is written, and nothing made where there is none. Raises StoreFailed."""
    if not path.exists():
        return
    try:
        _damage.check_whole(path, [*evidence, *Backups(path).found()])
    except sqlite3.Error as error:
        raise _file.explained(path, error) from error


def repair(path: Path) -> Repaired:
    """Replace a damaged file. What was under way in it is ended, and what was agreed is forgotten: see ``_mending``.

    Raises StoreFailed, and then leaves everything as it was: where a process uses the file, another program made it, a newer
    toolcrib wrote it, or the disk has no room for the new one.
    """
    fresh = path.with_name(f"{path.name}-repairing")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise StoreFailed(f"{path} cannot be opened: {error.strerror or error}") from error
    try:
        _lock(descriptor, path)
        draft = _drafted(descriptor, path, fresh)
        with closing(_connected(fresh)) as connection:
            _schema.upgrade(connection, fresh, _schema.FOLDER)
            mended = mend(connection, time.time())
            saved = count_rows(connection)
        _damage.check_whole(fresh)
        return _replaced(descriptor, path, fresh, draft, saved, mended)
    except (OSError, sqlite3.Error) as error:
        raise StoreFailed(f"{path} could not be repaired, and was left as it is: {error}") from error
    finally:
        for leftover in (fresh, *_beside(fresh)):
            leftover.unlink(missing_ok=True)
        os.close(descriptor)


def forget_contents(path: Path) -> Path:
    """Put a damaged file of old contents aside: another is begun when it is needed. Return its new name. Raises StoreFailed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _lock(descriptor, path)
            kept = _dated(path)
            path.rename(kept)
            _move_beside(path, kept)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreFailed(f"{path} cannot be put aside: {error.strerror or error}") from error
    return kept


def _lock(descriptor: int, path: Path) -> None:
    """Keep everybody else out until the descriptor is closed."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKED, _LOCKED_FROM)
    except OSError as error:
        raise StoreFailed(f"{path} is in use by another process; end it, and repair the store then") from error


# -- the new file ------------------------------------------------------------------------------------------------------


def _drafted(descriptor: int, path: Path, fresh: Path) -> _Draft:
    """Make ``fresh`` of whichever has more: what can be read of the damaged file, or a backup."""
    read = _read_out(descriptor, path, fresh)
    for backup in Backups(path).found():
        try:
            _damage.check_whole(backup)
            with closing(sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                copied = _Draft(count_rows(connection), backup=backup)
        except (sqlite3.Error, StoreFailed):
            continue  # it is damaged too
        if copied.worth <= read.worth:
            break
        fresh.write_bytes(backup.read_bytes())
        return copied
    return read


def _read_out(descriptor: int, path: Path, fresh: Path) -> _Draft:
    wal = path.with_name(f"{path.name}-wal")
    pages = Pages.of(descriptor, wal.read_bytes() if wal.exists() else b"")
    newest = len(_schema.steps(_schema.FOLDER))
    if pages.application == _schema.APPLICATION_ID and newest < pages.version < _NO_VERSION:
        raise StoreFailed(f"{path} was written by a newer toolcrib, and was left as it is; upgrade toolcrib, and repair it then")
    _make_empty(fresh)
    with closing(_connected(fresh)) as connection:
        version = pages.version if 1 <= pages.version <= newest else newest
        _schema.upgrade(connection, fresh, _schema.FOLDER, upto=version)
        unreadable = fill(connection, pages)
        _schema.upgrade(connection, fresh, _schema.FOLDER)
        found = count_rows(connection)
        if not found and pages.application not in (None, _schema.APPLICATION_ID):  # with rows of ours it was damaged there too
            raise StoreFailed(f"{path} is a database of another program, and was left as it is; {_schema.ELSEWHERE}")
        return _Draft(found, unreadable, pages.missing)


def _make_empty(fresh: Path) -> None:
    for leftover in (fresh, *_beside(fresh)):
        leftover.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _connected(fresh: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(fresh, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    return connection


# -- its place ---------------------------------------------------------------------------------------------------------


def _replaced(descriptor: int, path: Path, fresh: Path, draft: _Draft, saved: Mapping[str, int], mended: Mended) -> Repaired:
    """Put the new file into the place of the damaged one, which stays under another name together with its log."""
    made = None if draft.backup is None else draft.backup.stat().st_mtime
    found = os.fstat(descriptor)
    with suppress(PermissionError):
        os.chown(fresh, found.st_uid, found.st_gid)
    kept = _dated(path)
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        path.rename(kept)
    _move_beside(path, kept)
    fresh.replace(path)
    return Repaired(path, kept, saved, draft.unreadable, draft.missing_pages, mended, made)


def _dated(path: Path) -> Path:
    """Choose a name for a damaged file that no other has."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = (path.with_name(f"{path.name}-damaged-{stamp}{more}") for more in ("", *(f".{number}" for number in range(1, 100))))
    return next(name for name in names if not name.exists())


def _move_beside(path: Path, kept: Path) -> None:
    """Put the log and the index of a damaged file beside it: the new file must not meet them."""
    for beside, name in zip(_beside(path), _beside(kept), strict=True):
        if beside.exists():
            beside.rename(name)


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
