"""Old contents of files, in a database: equal contents are stored once, and the oldest are deleted first if there are too many.

They are in a separate database: the session file stays small, and users can delete the old contents.
Writing a separate file for each content would take ten times as long.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from agent.store import _placing, _schema
from agent.store._database import Database
from agent.store._file import Synchronous
from agent.store._shared import Clock
from tools.undo.contents import digest_of

if TYPE_CHECKING:
    from tools.undo.contents import Contents

_TABLES = _schema.FOLDER.with_name("sql_contents")
_TOO_MUCH = (
    "DELETE FROM contents WHERE digest IN (SELECT digest FROM"
    " (SELECT digest, sum(size) OVER (ORDER BY at DESC, rowid DESC) AS up_to FROM contents) WHERE up_to > ?)"
)


class SqliteContents:
    """Contents of at most ``max_bytes`` in total, each kept for ``seconds`` after it was last stored.

    Thread-safe; several processes may use one file. It is created on first use. Each write is atomic.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        seconds: float,
        synchronous: Synchronous = "NORMAL",
        clock: Clock = time.time,
    ) -> None:
        self._path = _placing.real(path)
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._synchronous = synchronous
        self._clock = clock
        self._unlooked = max_bytes
        """Bytes stored since the last check of the total size. The first ``put`` checks it too."""
        self._opened: Database | None = None
        self._lock = threading.Lock()

    async def put(self, digest: str, data: bytes) -> None:
        """Store the contents of a file, or renew their time. Raises StoreFailed."""
        await self._database().run(
            "INSERT INTO contents (digest, at, size, body) VALUES (?, max(?, coalesce((SELECT max(at) FROM contents), 0)), ?, ?)"
            " ON CONFLICT (digest) DO UPDATE SET at = excluded.at",  # never older than the rest, even if the clock goes back
            (digest, self._clock(), len(data), sqlite3.Binary(data)),
        )
        self._unlooked += len(data)
        if self._unlooked > self._max_bytes // 16:
            self._unlooked = 0
            await self.prune()

    async def get(self, digest: str) -> bytes | None:
        """Return the contents with this digest; None if they are missing, deleted or damaged. Raises StoreFailed."""
        if self._opened is None and not self._path.exists():
            return None

        def work(connection: sqlite3.Connection) -> bytes | None:
            found = connection.execute("SELECT body FROM contents WHERE digest = ?", (digest,)).fetchone()
            return found[0] if found is not None and digest_of(found[0]) == digest else None

        return await self._database().read(work)

    async def prune(self) -> None:
        """Delete contents that are too old, then the oldest above the limit. Raises StoreFailed."""
        oldest = self._clock() - self._seconds

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM contents WHERE at < ?", (oldest,))
            total = connection.execute("SELECT total(size) FROM contents").fetchone()[0]
            if total > self._max_bytes:
                connection.execute(_TOO_MUCH, (self._max_bytes,))

        await self._database().write(work)

    async def drop(self, digests: Collection[str], before: float) -> None:
        """Delete these contents, except those stored again since ``before``, and free their space. Raises StoreFailed."""
        if not digests or not self._path.exists():
            return
        rows = [(digest, before) for digest in digests]
        await self._database().write(
            lambda connection: connection.executemany("DELETE FROM contents WHERE digest = ? AND at < ?", rows)
        )
        await self._database().alone(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def close(self) -> None:
        """Wait until earlier calls are done. A later use opens the file again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _database(self) -> Database:
        with self._lock:
            if self._opened is None:
                # deleted contents must not remain readable in the file
                prepare = ("PRAGMA secure_delete = ON",)
                self._opened = Database(self._path, self._synchronous, _TABLES, late=True, prepare=prepare)
            return self._opened


if TYPE_CHECKING:

    def _conforms(contents: SqliteContents) -> Contents:
        return contents
