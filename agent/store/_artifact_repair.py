"""Checking the file of artifacts, and making it anew: each content says itself whether it is whole."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from agent.store import _damage, _file, _locking, _placing, _schema
from agent.store._artifacts import TABLES, backups_of, unpacked
from agent.store._drafting import connected, lock_file, make_empty, make_missing
from agent.store._pages import Pages
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed

_log = logging.getLogger(__name__)
_ALL = "SELECT digest, size, body FROM contents"


@dataclass(frozen=True, slots=True)
class RepairedArtifacts:
    """Outcome of a repair: the damaged file under its new name, how many artifacts were saved, and of how many that sessions
    refer to the content is gone.
    """

    path: Path
    kept: Path
    saved: int
    lost: int


def examine_artifacts(path: Path, store: Path) -> int:
    """Check the whole file, each content by its digest; nothing is written. Return of how many artifacts that sessions of the
    store refer to the content is not there. Raises StoreDamaged, and another StoreFailed where it can't be checked.
    """
    try:
        if not path.parent.exists():
            return 0
        _damage.check_length(path)
        with _locking.opening(path, _file.BUSY_SECONDS):
            return _examine(path, store)
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error.strerror or error}; make it and its folder readable") from error


def _examine(path: Path, store: Path) -> int:
    found: set[str] = set()
    try:
        _damage.check_whole(path, backups_of(path).found())
        if path.exists() and path.stat().st_size:
            with closing(_damage.read_only(path)) as connection:
                bad = sum(not _is_whole(digest, body, found) for digest, _, body in connection.execute(_ALL))
            if bad:
                raise _damage.damaged(path, [f"artifacts that are not what their digests say: {bad}"])
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _file.explained(path, error) from error
    return len(_used(store) - found)


def _is_whole(digest: object, body: object, found: set[str]) -> bool:
    if not isinstance(digest, str) or not isinstance(body, bytes):
        return False
    try:
        unpacked(body, digest)
    except ValueError:
        return False
    found.add(digest)
    return True


def _used(store: Path) -> set[str]:
    """Return the digests that sessions refer to; none where the store can't say."""
    try:
        if not store.exists():
            return set()
        with closing(_damage.read_only(store)) as connection:
            return {digest for (digest,) in connection.execute("SELECT digest FROM artifacts")}
    except (OSError, sqlite3.Error) as error:
        _log.info("which artifacts are in use is unknown: %s", error)
        return set()


def repair_artifacts(path: Path, store: Path) -> RepairedArtifacts | None:
    """Replace a damaged file by one with all contents that are whole in it or in a backup. Return None for a sound file.

    Raises StoreFailed, and then leaves everything as it was: where a process uses the file, and where there is no room.
    """
    try:
        with _locking.replacing(path):
            if not _placing.repaired(path).exists() and not _is_damaged(path, store):
                return None
            made = make_missing(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                lock_file(descriptor, path)
                return _replaced(descriptor, path, store)
            except BaseException:
                if made and not _placing.repaired(path).exists():
                    path.unlink()
                raise
            finally:
                os.close(descriptor)
    except (OSError, sqlite3.Error) as error:
        raise StoreFailed(f"{path} could not be repaired ({error}); mend that, and run the repair again") from error


def _is_damaged(path: Path, store: Path) -> bool:
    try:
        _damage.check_length_alone(path)
        _examine(path, store)
    except _damage.StoreDamaged:
        return True
    return False


def _replaced(descriptor: int, path: Path, store: Path) -> RepairedArtifacts:
    fresh = _placing.draft_of(path)
    try:
        if not _placing.repaired(path).exists():
            make_empty(fresh)
            with closing(connected(fresh)) as connection:
                _schema.upgrade(connection, fresh, TABLES)
                connection.execute("BEGIN")
                for rows in (_of_pages(descriptor, path), _of_backups(path)):
                    _fill(connection, rows)
                connection.execute("COMMIT")
            _placing.commit(path, fresh)
        with closing(connected(_placing.repaired(path))) as connection:
            saved = {digest for (digest,) in connection.execute("SELECT digest FROM contents")}
    finally:
        for leftover in (fresh, *_placing.beside(fresh)):
            leftover.unlink(missing_ok=True)
    return RepairedArtifacts(path, _placing.finish(path), len(saved), len(_used(store) - saved))


def _fill(connection: sqlite3.Connection, rows: Iterable[tuple[object, object, object]]) -> None:
    for digest, size, body in rows:
        if _is_whole(digest, body, set()):
            connection.execute("INSERT OR IGNORE INTO contents (digest, size, body) VALUES (?, ?, ?)", (digest, size, body))


def _of_pages(descriptor: int, path: Path) -> Iterator[tuple[object, object, object]]:
    """Give what has a row's shape in the damaged file, and in its log."""
    wal, _ = _placing.beside(path)
    for row in Pages.of(descriptor, wal.read_bytes() if wal.exists() else b"").rows():
        if row.number is not None and len(row.values) == 3 and isinstance(row.values[1], int):
            yield row.values[0], row.values[1], row.values[2]


def _of_backups(path: Path) -> Iterator[tuple[object, object, object]]:
    for backup in backups_of(path).found():
        try:
            with closing(_damage.read_only(backup)) as connection:
                yield from connection.execute(_ALL)
        except sqlite3.Error as error:
            _log.info("%s is damaged too, and was read as far as it goes: %s", backup, error)
