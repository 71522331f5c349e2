"""The index of a SQLite store: a file beside it, ``NAME-search``, which users may delete.

Searches index new messages first, so that writing a message costs nothing. The index has no text, only words. It is rebuilt if it
is damaged or was made for other messages.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.store import _damage, _placing, _schema
from agent.store._codec import Stored, plain, text
from agent.store._database import Database, OpenDatabase
from agent.store._packing import load_message
from agent.store._shared import tag_in
from agent.store.search.words import Query, Term, parse, searched, snippet, words_of
from toolcrib.contract.context import Principal
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.search import SearchFilter, SearchHit, SearchOrder

if TYPE_CHECKING:
    from toolcrib.contract.search import MessageSearch

_log = logging.getLogger(__name__)
TABLES = _schema.FOLDER.with_name("sql_search")
_AT_ONCE = 500
"""Maximum number of messages that are indexed, or removed, in one transaction."""
_LOOKED_AT = 200
"""Number of hits that are read at once."""
RANKED = 2_000
"""Number of newest hits that are ranked; ranking all hits of a common word takes half a second in a large store."""
_NO_END = 2**62
_ALL = SearchFilter()
_NEW = (
    "SELECT m.row, m.body, m.session, s.platform, s.user FROM messages AS m JOIN sessions AS s ON s.row = m.session"
    " WHERE m.row > ? ORDER BY m.row LIMIT ?"
)
_THEIRS = (
    "SELECT m.row, m.body, m.session, s.platform, s.user FROM messages AS m JOIN sessions AS s ON s.row = m.session"
    " WHERE s.id = ? AND m.seq >= ? ORDER BY m.seq LIMIT ?"
)
_FOUND = (
    "SELECT m.row, s.id, s.title, m.seq, m.body, coalesce(nullif(m.at, 0), s.updated_at) AS said_at, s.platform, s.cwd"
    " FROM messages AS m JOIN sessions AS s ON s.row = m.session WHERE m.row IN ({rows})"
)


class _Entry(NamedTuple):
    """A message in the index."""

    row: int
    said: str
    place: str


class SqliteSearch:
    """The search of a SQLite store, from any thread and event loop. Close it at the end."""

    def __init__(self, store: OpenDatabase) -> None:
        self._store = store
        self.path = _placing.index_of(store.path)
        self._opened: OpenDatabase | None = None
        self._lock = threading.Lock()

    async def find(
        self, query: str, where: SearchFilter = _ALL, *, order: SearchOrder = "newest", limit: int = 20, offset: int = 0
    ) -> Sequence[SearchHit]:
        """See toolcrib.contract.search.MessageSearch."""
        wanted = parse(query)
        try:
            return await self._find(wanted, where, order, limit, offset)
        except _damage.StoreDamaged as error:
            if not str(error).startswith(f"{self.path} "):
                raise
            _log.warning("the search index is rebuilt: %s", error)
            self.discard()
            return await self._find(wanted, where, order, limit, offset)

    async def _find(self, query: Query, where: SearchFilter, order: SearchOrder, limit: int, offset: int) -> Sequence[SearchHit]:
        await self.catch_up()
        match = _match(query, await self._place(where))
        rows = self._newest(match, offset + limit) if order == "newest" else self._best(match, offset + limit)
        hits: list[SearchHit] = []
        async for some in rows:
            hits += await self._hits(some, query, where)
            if len(hits) >= offset + limit:
                break
        return hits[offset : offset + limit]

    async def _newest(self, match: str, at_once: int) -> AsyncIterator[Sequence[int]]:
        before = _NO_END
        while True:
            sql = "SELECT rowid FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
            rows = [row for (row,) in await self._index().rows(sql, (match, before, at_once))]
            yield rows
            if len(rows) < at_once:
                return
            before, at_once = rows[-1], _LOOKED_AT

    async def _best(self, match: str, at_once: int) -> AsyncIterator[Sequence[int]]:
        index = self._index()
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"
        oldest = await index.row(sql, (match, RANKED - 1))
        sql = "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? ORDER BY bm25(words, 1, 0), rowid DESC LIMIT ?"
        ranked = [row for (row,) in await index.rows(sql, (match, 0 if oldest is None else oldest[0], RANKED))]
        for start in range(0, len(ranked), at_once):
            yield ranked[start : start + at_once]

    async def _hits(self, rows: Sequence[int], query: Query, where: SearchFilter) -> list[SearchHit]:
        """Return the hits for index rows, in the same order."""
        found: dict[int, SearchHit] = {}
        clauses, values = clauses_of(where)
        sql = _FOUND.format(rows=", ".join("?" * len(rows))) + clauses
        for row, *about in await self._store.rows(sql, (*rows, *values)) if rows else ():
            with suppress(ValueError, KeyError, TypeError):  # an unreadable message is not found
                found[row] = _hit(query, *about)
        return [found[row] for row in rows if row in found]

    async def _place(self, where: SearchFilter) -> Sequence[tuple[str, ...]]:
        """Return groups of index words for the session, principal and role. A message must have one word of each group."""
        place: list[tuple[str, ...]] = []
        if where.session_id is not None:
            found = await self._store.row("SELECT row FROM sessions WHERE id = ?", (text(where.session_id),))
            place.append((f"s{-1 if found is None else found[0]}",))
        if where.principal is not None:
            place.append((_whose(where.principal),))
        if where.roles:
            place.append(tuple(f"r{role}" for role in where.roles))
        return place

    # -- the index -----------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Index the new messages. Raises StoreFailed."""
        row = await self._reached()
        while entries := await self._store.read(partial(_entries, sql=_NEW, values=(row, _AT_ONCE))):
            row = await self._take(row, entries)

    async def _reached(self) -> int:
        """Return the last indexed row; discard an index that belongs to other messages."""
        row, mark = await self._index().row("SELECT row, mark FROM reached")
        if row and bytes(mark) != await self._mark(row):
            _log.info("%s was built for other messages; it is rebuilt", self.path)
            self.discard()
            return 0
        return int(row)

    async def _mark(self, row: int) -> bytes:
        found = await self._store.row("SELECT body FROM messages WHERE row = ?", (row,))
        return b"" if found is None else _digest(found[0])

    async def _take(self, row: int, entries: Sequence[_Entry]) -> int:
        """Add entries to the index, unless another process did so meanwhile. Return the last indexed row."""
        last = entries[-1].row
        mark = await self._mark(last)

        def work(connection: sqlite3.Connection) -> int:
            moved = connection.execute("UPDATE reached SET row = ?, mark = ? WHERE row = ?", (last, mark, row))
            if not moved.rowcount:
                return int(connection.execute("SELECT row FROM reached").fetchone()[0])
            connection.executemany("INSERT INTO words (rowid, said, place) VALUES (?, ?, ?)", entries)
            return last

        return await self._index().write(work)

    async def forget(self, session_ids: Iterable[str]) -> None:
        """Remove the words of these sessions, which will be deleted. Raises StoreFailed."""
        if not self._is_made():
            return
        reached = await self._reached()
        for session_id in session_ids:
            async for entries in self._of(session_id):
                known = [entry for entry in entries if entry.row <= reached]
                await self._index().write(partial(_remove, entries=known))

    async def forgotten(self, session_ids: Iterable[str]) -> None:
        """Finish after the deletion: sessions that still exist are indexed again, and freed space is overwritten."""
        if not self._is_made():
            return
        (reached,) = await self._index().row("SELECT row FROM reached")
        for session_id in session_ids:
            async for entries in self._of(session_id):
                known = [entry for entry in entries if entry.row <= reached]
                await self._index().write(partial(_add, entries=known))
        found = await self._store.row("SELECT row, body FROM messages WHERE row <= ? ORDER BY row DESC LIMIT 1", (reached,))
        row, mark = (0, b"") if found is None else (found[0], _digest(found[1]))
        await self._index().run("UPDATE reached SET row = ?, mark = ? WHERE row = ?", (row, mark, reached))
        await self._index().run("INSERT INTO words (words) VALUES ('optimize')")
        await self._index().alone(_shrink)

    async def _of(self, session_id: str) -> AsyncIterator[Sequence[_Entry]]:
        """Yield the entries of a session in batches."""
        for start in itertools.count(0, _AT_ONCE):
            values = (text(session_id), start, _AT_ONCE)
            entries = await self._store.read(partial(_entries, sql=_THEIRS, values=values))
            if entries:
                yield entries
            if len(entries) < _AT_ONCE:
                return

    def discard(self) -> None:
        """Delete the index."""
        self.close()
        for end in ("", "-wal", "-shm"):
            self.path.with_name(f"{self.path.name}{end}").unlink(missing_ok=True)

    def close(self) -> None:
        """Wait until earlier calls are done. A later use opens the index again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _index(self) -> OpenDatabase:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _is_made(self) -> bool:
        return self.path.exists()

    def _open(self) -> OpenDatabase:
        return Database(self.path, "NORMAL", TABLES, late=True, prepare=("PRAGMA secure_delete = ON",))


# -- entries -----------------------------------------------------------------------------------------------------------


def _entries(connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> list[_Entry]:
    return [_entry(*row) for row in connection.execute(sql, values)]


def _entry(row: int, body: Stored, session: int, platform: Stored, user: Stored) -> _Entry:
    try:
        record = load_message(body)
        said, role = " ".join(words_of(searched(record))), str(record.get("role", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # the reader of the message reports it
        said, role = "", ""
    return _Entry(row, said, f"s{session} r{role} {_whose(Principal(plain(platform), plain(user)))}")


def _whose(person: Principal) -> str:
    """Return the word for a principal in the index."""
    return "p" + hashlib.blake2s(person.key.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _digest(body: Stored) -> bytes:
    return hashlib.blake2s(body.encode() if isinstance(body, str) else body, digest_size=16).digest()


def _add(connection: sqlite3.Connection, entries: Sequence[_Entry]) -> None:
    connection.executemany("INSERT INTO words (rowid, said, place) VALUES (?, ?, ?)", entries)


def _remove(connection: sqlite3.Connection, entries: Sequence[_Entry]) -> None:
    connection.executemany("INSERT INTO words (words, rowid, said, place) VALUES ('delete', ?, ?, ?)", entries)


def _shrink(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


# -- queries -----------------------------------------------------------------------------------------------------------


def _match(query: Query, place: Sequence[tuple[str, ...]]) -> str:
    """Return the query in FTS5's syntax."""
    wanted = " AND ".join(f"({' OR '.join(map(_term, either))})" for either in query.every)
    said = f"said : ({wanted})"
    if query.none:
        said = f"({said} NOT said : ({' OR '.join(map(_term, query.none))}))"
    return " AND ".join([said, *(f"place : ({' OR '.join(map(_quoted, either))})" for either in place)])


