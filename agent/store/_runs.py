"""Runs, the inbox of sessions, and the origins of their files, over SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from agent.store._codec import Stored, dump, dump_item, load_item, plain, text
from agent.store._database import Access
from agent.store._from_rows import RUN, read_run
from agent.store._sessions import appending
from agent.store._shared import Clock, received
from toolcrib.contract.dataclass import replace
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import InboxItem, RunRecord
from toolcrib.contract.types import Json

_SELECT = f"SELECT {RUN} FROM runs"  # noqa: S608 - ours


class SqliteRuns:
    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def commit(self, run: RunRecord, *, messages: Sequence[Mapping[str, Json]] = (), taken: Collection[int] = ()) -> bool:
        """Store a step atomically. Return False if the run already has it. Raises KeyError for an unknown session."""
        now, numbers = self._clock(), sorted(taken)
        append = appending(run.session_id, messages, now)
        values = (text(run.id), text(run.session_id), run.status, run.step, dump(run.state), now)

        def work(connection: sqlite3.Connection) -> bool:
            known = connection.execute("SELECT step FROM runs WHERE id = ?", values[:1]).fetchone()
            if known is not None and known[0] >= run.step:
                return False
            append(connection)
            connection.execute(
                "INSERT INTO runs (id, session_id, status, step, state, updated_at) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET status = excluded.status, step = excluded.step, state = excluded.state,"
                " updated_at = excluded.updated_at",
                values,
            )
            take(connection, numbers)
            return True

        return await self._access.write(work)

    async def get(self, run_id: str) -> RunRecord | None:
        return await self._first("WHERE id = ?", text(run_id))

    async def current(self, session_id: str) -> RunRecord | None:
        return await self._first("WHERE session_id = ? AND status <> 'ended' ORDER BY row DESC LIMIT 1", text(session_id))

    async def last(self, session_id: str) -> RunRecord | None:
        return await self._first("WHERE session_id = ? ORDER BY row DESC LIMIT 1", text(session_id))

    async def parked(self, limit: int = 1_000, offset: int = 0) -> Sequence[RunRecord]:
        sql = f"{_SELECT} WHERE status = 'parked' ORDER BY updated_at, row LIMIT ? OFFSET ?"
        return await self._access.records(read_run, sql, (limit, offset))

    async def unfinished(self) -> Sequence[str]:
        sql = "SELECT session_id FROM runs WHERE status = 'running' UNION SELECT session_id FROM inbox WHERE NOT taken"
        return [plain(session_id) for (session_id,) in await self._access.rows(sql, ())]

    async def _first(self, where: str, value: Stored) -> RunRecord | None:
        return next(iter(await self._access.records(read_run, f"{_SELECT} {where}", (value,))), None)


class SqliteInbox:
    """The inbox. ``access`` carries no lease, because any process may send a message."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def put(self, item: InboxItem) -> InboxItem | None:
        """Store an item and return it with its id and time. Return None if its key is known."""
        item = received(item, self._clock)
        values = (text(item.session_id), text(item.key), dump_item(item), item.at)
        sql = "INSERT INTO inbox (session_id, key, body, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"

        def work(connection: sqlite3.Connection) -> int | None:
            done = connection.execute(sql, values)
            return done.lastrowid if done.rowcount else None

        number = await self._access.write(work)
        return None if number is None else replace(item, id=number)

    async def waiting(self, session_id: str) -> Sequence[InboxItem]:
        sql = "SELECT row, session_id, key, at, body FROM inbox WHERE session_id = ? AND NOT taken ORDER BY row"
        return await self._access.records(load_item, sql, (text(session_id),))

    async def drop(self, item_ids: Collection[int]) -> None:
        rows = [(number,) for number in sorted(item_ids)]
        sql = "DELETE FROM inbox WHERE row = ? AND NOT taken"
        await self._access.write(lambda connection: connection.executemany(sql, rows))


def take(connection: sqlite3.Connection, numbers: Collection[int]) -> None:
    """Remove items from the inbox. The key of an item stays known."""
    rows = [(number,) for number in numbers]
    connection.executemany("UPDATE inbox SET taken = 1, body = '' WHERE row = ? AND key <> ''", rows)
    connection.executemany("DELETE FROM inbox WHERE row = ? AND key = ''", rows)


class SqliteOrigins:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def of(self, session_id: str) -> Mapping[str, int]:
        found = await self._access.rows("SELECT path, bits FROM origins WHERE session_id = ?", (text(session_id),))
        return {plain(path): bits for path, bits in found}

    async def copies(self, session_id: str) -> Mapping[str, str]:
        sql = "SELECT path, copy_of FROM origins WHERE session_id = ? AND copy_of <> ''"
        return {plain(path): plain(source) for path, source in await self._access.rows(sql, (text(session_id),))}

    async def remember(self, session_id: str, origins: Mapping[str, int], copies: Mapping[str, str] = NO_ENTRIES) -> None:
        """Add the bits to the origins of each path, and record which paths are copies."""
        key = text(session_id)
        rows = [
            (key, text(path), origins.get(path, 0), text(copies[path]) if path in copies else None)
            for path in dict.fromkeys((*origins, *copies))
        ]
        sql = (
            "INSERT INTO origins (session_id, path, bits, copy_of) VALUES (?, ?, ?, ?) ON CONFLICT (session_id, path)"
            " DO UPDATE SET bits = bits | excluded.bits, copy_of = coalesce(excluded.copy_of, copy_of)"
        )
        await self._access.write(lambda connection: connection.executemany(sql, rows))
