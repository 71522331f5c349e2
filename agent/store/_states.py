"""State under typed keys over SQLite: a version is compared and set in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from agent.store._codec import dump, text
from agent.store._database import Access
from agent.store._from_rows import read_value
from agent.store._shared import Clock
from toolcrib.contract.state import StateScope, StateValue, StateWrite

_PLACE = "scope = ? AND owner = ? AND name = ?"
_INSERT = "INSERT INTO state (scope, owner, name, value, version, at) VALUES (?, ?, ?, ?, 1, ?)"
_UPDATE = f"UPDATE state SET value = ?, version = version + 1, at = ? WHERE {_PLACE}"  # noqa: S608 - ours


class SqliteStates:
    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def of(self, scope: StateScope, owner: str) -> Mapping[str, StateValue]:
        sql = "SELECT name, value, version FROM state WHERE scope = ? AND owner = ?"
        return dict(await self._access.records(read_value, sql, (scope, text(owner))))

    async def write(self, writes: Sequence[StateWrite]) -> Sequence[int]:
        """Write values.

        See toolcrib.contract.state.StateStore. Raises TypeError, ValueError or RecursionError for anything but JSON.
        """
        places = [(one.scope, text(one.owner), text(one.name)) for one in writes]
        values, now = [dump(one.value) for one in writes], self._clock()

        def work(connection: sqlite3.Connection) -> Sequence[int]:
            sql = f"SELECT version FROM state WHERE {_PLACE}"  # noqa: S608 - ours
            before = [(connection.execute(sql, place).fetchone() or (0,))[0] for place in places]
            if any(one.was not in (None, version) for one, version in zip(writes, before, strict=True)):
                return ()
            for place, value, version in zip(places, values, before, strict=True):
                if version:
                    connection.execute(_UPDATE, (value, now, *place))
                else:
                    connection.execute(_INSERT, (*place, value, now))
            return [version + 1 for version in before]

        return await self._access.write(work)
