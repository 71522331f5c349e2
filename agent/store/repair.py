"""Repairing a damaged store with all rows that can still be read, and from a backup. The damaged file is kept."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.store import _damage, _file, _locking, _placing, _schema
from agent.store._backup import Backups
from agent.store._drafting import connected, lock_file, make_empty, make_missing
from agent.store._mending import Mended, mend
from agent.store._merging import Restored, lay_over
from agent.store._pages import Pages
from agent.store._salvage import count_rows, fill, unreadable_rows
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import StoreFailed

_log = logging.getLogger(__name__)
_NO_VERSION = 10_000
"""A version that no file has: it was overwritten."""
_CLOSED = "permission denied; make it and its folder readable and writable, and run the repair again"


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
    """When the backup was made that conversations were restored from, in Unix seconds; None where the damaged file has all."""
    restored: Sequence[Restored] = ()
    """Every conversation, the one that was used last first, with its source; empty without a backup."""
    is_finished_only: bool = False
    """A process had died in the last steps of a repair, which are done now: what was lost then is not known."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A candidate for the new file."""

    saved: Mapping[str, int]
    unreadable: int = 0
    missing_pages: int = 0
    is_foreign: bool = False
    """The file says that another program made it, and nothing of ours is in it."""
    backup: float | None = None
    """When the backup was made that conversations are from."""
    restored: Sequence[Restored] = ()


def examine(path: Path, evidence: Sequence[Path] = ()) -> None:
    """Check the whole file; nothing is written. Raises StoreDamaged, and another StoreFailed where it can't be checked."""
    try:
        path = _placing.real(path)
        if not path.parent.exists():
            return
        _damage.check_length(path)
        with _locking.opening(path, _file.BUSY_SECONDS):
            _examine(path, evidence)
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error.strerror or error}; make it and its folder readable") from error


