"""Runs, the inbox of sessions, and the origins of their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agent.store._codec import dump, dump_item, load_item, plain
from agent.store._from_rows import RUN, read_run
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._sessions import GROW, SAY, said
from agent.store.postgres._text import Values, digest, from_text, to_json, to_text
from agent.store.postgres._usage import USE
from toolcrib.contract.dataclass import replace
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import Fence, InboxItem, RunRecord
from toolcrib.contract.types import Json

_SELECT = f"SELECT {RUN} FROM runs"  # noqa: S608 - ours
_TAKEN = "row = ANY(%(taken)s::bigint[])"
_DROP = f"DELETE FROM inbox WHERE {_TAKEN} AND sender_key IS NULL"  # noqa: S608 - ours
_KEEP_KEY = f"UPDATE inbox SET taken = true, item = '' WHERE {_TAKEN} AND sender_key IS NOT NULL"  # noqa: S608 - ours
_STEP = f"""
run AS (
  INSERT INTO runs (id, session_id, status, step, state, updated_at)
    SELECT %(run)s, %(session)s, %(status)s, %(step)s, %(state)s, {NOW}
      FROM sessions WHERE id = %(session)s
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, step = excluded.step, state = excluded.state,
      updated_at = excluded.updated_at WHERE runs.step < excluded.step
    RETURNING id AS run_id
), grown AS ({GROW.format(source="FROM run")}),
said AS ({SAY}),
used AS ({USE}),
dropped AS ({_DROP} AND EXISTS (SELECT FROM run)),
kept AS ({_KEEP_KEY} AND EXISTS (SELECT FROM run))
"""  # noqa: S608 - ours
_IS_KEPT = "SELECT EXISTS (SELECT FROM run) AS kept, EXISTS (SELECT FROM sessions WHERE id = %(session)s) AS known"


class PostgresRuns:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def commit(self, run: RunRecord, *, messages: Sequence[Mapping[str, Json]] = (), taken: Collection[int] = ()) -> bool:
        """Store a step with one statement. Return False if the run already has it. Raises KeyError for an unknown session."""
        values: Values = {
            **said(run.session_id, messages),
            **self._database.now(),
            "run": to_text(run.id),
            "status": run.status,
            "step": run.step,
            "state": to_json(dump(run.state)),
            "taken": sorted(taken),
        }
        ((kept, known),) = await self._database.write(self._fence, _IS_KEPT, values, parts=_STEP)
        if not known:
            raise KeyError(run.session_id)
        return bool(kept)

    async def get(self, run_id: str) -> RunRecord | None:
        return await self._first("id = %(id)s", {"id": to_text(run_id)})

    async def current(self, session_id: str) -> RunRecord | None:
        where = "session_id = %(session)s AND status <> 'ended' ORDER BY row DESC LIMIT 1"
        return await self._first(where, {"session": to_text(session_id)})

    async def last(self, session_id: str) -> RunRecord | None:
        return await self._first("session_id = %(session)s ORDER BY row DESC LIMIT 1", {"session": to_text(session_id)})

    async def parked(self, limit: int = 1_000, offset: int = 0) -> Sequence[RunRecord]:
        sql = f"{_SELECT} WHERE status = 'parked' ORDER BY updated_at, row LIMIT %(limit)s OFFSET %(offset)s"
        return await self._database.records(read_run, sql, {"limit": limit, "offset": offset})

    async def unfinished(self) -> Sequence[str]:
        sql = "SELECT session_id FROM runs WHERE status = 'running' UNION SELECT session_id FROM inbox WHERE NOT taken"
        return list(await self._database.records(plain, sql, {}))

    async def _first(self, where: str, values: Values) -> RunRecord | None:
        return next(iter(await self._database.records(read_run, f"{_SELECT} WHERE {where}", values)), None)


class PostgresInbox:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def put(self, item: InboxItem) -> InboxItem | None:
        """Store an item and return it with its id and time. Return None if its key is known."""
        found = await self._database.write(
            None,
            "INSERT INTO inbox (session_id, key, sender_key, item, at)"  # noqa: S608 - NOW is ours
            f" VALUES (%(session)s, %(key)s, %(digest)s, %(item)s, coalesce(%(at)s, {NOW}))"
            " ON CONFLICT DO NOTHING RETURNING row, at",
            {
                **self._database.now(),
                "session": to_text(item.session_id),
                "key": to_text(item.key),
                "digest": digest(item.key) if item.key else None,
                "item": to_json(dump_item(item)),
                "at": item.at or None,
            },
        )
        return replace(item, id=found[0][0], at=found[0][1], images=tuple(item.images)) if found else None

    async def waiting(self, session_id: str) -> Sequence[InboxItem]:
        sql = "SELECT row, session_id, key, at, item FROM inbox WHERE session_id = %(session)s AND NOT taken ORDER BY row"
        return await self._database.records(load_item, sql, {"session": to_text(session_id)})

    async def drop(self, item_ids: Collection[int]) -> None:
        parts = f"dropped AS (DELETE FROM inbox WHERE {_TAKEN} AND NOT taken)"  # noqa: S608 - ours
        await self._database.write(None, "SELECT 1", {"taken": sorted(item_ids)}, parts=parts)


class PostgresOrigins:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def of(self, session_id: str) -> Mapping[str, int]:
        sql = "SELECT path, bits FROM origins WHERE session_id = %(session)s"
        return {from_text(path): bits for path, bits in await self._database.rows(sql, {"session": to_text(session_id)})}

    async def copies(self, session_id: str) -> Mapping[str, str]:
        sql = "SELECT path, copy_of FROM origins WHERE session_id = %(session)s AND copy_of <> ''"
        rows = await self._database.rows(sql, {"session": to_text(session_id)})
        return {from_text(path): from_text(source) for path, source in rows}

    async def remember(self, session_id: str, origins: Mapping[str, int], copies: Mapping[str, str] = NO_ENTRIES) -> None:
        """Add the bits to the origins of each path, and record which paths are copies."""
        paths = sorted({*origins, *copies})  # in one order, so that two writers don't wait for each other
        await self._database.write(
            self._fence,
            "INSERT INTO origins (session_id, path_key, path, bits, copy_of)"
            " SELECT %(session)s, one.key, one.path, one.bits, one.copy_of"
            " FROM unnest(%(keys)s::bytea[], %(paths)s::text[], %(bits)s::bigint[], %(copies)s::text[])"
            " AS one (key, path, bits, copy_of) ON CONFLICT (session_id, path_key) DO UPDATE"
            " SET bits = origins.bits | excluded.bits, copy_of = coalesce(excluded.copy_of, origins.copy_of) RETURNING 1",
            {
                "session": to_text(session_id),
                "keys": [digest(path) for path in paths],
                "paths": [to_text(path) for path in paths],
                "bits": [int(origins.get(path, 0)) for path in paths],
                "copies": [to_text(copies[path]) if path in copies else None for path in paths],
            },
        )
