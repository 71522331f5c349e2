"""Repair a damaged store from its newest sound backup and the rows that SQLite can still read. The damaged file is kept."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent.store import _damage, _file, _locking, _placing, _schema
from agent.store._backup import Backups
from agent.store._drafting import CLOSED, connected, connected_damaged, held, make_empty, replace_damaged
from agent.store._mending import Mended, mend
from agent.store._merging import Restored, lay_over
from agent.store._rows import copy_rows, count_rows, unreadable_rows
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import StoreFailed

_log = logging.getLogger(__name__)
_NO_VERSION = 10_000
"""A version above that of any real file: a higher number means that the header was overwritten."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Outcome of a repair. ``saved`` has the number of rows by table."""

    path: Path
    kept: Path
    """The damaged file, under its new name."""
    saved: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0
    """Rows that were found in the damaged file but could not be used."""
    cut: Sequence[str] = ()
    """Tables of the damaged file that were not read completely; empty if nothing was readable."""
    mended: Mended = field(default_factory=Mended)
    backup: float | None = None
    """Time of the backup that was used, in Unix seconds; None if the damaged file had everything."""
    restored: Sequence[Restored] = ()
    """Every conversation, the last used first, with its source; empty without a backup."""
    is_finished_only: bool = False
    """True if this only finished a repair whose process had died; what was lost then is unknown."""


def examine(path: Path, evidence: Sequence[Path] = (), tables: Path = _schema.FOLDER) -> None:
    """Check the whole file, and its rows if it is of the newest version of ``tables``; nothing is written.

    Raises StoreDamaged, and another StoreFailed if it can't be checked.
    """
    try:
        path = _placing.real(path)
        if not path.parent.exists():
            return
        _damage.check_length(path)
        with _locking.opening(path, _file.BUSY_SECONDS):
            _examine(path, evidence, tables)
    except OSError as error:
        raise StoreFailed(f"{path} can't be read: {error.strerror or error}; make it and its folder readable") from error


def is_damaged(path: Path, evidence: Sequence[Path] = (), tables: Path = _schema.FOLDER) -> bool:
    """Return whether the file is still damaged once the caller holds the lock: another process may just have repaired it.

    Raises StoreFailed if it can't be checked.
    """
    try:
        _damage.check_length_alone(path)
        _examine(path, evidence, tables)
    except _damage.StoreDamaged:
        return True
    return False


def _examine(path: Path, evidence: Sequence[Path] = (), tables: Path = _schema.FOLDER) -> None:
    try:
        _damage.check_whole(path, [*evidence, *Backups(path).found()])
        _check_records(path, tables)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _file.explained(path, error) from error


def _check_records(path: Path, tables: Path) -> None:
    """Raise StoreDamaged for unusable rows: SQLite checks only its own pages."""
    if not path.exists() or not path.stat().st_size:
        return
    with closing(_damage.read_only(path)) as connection:
        if _schema.check(connection, path, newest=_NO_VERSION) != len(_schema.steps(tables)):
            return  # another version: its rows have other shapes
        bad = unreadable_rows(connection)
    if bad:
        raise _damage.damaged(path, [f"unreadable rows of {name}: {number}" for name, number in bad.items()])


def repair(path: Path, evidence: Sequence[Path] = ()) -> Repaired | None:
    """Replace a damaged file. Work under way ends, and grants are removed: see ``_mending``.

    Return None for a sound file. Raises StoreFailed and leaves everything unchanged if a process uses the file, another program
    made it, a newer toolcrib wrote it, or the disk has no room for the new one.
    """
    path = _real(path)
    done = replace_damaged(path, partial(is_damaged, path, evidence), partial(_fill, path), count_rows)
    if done is None:
        return None
    kept, saved, made = done
    return replace(made or Repaired(path, kept, is_finished_only=True), kept=kept, saved=saved)


def forget_contents(path: Path) -> Path | None:
    """Rename a damaged file of old contents; the next use makes a new one. Return its new name, or None if it is sound.

    Raises StoreFailed.
    """
    path = _real(path)
    try:
        with _locking.replacing(path):
            if not is_damaged(path):
                return None
            with held(path):
                kept = _placing.dated(path)
                path.rename(kept)
                _placing.put_beside(path, kept)
                return kept
    except OSError as error:
        why = CLOSED if isinstance(error, PermissionError) else error.strerror or error
        raise StoreFailed(f"{path} can't be renamed: {why}") from error