def _examine(path: Path, evidence: Sequence[Path]) -> None:
    try:
        _damage.check_whole(path, [*evidence, *Backups(path).found()])
        _check_records(path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _file.explained(path, error) from error


def _check_records(path: Path) -> None:
    """Raise StoreDamaged for rows that can't be used: SQLite only looks after its own pages."""
    if not path.exists() or not path.stat().st_size:
        return
    with closing(_damage.read_only(path)) as connection:
        newest = len(_schema.steps(_schema.FOLDER))
        _schema.check(connection, path, newest=_NO_VERSION)
        found = connection.execute(
            "SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_master WHERE name = 'sessions')"
            " FROM pragma_application_id AS a, pragma_user_version AS v"
        ).fetchone()
        if found != (_schema.APPLICATION_ID, newest, 1):
            return  # of another version, or old contents of files: their rows have other shapes
        bad = unreadable_rows(connection)
    if bad:
        raise _damage.damaged(path, [f"unreadable rows of {name}: {number}" for name, number in bad.items()])


def repair(path: Path, evidence: Sequence[Path] = ()) -> Repaired | None:
    """Replace a damaged file. What was under way in it is ended, and what was agreed is forgotten: see ``_mending``.

    Returns None for a file that is not damaged (any more). Raises StoreFailed, and then leaves everything as it was: where a
    process uses the file, another program made it, a newer toolcrib wrote it, or the disk has no room for the new one.
    """
    try:
        path = _placing.real(path)
        with _locking.replacing(path):
            if not _placing.repaired(path).exists() and not _is_damaged(path, evidence):
                return None
            return _repair(path)
    except (OSError, sqlite3.Error) as error:
        if _placing.repaired(path).exists():
            raise StoreFailed(
                f"the repair of {path} is not finished ({error}); mend that, and run it again: it goes on"
            ) from error
        if isinstance(error, PermissionError):
            raise StoreFailed(f"{path} could not be repaired, and was left as it is: {_CLOSED}") from error
        raise StoreFailed(f"{path} could not be repaired, and was left as it is: {error}") from error


def _repair(path: Path) -> Repaired:
    made = make_missing(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        lock_file(descriptor, path)
        if _placing.repaired(path).exists():
            return _finished(path)
        _placing.remove_left(path, "repairing")
        return _replaced(descriptor, path)
    except BaseException:
        if made and not _placing.repaired(path).exists():
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def forget_contents(path: Path) -> Path | None:
    """Put a damaged file of old contents aside: another is begun when it is needed. Return its new name; None where it is sound.

    Raises StoreFailed.
    """
    try:
        path = _placing.real(path)
        with _locking.replacing(path):
            return _put_aside(path) if _is_damaged(path, ()) else None
    except OSError as error:
        why = _CLOSED if isinstance(error, PermissionError) else error.strerror or error
        raise StoreFailed(f"{path} cannot be put aside: {why}") from error


def forget_index(path: Path) -> bool:
    """Remove a damaged search index: another is made when it is needed. Return False where it is sound. Raises StoreFailed."""
    try:
        with _locking.replacing(path):
            if not _is_damaged(path, ()):
                return False
            for file in (path, *_placing.beside(path)):
                file.unlink(missing_ok=True)
            return True
    except OSError as error:
        raise StoreFailed(f"{path} cannot be removed: {_CLOSED if isinstance(error, PermissionError) else error}") from error


def _put_aside(path: Path) -> Path:
    make_missing(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        lock_file(descriptor, path)
        kept = _placing.dated(path)
        path.rename(kept)
        _placing.put_beside(path, kept)
    finally:
        os.close(descriptor)
    return kept


def _is_damaged(path: Path, evidence: Sequence[Path]) -> bool:
    """Look again, under the lock: another process may have repaired it. Raises StoreFailed where it can't be checked."""
    try:
        _damage.check_length_alone(path)
        _examine(path, evidence)
    except _damage.StoreDamaged:
        return True
    return False


# -- the new file ------------------------------------------------------------------------------------------------------


def _drafted(descriptor: int, path: Path, fresh: Path) -> _Draft:
    """Make ``fresh`` of what can be read of the damaged file, and of the newest sound backup where that has more."""
    draft = _read_out(descriptor, path, fresh)
    for backup in Backups(path).found():
        try:
            _damage.check_whole(backup)
            draft = _joined(draft, fresh, backup)
            break
        except (sqlite3.Error, StoreFailed) as error:
            _log.info("%s is damaged too, and passed over: %s", backup, error)
    if draft.is_foreign and not draft.saved:
        raise StoreFailed(f"{path} is a database of another program, and was left as it is; {_schema.ELSEWHERE}")
    return draft


def _joined(draft: _Draft, fresh: Path, backup: Path) -> _Draft:
    """Lay the backup over the draft. Raises sqlite3.Error and StoreFailed, and then the draft is as it was."""
    copy = fresh.with_name(f"{fresh.name}-copy")
    try:
        make_empty(copy)
        copy.write_bytes(backup.read_bytes())
        with closing(connected(copy)) as connection:
            _schema.upgrade(connection, copy, _schema.FOLDER)
        with closing(connected(fresh)) as connection:
            restored = lay_over(connection, copy)
            saved = count_rows(connection)
    finally:
        for leftover in (copy, *_placing.beside(copy)):
            leftover.unlink(missing_ok=True)
    made = backup.stat().st_mtime if any(one.source == "copy" for one in restored) else None
    return replace(draft, saved=saved, backup=made, restored=restored)


def _read_out(descriptor: int, path: Path, fresh: Path) -> _Draft:
    wal = path.with_name(f"{path.name}-wal")
    pages = Pages.of(descriptor, wal.read_bytes() if wal.exists() else b"")
    newest = len(_schema.steps(_schema.FOLDER))
    if pages.application == _schema.APPLICATION_ID and newest < pages.version < _NO_VERSION:
        raise StoreFailed(f"{path} was written by a newer toolcrib, and was left as it is; upgrade toolcrib, and repair it then")
    make_empty(fresh)
    with closing(connected(fresh)) as connection:
        version = pages.version if 1 <= pages.version <= newest else newest
        _schema.upgrade(connection, fresh, _schema.FOLDER, upto=version)
        unreadable = fill(connection, pages)
        _schema.upgrade(connection, fresh, _schema.FOLDER)
        found = count_rows(connection)
        # with rows of ours it was damaged there too
        is_foreign = not found and pages.application not in (None, _schema.APPLICATION_ID)
        return _Draft(found, unreadable, pages.missing, is_foreign=is_foreign)


# -- its place ---------------------------------------------------------------------------------------------------------


def _replaced(descriptor: int, path: Path) -> Repaired:
    """Make the new file and put it into the place of the damaged one, which stays under another name together with its log."""
    fresh = _placing.draft_of(path)
    try:
        draft = _drafted(descriptor, path, fresh)
        with closing(connected(fresh)) as connection:
            _schema.upgrade(connection, fresh, _schema.FOLDER)
            _check_complete(connection, draft)
            mended = mend(connection, time.time())
            saved = count_rows(connection)
        _examine(fresh, ())
        _placing.commit(path, fresh)
    finally:
        for leftover in (fresh, *_placing.beside(fresh)):
            leftover.unlink(missing_ok=True)
    kept = _placing.finish(path)
    return Repaired(path, kept, saved, draft.unreadable, draft.missing_pages, mended, draft.backup, draft.restored)


def _check_complete(connection: sqlite3.Connection, draft: _Draft) -> None:
    """Raise StoreFailed where the new file has fewer rows than were put into it."""
    found = count_rows(connection)
    if any(found.get(name, 0) < draft.saved.get(name, 0) for name in ("sessions", "messages")):
        raise StoreFailed("the repaired file was changed while it was made, and is not used; run the repair again")


def _finished(path: Path) -> Repaired:
    """Put that file into its place which a process left that died in its last steps."""
    fresh = _placing.repaired(path)
    with closing(connected(fresh)) as connection:
        saved = count_rows(connection)
    return Repaired(path, _placing.finish(path), saved, 0, 0, Mended(), is_finished_only=True)
