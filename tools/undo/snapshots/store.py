"""Store of one project's snapshots: an SQLite file with the entries, and packs with the contents.

An entry names its first snapshot (``born``) and the one that ended it (``died``), so a snapshot costs a row for each changed
path, and the difference of two snapshots is a query. A snapshot exists when its transaction is committed; a process that is
killed before leaves the store unchanged. SQLite's WAL with ``synchronous=NORMAL`` guarantees that for killed processes. After a
power failure the last snapshots may be missing, and damaged contents are detected by their digests.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from errno import EDQUOT, ENOSPC
from pathlib import Path

from tools.undo.snapshots.entries import FileEntry, ProjectChange, ProjectSnapshot, SnapshotFailed, same_state
from tools.undo.snapshots.packs import Packs, digests_of

_TABLES = """
CREATE TABLE IF NOT EXISTS snapshots (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, label TEXT, turn INTEGER, call_id TEXT,
  session_id TEXT, changes INTEGER);
CREATE TABLE IF NOT EXISTS entries (path BLOB, born INTEGER, died INTEGER, kind TEXT, mode INTEGER, mtime_ns INTEGER,
  size INTEGER, content BLOB, uid INTEGER, gid INTEGER, attributes BLOB, dev INTEGER, ino INTEGER, ctime_ns INTEGER,
  links INTEGER, PRIMARY KEY (path, born)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_born ON entries (born) WHERE born > 1;
CREATE INDEX IF NOT EXISTS entries_died ON entries (died) WHERE died IS NOT NULL;
CREATE TABLE IF NOT EXISTS chunks (digest BLOB PRIMARY KEY, pack INTEGER, start INTEGER, length INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS packs (pack INTEGER PRIMARY KEY, end INTEGER);
CREATE TABLE IF NOT EXISTS restoring (folder BLOB PRIMARY KEY, mode INTEGER, mtime_ns INTEGER);
"""
_FIELDS = "kind, mode, mtime_ns, size, content, uid, gid, attributes, dev, ino, ctime_ns, links"
_SNAPSHOT = "id, at, label, turn, call_id, session_id, changes"
_INSERT = f"INSERT INTO entries (path, born, {_FIELDS}) VALUES (?, ?{', ?' * 12})"  # noqa: S608 - contains no value

_PATIENCE = 30.0
"""Seconds that another process may hold the store without writing to it, because it may be reading many files."""


class SnapshotStore:
    """Snapshots in ``folder``, which is created with mode 0700. Several processes may share it; each call needs ``locked``.

    Contents take at most ``max_bytes``.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # parents= applies the mode to the last folder only
        folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _lock(self._lock, folder)
            self._db = _connected(folder / "entries.db")
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        except BaseException:
            os.close(self._lock)
            raise
        self._folder = folder
        self.packs = Packs(folder, self._db, max_bytes)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store against other processes. Raises SnapshotFailed for errors of the disk or SQLite."""
        try:
            _lock(self._lock, self._folder)
            try:
                yield
            finally:
                self.packs.drop()
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        except (OSError, sqlite3.Error) as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL or getattr(error, "errno", 0) in (ENOSPC, EDQUOT):
                raise SnapshotFailed(f"the disk is full: free space for {self._folder}") from error
            raise SnapshotFailed(f"{error}. Check the project folder and {self._folder}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the work in the context, or roll it back if it raises."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.packs.flush()
            self._db.execute("COMMIT")
        except BaseException:
            self.packs.drop()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self.packs.trim()
            raise

    def last(self) -> int:
        """Return the id of the newest snapshot, 0 if there is none."""
        found: int = self._db.execute("SELECT coalesce(max(id), 0) FROM snapshots").fetchone()[0]
        return found

    def current(self) -> dict[str, FileEntry]:
        """Return the entries of the newest snapshot, by their paths."""
        rows = self._db.execute(f"SELECT path, {_FIELDS} FROM entries WHERE died IS NULL")  # noqa: S608 - contains no value
        return {os.fsdecode(row[0]): FileEntry(*row[1:]) for row in rows}

    def add(
        self, found: ProjectSnapshot, known: Mapping[str, FileEntry], delta: Mapping[str, FileEntry | None]
    ) -> ProjectSnapshot:
        """Record a snapshot, except its ``id``, and the entries that differ from those ``known``, in the caller's transaction."""
        differing = {path: entry for path, entry in delta.items() if not same_state(known.get(path), entry)}
        row = (found.at, found.label, found.turn, found.call_id, found.session_id, len(differing))
        number = self._db.execute(
            "INSERT INTO snapshots (at, label, turn, call_id, session_id, changes) VALUES (?, ?, ?, ?, ?, ?)", row
        ).lastrowid
        assert number is not None  # noqa: S101 - an INSERT of one row has one
        ended = [(number, os.fsencode(path)) for path in differing if path in known]
        self._db.executemany("UPDATE entries SET died = ? WHERE path = ? AND died IS NULL", ended)
        begun = [(os.fsencode(path), number, *entry) for path, entry in differing.items() if entry is not None]
        self._db.executemany(_INSERT, sorted(begun))
        seen = [
            (entry.size, entry.dev, entry.ino, entry.ctime_ns, entry.links, os.fsencode(path))
            for path, entry in delta.items()
            if entry is not None and path not in differing
        ]
        self._db.executemany(
            "UPDATE entries SET size = ?, dev = ?, ino = ?, ctime_ns = ?, links = ? WHERE path = ? AND died IS NULL",
            seen,
        )
        return ProjectSnapshot(number, *row)

    def changed(self, before: int, after: int) -> list[ProjectChange]:
        """Return the paths that differ between two snapshots. Raises SnapshotFailed if one was deleted."""
        for one in (before, after):
            if not self._db.execute("SELECT 1 FROM snapshots WHERE id = ?", (one,)).fetchone():
                raise SnapshotFailed(f"snapshot {one} is not kept any more (snapshots.keep)")
        span = (min(before, after), max(before, after))
        paths = self._db.execute(
            "SELECT path FROM entries WHERE born > 1 AND born > ? AND born <= ?"
            " UNION SELECT path FROM entries WHERE died > ? AND died <= ?",
            (*span, *span),
        ).fetchall()
        found = [ProjectChange(os.fsdecode(path), self._at(path, before), self._at(path, after)) for (path,) in paths]
        return sorted((one for one in found if not same_state(one.before, one.after)), key=lambda one: one.path)

    def _at(self, path: bytes, number: int) -> FileEntry | None:
        row = self._db.execute(
            f"SELECT {_FIELDS} FROM entries WHERE path = ? AND born <= ? AND (died IS NULL OR died > ?)",  # noqa: S608 - no value
            (path, number, number),
        ).fetchone()
        return None if row is None else FileEntry(*row)

    def snapshots(self, session_id: str, since: float) -> list[ProjectSnapshot]:
        """Return the snapshots of a session taken since a time in Unix seconds, oldest first."""
        query = f"SELECT {_SNAPSHOT} FROM snapshots WHERE session_id = ? AND at >= ? ORDER BY id"  # noqa: S608 - contains no value
        rows = self._db.execute(query, (session_id, since))
        return [ProjectSnapshot(*row) for row in rows]

    def note_restoring(self, folders: Mapping[str, FileEntry | None]) -> None:
        """Record the folders that a restore will use, in their state before it. An empty mapping records that it is done."""
        rows = [(os.fsencode(path), entry and entry.mode, entry and entry.mtime_ns) for path, entry in folders.items()]
        with self.transaction():
            self._db.execute("DELETE FROM restoring")
            self._db.executemany("INSERT INTO restoring (folder, mode, mtime_ns) VALUES (?, ?, ?)", rows)

    def restoring(self) -> list[tuple[str, int | None, int | None]]:
        """Return the folders of an interrupted restore, with their modes and times before it, None for new ones."""
        rows = self._db.execute("SELECT folder, mode, mtime_ns FROM restoring")
        return [(os.fsdecode(path), mode, mtime_ns) for path, mode, mtime_ns in rows]

    def void(self, number: int) -> None:
        """Record that the call of a snapshot does not run."""
        self._db.execute("UPDATE snapshots SET label = '', call_id = '' WHERE id = ?", (number,))

    def halve(self) -> bool:
        """Delete the older half of the snapshots. Return whether there was one to delete."""
        return self._delete(self._db.execute("SELECT (min(id) + max(id)) / 2 FROM snapshots").fetchone()[0] or 0)

    def prune(self, keep_days: float) -> None:
        """Delete snapshots that are too old. The newest one stays."""
        old = (time.time() - keep_days * 86_400,)
        self._delete(self._db.execute("SELECT coalesce(max(id), 0) FROM snapshots WHERE at < ?", old).fetchone()[0])

    def _delete(self, last: int) -> bool:
        """Delete the snapshots up to ``last``, except the newest, and the contents that only they have.

        Return whether there were any.
        """
        with self.transaction():
            done = self._db.execute("DELETE FROM snapshots WHERE id <= ? AND id < (SELECT max(id) FROM snapshots)", (last,))
            if done.rowcount < 1:
                return False
            oldest, newest = self._db.execute("SELECT min(id), max(id) FROM snapshots").fetchone()
            self._db.execute("DELETE FROM entries WHERE died <= ?", (oldest,))
            wanted = {
                digest
                for row in self._db.execute("SELECT content FROM entries WHERE kind = 'file'")
                for digest in digests_of(row[0])
            }
            self.packs.rewrite(wanted, whole=oldest == newest)
        self.packs.drop()
        self.packs.trim()
        return True

    def close(self) -> None:
        """Close the files."""
        self._db.close()
        os.close(self._lock)


def _lock(fd: int, folder: Path) -> None:
    """Lock a store against other processes.

    Raises SnapshotFailed if its holder keeps it without activity, such as a process that was stopped by Ctrl-Z.
    """
    seen, give_up = None, 0.0
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        with os.scandir(folder) as files:
            now = sorted((file.name, file.stat().st_mtime_ns) for file in files)
        if now != seen:
            seen, give_up = now, time.monotonic() + _PATIENCE
        elif time.monotonic() > give_up:
            raise SnapshotFailed(f"another process of toolcrib has {folder} locked but is stopped: continue it (fg) or kill it")
        time.sleep(0.002)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=60)
    try:
        path.chmod(0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -16000")
        connection.execute("PRAGMA journal_size_limit = 4000000")
        connection.executescript(_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection
