"""Backups of the store for its repair: at most two, made from time to time while the store is used."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agent.store import _placing, _schema

_log = logging.getLogger(__name__)
_EVERY = 600.0
"""Minimum seconds between two backups."""
_RATE = 32 * 1024
"""Maximum bytes per second that backups write on average: 50 MB are copied every 25 minutes of use."""
_APART = 24 * 3600.0
"""Seconds that the older backup stays: the newer one may contain undetected damage."""
LARGEST = 1024 * 1024 * 1024
"""Largest file in bytes that is backed up."""
_FEWER = 2
"""A store with this many times fewer sessions than its backup counts as having lost them."""
_LEFT = 256 * 1024 * 1024
"""Bytes that backups leave free on the disk: the store itself needs them first."""


class Backups:
    """The backups of one file: ``NAME-backup``, which becomes the older ``NAME-backup-before`` at most once a day.

    A failed backup raises nothing: it is logged, and retried later. A file with no rows in ``table``, or with no messages in any
    session, is not backed up.
    """

    def __init__(self, path: Path, table: str = "sessions") -> None:
        self._path = path
        self._table = table
        self._newest = path.with_name(f"{path.name}-backup")
        self._older = path.with_name(f"{path.name}-backup-before")
        self._making = threading.Lock()

    def found(self) -> Sequence[Path]:
        """Return the existing backups, newest first."""
        return [path for path in (self._newest, self._older) if path.exists()]

    def is_due(self) -> bool:
        """Return whether a backup should and can be made now: the file is small enough, and the disk has room for it."""
        try:
            size = self._path.stat().st_size
            made = _age(self._newest) if _is_ours(self._newest) else float("inf")
            if not size or size > LARGEST or made < max(_EVERY, size / _RATE):
                return False
            return shutil.disk_usage(self._path.parent).free > _LEFT + 2 * size
        except OSError as error:
            _log.debug("whether a backup of %s is due is unknown: %s", self._path, error)
            return False

    def make(self, connection: sqlite3.Connection) -> None:
        """Back up the file that the connection reads, unless it is empty. Blocks while the file is copied.

        Does nothing while another thread makes a backup.
        """
        if not self._making.acquire(blocking=False):
            return
        try:
            self._make(connection)
        finally:
            self._making.release()

    def _make(self, connection: sqlite3.Connection) -> None:
        fresh = self._path.with_name(f"{self._path.name}-backup-new-{os.getpid()}")
        try:
            _placing.remove_left(self._path, "backup-new")
            if not self._holds_anything(connection):
                return
            _copied(connection, fresh)
            if self._has_more(connection):
                return
            if _is_ours(self._newest) and _age(self._older) - _age(self._newest) > _APART:
                self._newest.replace(self._older)
            fresh.replace(self._newest)
        except (OSError, sqlite3.Error) as error:
            _log.info("no backup of %s was made: %s", self._path, error)
        finally:
            fresh.unlink(missing_ok=True)

    def _holds_anything(self, connection: sqlite3.Connection) -> bool:
        """Return whether any session has messages; for a file without sessions, whether it has any rows."""
        if self._table == "sessions":
            return connection.execute("SELECT 1 FROM sessions WHERE spoken LIMIT 1").fetchone() is not None
        return self._count(connection) > 0

    def _count(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])  # noqa: S608 - ours

    def _has_more(self, connection: sqlite3.Connection) -> bool:
        """Return whether the newest backup has far more sessions than the file. Deliberate deletion also removes the backups."""
        if not _is_ours(self._newest):
            return False
        now = self._count(connection)
        try:
            with closing(sqlite3.connect(f"{self._newest.absolute().as_uri()}?mode=ro", uri=True)) as copy:
                then = self._count(copy)
        except sqlite3.Error as error:
            _log.info("%s can't be read and is replaced: %s", self._newest, error)
            return False
        if now * _FEWER >= then:
            return False
        _log.warning(
            "%s has %d %s, but its backup %s has %d: the backup is kept; remove it to replace it",
            self._path,
            now,
            self._table,
            self._newest,
            then,
        )
        return True

    def forget(self) -> None:
        """Delete all backups, unfinished ones too, because they contain data that was deleted since."""
        for path in (self._newest, self._older, *self._path.parent.glob(f"{self._path.name}-backup-new-*")):
            path.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    """Return whether a file begins like a SQLite file of toolcrib: another file of that name is not a backup."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and int.from_bytes(head[68:72], "big") == _schema.APPLICATION_ID


def _age(path: Path) -> float:
    """Return the seconds since the backup was made; infinity if there is none."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return float("inf")


def _copied(connection: sqlite3.Connection, target: Path) -> None:
    """Make the backup, readable only by its owner. Raises sqlite3.Error and OSError, also for a damaged copy.

    It does not wait for the disk: if a power failure spoils it, the repair uses the older backup.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    # mode=rw: a file that another process deletes meanwhile is not recreated with the umask's permissions
    with closing(sqlite3.connect(f"{target.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()  # otherwise it would need files beside it
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(str(found))