def forget_index(path: Path) -> bool:
    """Remove a damaged search index; the next search makes a new one. Return False if it is sound. Raises StoreFailed."""
    try:
        with _locking.replacing(path):
            if not is_damaged(path):
                return False
            for file in (path, *_placing.beside(path)):
                file.unlink(missing_ok=True)
            return True
    except OSError as error:
        raise StoreFailed(f"{path} can't be removed: {CLOSED if isinstance(error, PermissionError) else error}") from error


def _real(path: Path) -> Path:
    try:
        return _placing.real(path)
    except OSError as error:
        raise StoreFailed(f"{path} can't be read: {error.strerror or error}; make its folder readable") from error


# -- the new file ------------------------------------------------------------------------------------------------------


def _fill(path: Path, fresh: Path, damaged: Path) -> Repaired:
    """Fill ``fresh`` with the readable rows of ``damaged``, and with the additional rows of the newest sound backup."""
    application, unreadable, cut = _read_out(damaged, fresh, path)
    backup, restored = _join_newest_sound(fresh, Backups(path).found())
    has_more = bool(cut) or any(one.source == "copy" for one in restored)
    with closing(connected(fresh)) as connection:
        # if the file has rows of toolcrib, its application id was damaged too
        if application not in (None, _schema.APPLICATION_ID) and not count_rows(connection):
            raise StoreFailed(f"{path} is a database of another program and was not changed; {_schema.ELSEWHERE}")
        mended = mend(connection, time.time())
        saved = count_rows(connection)
    _examine(fresh)
    with closing(connected(fresh)) as connection:
        if count_rows(connection) != saved:
            raise StoreFailed("the repaired file was changed during the repair and is not used; run the repair again")
    return Repaired(path, path, saved, unreadable, cut, mended, backup if has_more else None, restored)


def _join_newest_sound(fresh: Path, backups: Sequence[Path]) -> tuple[float | None, Sequence[Restored]]:
    """Merge the first sound backup into the draft. Return the backup's time, and every conversation with its source."""
    for backup in backups:
        if fault := _damage.fault_of_backup(backup):
            _log.info("%s is unusable and was skipped: %s", backup, fault)
            continue
        return backup.stat().st_mtime, _join(fresh, backup)
    return None, ()


def _join(fresh: Path, backup: Path) -> Sequence[Restored]:
    copy = fresh.with_name(f"{fresh.name}-copy")
    try:
        _read_out(backup, copy, backup)
        with closing(connected(fresh)) as connection:
            return lay_over(connection, copy)
    finally:
        for leftover in (copy, *_placing.beside(copy)):
            leftover.unlink(missing_ok=True)


def _read_out(file: Path, fresh: Path, name: Path) -> tuple[int | None, int, Sequence[str]]:
    """Make ``fresh`` a store of the newest version with the readable rows of ``file``; messages call the file ``name``.

    Return the file's application id or None, the number of unusable rows, and the tables that were not read completely (empty if
    nothing was readable).
    """
    newest = len(_schema.steps(_schema.FOLDER))
    make_empty(fresh)
    with closing(connected_damaged(file)) as source, closing(connected(fresh)) as connection:
        application, version = _header(source, file)
        if application == _schema.APPLICATION_ID and newest < version < _NO_VERSION:
            raise StoreFailed(f"{name} was written by a newer toolcrib and was not changed; upgrade toolcrib, then repair it")
        _schema.upgrade(connection, fresh, _schema.FOLDER, upto=version if 1 <= version <= newest else newest)
        unreadable, cut = copy_rows(source, connection)
        _schema.upgrade(connection, fresh, _schema.FOLDER)
        return application, unreadable, cut if count_rows(connection) else ()


def _header(source: sqlite3.Connection, file: Path) -> tuple[int | None, int]:
    """Return the application id and the version of a file; None and 0 if SQLite finds no database, or an empty one."""
    if file.stat().st_size < _damage.SMALLEST:
        return None, 0
    try:
        (application,) = source.execute("PRAGMA application_id").fetchone()
        (version,) = source.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        _log.info("%s has no readable header: %s", file, error)
        return None, 0
    return application, version
