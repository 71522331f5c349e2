"""The journal of file changes over SQLite: a step is one row, since it is written before each change of a file."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from agent.store._codec import Stored, dump, load, plain, text
from agent.store._database import Access
from toolcrib._undo import ChangeStep, FileChange, FileState

_SELECT = "SELECT row, session_id, kind, turn, call_id, tool, at, changes FROM steps"
_MANY = 1_000_000
"""More than a step has changes: the number of one is that of its step and its own."""


class SqliteChanges:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def begin(self, step: ChangeStep) -> ChangeStep:
        """Record it, all or nothing; the step as it is known from then on, with its ids."""
        numbered = tuple(replace(change, id=number) for number, change in enumerate(step.changes))
        sql = "INSERT INTO steps (session_id, kind, turn, call_id, tool, at, changes) VALUES (?, ?, ?, ?, ?, ?, ?)"
        who = text(step.session_id), step.kind, step.turn, text(step.call_id), text(step.tool)
        values = (*who, step.at, _dump(numbered))
        row = await self._access.write(lambda connection: connection.execute(sql, values).lastrowid or 0)
        return replace(step, id=row, changes=_with_ids(row, numbered))

    async def forget(self, change_ids: Collection[int]) -> None:
        """Take out changes that were not made after all. A call's step goes with its last change."""
        await self._rewrite(dict.fromkeys(change_ids))

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

    async def settle(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """Record how a step left other changes, by their ids: undone, left as they are, or in effect again."""
        ways: dict[int, Callable[[FileChange], FileChange]] = {}
        ways |= dict.fromkeys(undone, lambda change: replace(change, undone_by=change.undone_by or step_id))
        ways |= dict.fromkeys(passed, lambda change: replace(change, passed_by=step_id))
        ways |= dict.fromkeys(revived, lambda change: replace(change, undone_by=0, passed_by=0))
        await self._rewrite(ways)

    async def untold(self, session_id: str) -> Sequence[ChangeStep]:
        """Undos and redos that the session's model has not heard of, oldest first."""
        return await self._select("WHERE session_id = ? AND kind <> 'call' AND NOT told ORDER BY row", (text(session_id),))

    async def told(self, step_ids: Collection[int]) -> None:
        numbers = [(number,) for number in step_ids]
        await self._access.write(lambda connection: connection.executemany("UPDATE steps SET told = 1 WHERE row = ?", numbers))

    async def prune(self, before: float) -> None:
        """Forget the steps from before that time (Unix seconds), but for undos and redos that a model has still to hear of."""
        # the newest row stays: the next number is counted from it
        await self._access.run(
            "DELETE FROM steps WHERE at < ? AND (kind = 'call' OR told) AND row < (SELECT max(row) FROM steps)", (before,)
        )

    async def _rewrite(self, ways: Any) -> None:
        """Replace each of these changes, by its id, by what its function makes of it; None takes it out."""
        by_step: defaultdict[int, dict[int, Any]] = defaultdict(dict)
        for number, way in ways.items():
            by_step[number // _MANY][number % _MANY] = way

        def work(connection: sqlite3.Connection) -> None:
            for row, own in by_step.items():
                found = connection.execute("SELECT changes FROM steps WHERE row = ?", (row,)).fetchone()
                kept = []
                for change in _load(found[0]) if found is not None else ():
                    way = own.get(change.id, _same)
                    if way is not None:
                        kept.append(way(change))
                connection.execute("UPDATE steps SET changes = ? WHERE row = ?", (_dump(kept), row))

        await self._access.write(work)

    async def _select(self, where: str, values: Sequence[Any]) -> Sequence[ChangeStep]:
        return await self._access.records(_read, f"{_SELECT} {where}", values)


def _same(change: FileChange) -> FileChange:
    return change


def _with_ids(row: int, changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    return tuple(replace(change, id=row * _MANY + change.id) for change in changes)


def _read(
    row: int, session_id: Stored, kind: Any, turn: int, call_id: Stored, tool: Stored, at: float, changes: Stored
) -> ChangeStep:
    return ChangeStep(plain(session_id), turn, plain(call_id), plain(tool), at, _with_ids(row, _load(changes)), kind, row)


def _dump(changes: Sequence[FileChange]) -> Stored:
    return dump(
        [
            [
                change.id,
                change.path,
                change.place,
                _of_state(change.before),
                _of_state(change.after),
                change.lost,
                list(change.folders),
                change.undone_by,
                change.passed_by,
            ]
            for change in changes
        ]
    )


def _load(stored: Stored) -> list[FileChange]:
    return [
        FileChange(path, place, _state(before), _state(after), lost, tuple(folders), number, undone_by, passed_by)
        for number, path, place, before, after, lost, folders, undone_by, passed_by in load(stored)
    ]


def _of_state(state: FileState | None) -> Any:
    return None if state is None else [state.digest, state.size, state.mode, *(state.owner or ())]


def _state(stored: Any) -> FileState | None:
    if stored is None:
        return None
    digest, size, mode, *owner = stored
    return FileState(digest, size, mode, (owner[0], owner[1]) if owner else None)
