"""Artifacts over SQLite: the store has the references of sessions, and a file beside it, ``NAME-artifacts``, has the contents.

So the file of the sessions, which is read at each start and backed up several times a day, stays small. A reference is written
before its content, and content is deleted only while no session refers to it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent.store import _damage, _file, _schema
from agent.store._backup import Backups
from agent.store._codec import plain, text
from agent.store._database import Access, Database
from agent.store._shared import Clock
from toolcrib.contract.artifacts import KeptArtifact
from toolcrib.contract.context import LOCAL_PLATFORMS
from toolcrib.contract.errors import StoreFailed
from tools.undo.contents import digest_of

if TYPE_CHECKING:
    from toolcrib.contract.artifacts import ArtifactStore
    from toolcrib.contract.search import SearchFilter

_log = logging.getLogger(__name__)
TABLES = _schema.FOLDER.with_name("sql_artifacts")
_PLAIN, _PACKED = b"\0", b"\1"
"""First byte of a body: the content follows unchanged, or compressed by zlib."""
_LEVEL = 3
_NEWEST = (
    "SELECT s.id, s.title, a.digest, a.size, a.at AS said_at"
    " FROM artifacts AS a JOIN sessions AS s ON s.id = a.session_id WHERE 1"
)
_PUT = "INSERT INTO contents (digest, size, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


def path_of(store: Path) -> Path:
    """Return the contents file of a store."""
    return store.with_name(f"{store.name}-artifacts")


def backups_of(contents: Path) -> Backups:
    """Return the backups of a contents file."""
    return Backups(contents, "contents")


def pack(data: bytes) -> bytes:
    """Return content in its stored form."""
    packed = zlib.compress(data, _LEVEL)
    return _PACKED + packed if len(packed) < len(data) else _PLAIN + data


def unpacked(body: bytes, digest: str) -> bytes:
    """Return the content. Raises ValueError if it does not match its digest."""
    try:
        data = zlib.decompress(body[1:]) if body[:1] == _PACKED else bytes(body[1:])
    except (TypeError, zlib.error) as error:
        raise ValueError(f"the artifact {digest[:16]} is damaged ({error})") from error
    if digest_of(data) != digest:
        raise ValueError(f"the artifact {digest[:16]} is damaged: its content does not match its digest")
    return data


class StoredContents(Protocol):
    """The contents of a store's artifacts, by digest."""

    async def put(self, digest: str, data: bytes) -> None:
        """Store content under its digest. Raises StoreFailed."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """Return content, or None if it is missing. Raises StoreFailed, also for damaged content."""
        ...

    async def sweep(self) -> None:
        """Delete the contents that no session refers to."""
        ...

    def close(self) -> None:
        """Wait until earlier calls are done."""
        ...


class ArtifactContents:
    """The contents file. It is created at the first use, and usable from any thread and event loop. Close it at the end."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self.path = path_of(store.path)
        self._opened: Database | None = None
        self._lock = threading.Lock()

    async def put(self, digest: str, data: bytes) -> None:
        """Store content on disk. Raises StoreFailed."""

        def work(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)).fetchone() is None:
                connection.execute(_PUT, (digest, len(data), pack(data)))

        await self._database().write(work)

    async def get(self, digest: str) -> bytes | None:
        """Return content, or None if it is missing. Raises StoreFailed, also for damaged content."""
        if self._opened is None and not self.path.exists():
            return None

        def work(connection: sqlite3.Connection) -> bytes | None:
            found = connection.execute("SELECT body FROM contents WHERE digest = ?", (digest,)).fetchone()
            return None if found is None else unpacked(found[0], digest)

        try:
            return await self._database().read(work)
        except ValueError as error:
            raise _damage.damaged(self.path, [str(error)]) from error

    async def sweep(self) -> None:
        """Delete the contents that no session refers to, from the file and its backups.

        A failure is logged, and the next sweep tries again.
        """
        if not self.path.exists():
            return

        def work(connection: sqlite3.Connection) -> int:
            # inside the write: a session that refers to a content later also stores the content after this write
            with closing(_file.open_reader(self._store.path)) as store:
                used = {digest for (digest,) in store.execute("SELECT digest FROM artifacts")}
            gone = [(digest,) for (digest,) in connection.execute("SELECT digest FROM contents") if digest not in used]
            connection.executemany("DELETE FROM contents WHERE digest = ?", gone)
            return len(gone)

        try:
            if await self._database().write(work):
                backups_of(self.path).forget()
                await self._database().alone(_shrink)
        except StoreFailed as error:
            _log.warning("unused artifacts could not be deleted: %s", error)

    def close(self) -> None:
        """Wait until earlier calls are done. A later use opens the file again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _database(self) -> Database:
        with self._lock:
            if self._opened is None:
                prepare = ("PRAGMA secure_delete = ON",)
                kept = None if self._store.backups is None else backups_of(self.path)
                self._opened = Database(self.path, self._store.synchronous, TABLES, late=True, prepare=prepare, backups=kept)
            return self._opened


class SqliteArtifacts:
    """See toolcrib.contract.artifacts.ArtifactStore. ``access`` may carry a lease."""

    def __init__(self, access: Access, contents: StoredContents, clock: Clock) -> None:
        self._access = access
        self._contents = contents
        self._clock = clock

    async def put(self, session_id: str, data: bytes) -> str:
        digest = digest_of(data)
        values = (text(session_id), digest, len(data), self._clock())
        sql = "INSERT INTO artifacts (session_id, digest, size, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        is_new = await self._access.run(sql, values)
        try:
            await self._contents.put(digest, data)
        except StoreFailed:
            if is_new:
                await self._access.run("DELETE FROM artifacts WHERE session_id = ? AND digest = ?", values[:2])
            raise
        return digest

    async def get(self, session_id: str, digest: str) -> bytes | None:
        sql = "SELECT digest FROM artifacts WHERE session_id = ? AND substr(digest, 1, ?) = ? LIMIT 2"
        found = await self._access.rows(sql, (text(session_id), len(digest), digest))
        return await self._contents.get(found[0][0]) if len(found) == 1 else None

    async def of(self, session_id: str) -> Mapping[str, int]:
        sql = "SELECT digest, size FROM artifacts WHERE session_id = ? ORDER BY row"
        return dict(await self._access.rows(sql, (text(session_id),)))

    async def newest(self, where: SearchFilter, limit: int) -> Sequence[KeptArtifact]:
        from agent.store.search.sqlite import clauses_of

        clauses, values = clauses_of(where)
        if where.session_id is not None:
            clauses, values = f"{clauses} AND s.id = ?", [*values, text(where.session_id)]
        if (person := where.principal) is not None:
            platforms = sorted(LOCAL_PLATFORMS) if person.is_local else [text(person.platform)]
            clauses += f" AND s.user = ? AND s.platform IN ({', '.join('?' * len(platforms))})"
            values += [text(person.user), *platforms]
        sql = f"{_NEWEST}{clauses} ORDER BY a.row DESC LIMIT ?"
        rows = await self._access.rows(sql, (*values, limit))
        return [KeptArtifact(plain(name), plain(title), digest, size, at) for name, title, digest, size, at in rows]

    async def share(self, session_id: str, other: str) -> None:
        await self._access.run(
            "INSERT INTO artifacts (session_id, digest, size, at) SELECT ?, digest, size, ? FROM artifacts WHERE session_id = ?"
            " ORDER BY row ON CONFLICT DO NOTHING",
            (text(other), self._clock(), text(session_id)),
        )


def _shrink(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


if TYPE_CHECKING:

    def _conforms(artifacts: SqliteArtifacts) -> ArtifactStore:
        return artifacts
