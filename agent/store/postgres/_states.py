"""State under typed keys: a version is compared and set in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.store._codec import dump
from agent.store._from_rows import read_value
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import digest, to_json, to_text
from toolcrib.contract.state import StateScope, StateValue, StateWrite
from toolcrib.contract.store import Fence

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_KEEP = (
    "INSERT INTO state (scope, place, owner, name, value, version, at)"  # noqa: S608 - NOW is ours
    f" VALUES (%(scope)s, %(place)s, %(owner)s, %(name)s, %(value)s, 1, {NOW}) ON CONFLICT (scope, place)"
    " DO UPDATE SET value = excluded.value, version = state.version + 1, at = excluded.at"
    " WHERE %(was)s::bigint IS NULL OR state.version = %(was)s RETURNING version"
)


class PostgresStates:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def of(self, scope: StateScope, owner: str) -> Mapping[str, StateValue]:
        sql = "SELECT name, value, version FROM state WHERE scope = %(scope)s AND owner = %(owner)s"
        return dict(await self._database.records(read_value, sql, {"scope": scope, "owner": to_text(owner)}))

    async def write(self, writes: Sequence[StateWrite]) -> Sequence[int]:
        """See toolcrib.contract.state.StateStore."""
        rows: list[dict[str, Any]] = [
            {
                **self._database.now(),
                "scope": one.scope,
                "place": hashlib.sha256(digest(one.owner) + digest(one.name)).digest(),
                "owner": to_text(one.owner),
                "name": to_text(one.name),
                "value": to_json(dump(one.value)),
                "was": one.was,
            }
            for one in writes
        ]
        ordered = sorted(range(len(rows)), key=lambda number: (rows[number]["scope"], rows[number]["place"]))

        async def work(connection: Connection) -> Sequence[int]:
            versions = dict.fromkeys(range(len(rows)), 0)
            for number in ordered:  # in one order, so that two writers never wait for each other
                found = await (await connection.execute(_KEEP, rows[number])).fetchone()
                versions[number] = 0 if found is None else int(found[0])
                was = rows[number]["was"]
                if not versions[number] or (was is not None and versions[number] != was + 1):
                    raise _Meanwhile
            return list(versions.values())

        try:
            return await self._database.transact(self._fence, work)
        except _Meanwhile:
            return ()


class _Meanwhile(Exception):
    """A value does not have the expected version."""
