"""The journal of file changes. A step is one row, so that writing it before each change of a file is quick."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent.store._codec import plain
from agent.store._steps import Ways, dump_changes, forgotten, numbered, read_step, rewritten, settled, with_ids
from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._text import Values, to_json, to_text
from toolcrib.contract.dataclass import replace
from toolcrib.contract.store import Fence
from toolcrib.contract.undo import ChangeStep

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_SELECT = "SELECT row, session_id, kind, turn, call_id, tool, at, changes FROM steps"


class PostgresChanges:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def begin(self, step: ChangeStep) -> ChangeStep:
        changes = numbered(step.changes)
        ((row,),) = await self._database.write(
            self._fence,
            "INSERT INTO steps (session_id, kind, turn, call_id, tool, at, changes)"
            " VALUES (%(session)s, %(kind)s, %(turn)s, %(call)s, %(tool)s, %(at)s, %(changes)s) RETURNING row",
            {
                "session": to_text(step.session_id),
                "kind": step.kind,
                "turn": step.turn,
                "call": to_text(step.call_id),
                "tool": to_text(step.tool),
                "at": step.at,
                "changes": to_json(dump_changes(changes)),
            },
        )
        return replace(step, id=row, changes=with_ids(row, changes))

    async def forget(self, change_ids: Collection[int]) -> None:
        await self._rewrite(forgotten(change_ids))

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        where = "session_id = %(session)s AND (kind <> 'call' OR changes <> '[]')"
        return await self._select(where, {"session": to_text(session_id)})

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        sql = (
            "SELECT session_id FROM steps WHERE kind = 'call' AND changes <> '[]'"
            " GROUP BY session_id ORDER BY max(row) DESC LIMIT %(limit)s"
        )
        return await self._database.records(plain, sql, {"limit": limit})

    async def mark_changes(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        await self._rewrite(settled(step_id, undone, passed, revived))

    async def unreported(self, session_id: str) -> Sequence[ChangeStep]:
        return await self._select("session_id = %(session)s AND kind <> 'call' AND NOT told", {"session": to_text(session_id)})

    async def mark_reported(self, step_ids: Collection[int]) -> None:
        sql = "UPDATE steps SET told = true WHERE row = ANY(%(rows)s::bigint[]) RETURNING row"
        await self._database.write(self._fence, sql, {"rows": sorted(step_ids)})

    async def prune(self, before: float) -> None:
        sql = "DELETE FROM steps WHERE at < %(before)s AND (kind = 'call' OR told)"

        async def prune(connection: Connection) -> None:
            await connection.execute(sql, {"before": before})

        await self._database.transact(self._fence, prune, patient=True)

    async def _rewrite(self, ways: Ways) -> None:
        async def rewrite(connection: Connection) -> None:
            found = await connection.execute(
                "SELECT row, changes FROM steps WHERE row = ANY(%(rows)s::bigint[]) ORDER BY row FOR UPDATE",
                {"rows": sorted(ways)},
            )
            for row, stored in await found.fetchall():
                (changes,) = self._database.made(rewritten, [(stored, ways[row])])
                await connection.execute(
                    "UPDATE steps SET changes = %(changes)s WHERE row = %(row)s", {"changes": to_json(changes), "row": row}
                )

        await self._database.transact(self._fence, rewrite)

    async def _select(self, where: str, values: Values) -> Sequence[ChangeStep]:
        return await self._database.records(read_step, f"{_SELECT} WHERE {where} ORDER BY row", values)
