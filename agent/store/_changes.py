"""The journal of file changes over SQLite. A step is one row, so that writing it before each change of a file is quick."""

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
        """Store a step atomically. Return it with its ids."""
        changes = numbered(step.changes)
        sql = "INSERT INTO steps (session_id, kind, turn, call_id, tool, at, changes) VALUES (?, ?, ?, ?, ?, ?, ?)"
        who = text(step.session_id), step.kind, step.turn, text(step.call_id), text(step.tool)
        values = (*who, step.at, dump_changes(changes))
        row = await self._access.write(lambda connection: connection.execute(sql, values).lastrowid or 0)
        return replace(step, id=row, changes=with_ids(row, changes))

    async def forget(self, change_ids: Collection[int]) -> None:
        """Remove changes that were not carried out. A call's step without changes is no longer returned."""
        await self._rewrite(forgotten(change_ids))

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """Return the steps of a session, oldest first."""
        return await self._select(
            "WHERE session_id = ? AND (kind <> 'call' OR changes <> '[]') ORDER BY row", (text(session_id),)
        )

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        """Return the ids of sessions with file changes by calls, newest first."""
        sql = (
            "SELECT session_id FROM steps WHERE kind = 'call' AND changes <> '[]'"
            " GROUP BY session_id ORDER BY max(row) DESC LIMIT ?"
        )
        return await self._access.records(plain, sql, (limit,))

    async def mark_changes(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """Record the effect of a step on other changes, by their ids: undone, unchanged, or in effect again."""
        await self._rewrite(settled(step_id, undone, passed, revived))

    async def unreported(self, session_id: str) -> Sequence[ChangeStep]:
        """Return undos and redos that the session's model has not seen, oldest first."""
        return await self._select("WHERE session_id = ? AND kind <> 'call' AND NOT told ORDER BY row", (text(session_id),))

    async def mark_reported(self, step_ids: Collection[int]) -> None:
        numbers = [(number,) for number in step_ids]
        await self._access.write(lambda connection: connection.executemany("UPDATE steps SET told = 1 WHERE row = ?", numbers))

    async def prune(self, before: float) -> None:
        """Delete the steps from before a time (Unix seconds), except undos and redos that the model has not seen."""
        # the newest row stays, because the next number follows it
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