def _term(term: Term) -> str:
    return _quoted(" ".join(term.words)) + (" *" if term.begins else "")


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def clauses_of(where: SearchFilter) -> tuple[str, list[Any]]:
    """Return the clauses that the index can't evaluate, for the table ``s`` of sessions and ``said_at``, and their values."""
    clauses: list[tuple[str, Sequence[Any]]] = []
    if where.platform is not None:
        clauses.append((" AND s.platform = ?", [text(where.platform)]))
    if where.cwd is not None:
        below = f"{where.cwd.rstrip('/')}/"
        clauses.append((" AND (s.cwd = ? OR substr(s.cwd, 1, ?) = ?)", [text(below[:-1]), len(below), text(below)]))
    if where.since is not None:
        clauses.append((" AND said_at >= ?", [where.since]))
    if where.until is not None:
        clauses.append((" AND said_at < ?", [where.until]))
    clauses += [(" AND instr(s.tags, ?)", [tag_in(tag)]) for tag in where.tags]
    return "".join(clause for clause, _ in clauses), [value for _, values in clauses for value in values]


def _hit(
    query: Query, session_id: Stored, title: Stored, seq: int, body: Stored, at: float, platform: Stored, cwd: Stored
) -> SearchHit:
    record = load_message(body)
    shown = snippet(searched(record), query)
    about = plain(session_id), plain(title), seq, str(record["role"]), at, shown.text, shown.marks
    return SearchHit(*about, plain(platform), plain(cwd), str(record.get("source", "")))


if TYPE_CHECKING:

    def _conforms(search: SqliteSearch) -> MessageSearch:
        return search
