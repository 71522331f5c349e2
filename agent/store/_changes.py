"""The journal of file changes over SQLite: a step is one row, since it is written before each change of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from agent.store._codec import plain, text
from agent.store._database import Access
from agent.store._steps import Ways, dump_changes, forgotten, numbered, read_step, rewritten, settled, with_ids
from toolcrib.contract.dataclass import replace
from toolcrib.contract.undo import ChangeStep

_SELECT = "SELECT row, session_id, kind, turn, call_id, tool, at, changes FROM steps"


class SqliteChanges:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def begin(self, step: ChangeStep) -> ChangeStep:
        """Record it, all or nothing; the step as it is known from then on, with its ids."""
        changes = numbered(step.changes)
        sql = "INSERT INTO steps (session_id, kind, turn, call_id, tool, at, changes) VALUES (?, ?, ?, ?, ?, ?, ?)"
        who = text(step.session_id), step.kind, step.turn, text(step.call_id), text(step.tool)
        values = (*who, step.at, dump_changes(changes))
        row = await self._access.write(lambda connection: connection.execute(sql, values).lastrowid or 0)
        return replace(step, id=row, changes=with_ids(row, changes))

    async def forget(self, change_ids: Collection[int]) -> None:
        """Take out changes that were not made after all. A call's step goes with its last change."""
        await self._rewrite(forgotten(change_ids))

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """All of a session, oldest first."""
        return await self._select(
            "WHERE session_id = ? AND (kind <> 'call' OR changes <> '[]') ORDER BY row", (text(session_id),)
        )

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        """The ids of those in which a call changed files, the last one first."""
        sql = (
            "SELECT session_id FROM steps WHERE kind = 'call' AND changes <> '[]'"
            " GROUP BY session_id ORDER BY max(row) DESC LIMIT ?"
        )
        return await self._access.records(plain, sql, (limit,))

    async def mark_changes(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """Record how a step left other changes, by their ids: undone, left as they are, or in effect again."""
        await self._rewrite(settled(step_id, undone, passed, revived))

    async def unreported(self, session_id: str) -> Sequence[ChangeStep]:
        """Undos and redos that the session's model has not heard of, oldest first."""
        return await self._select("WHERE session_id = ? AND kind <> 'call' AND NOT told ORDER BY row", (text(session_id),))

    async def mark_reported(self, step_ids: Collection[int]) -> None:
        numbers = [(number,) for number in step_ids]
        await self._access.write(lambda connection: connection.executemany("UPDATE steps SET told = 1 WHERE row = ?", numbers))

    async def prune(self, before: float) -> None:
        """Forget the steps from before that time (Unix seconds), but for undos and redos that a model has still to hear of."""
        # the newest row stays: the next number is counted from it
        await self._access.run(
            "DELETE FROM steps WHERE at < ? AND (kind = 'call' OR told) AND row < (SELECT max(row) FROM steps)", (before,)
        )

    async def _rewrite(self, ways: Ways) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for row, own in ways.items():
                found = connection.execute("SELECT changes FROM steps WHERE row = ?", (row,)).fetchone()
                if found is not None:
                    connection.execute("UPDATE steps SET changes = ? WHERE row = ?", (rewritten(found[0], own), row))

        await self._access.write(work)

    async def _select(self, where: str, values: Sequence[Any]) -> Sequence[ChangeStep]:
        return await self._access.records(read_step, f"{_SELECT} {where}", values)
