"""The journal of file changes over SQLite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from agent.store._codec import Stored, dump, load, plain, text
from agent.store._database import Database
from toolcrib._undo import ChangeStep, FileChange, FileState

_SELECT = (
    "SELECT s.row, s.session_id, s.kind, s.turn, s.call_id, s.tool, s.at,"
    " c.row, c.path, c.place, c.before, c.after, c.lost, c.folders, c.undone_by, c.passed_by"
    " FROM steps AS s LEFT JOIN changes AS c ON c.step = s.row"
)
_MOST = 500
"""Variables in one statement; old SQLites take 999."""


class SqliteChanges:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, step: ChangeStep) -> ChangeStep:
        """Record it, all or nothing; the step as it is known from then on, with its ids."""
        names = (text(step.session_id), step.kind, step.turn, text(step.call_id), text(step.tool), step.at)
        with self._database.transaction() as connection:
            sql = "INSERT INTO steps (session_id, kind, turn, call_id, tool, at) VALUES (?, ?, ?, ?, ?, ?)"
            number = connection.execute(sql, names).lastrowid or 0
            changes = []
            for change in step.changes:
                row = connection.execute(
                    "INSERT INTO changes (step, path, place, before, after, lost, folders) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (number, *_columns(change)),
                ).lastrowid
                changes.append(replace(change, id=row or 0))
        return replace(step, id=number, changes=tuple(changes))

    def forget(self, change_ids: Collection[int]) -> None:
        """They were not made after all. A call's step goes with its last change."""
        with self._database.transaction() as connection:
            for some in _portions(change_ids):
                marks = ", ".join("?" * len(some))
                found = connection.execute(f"SELECT DISTINCT step FROM changes WHERE row IN ({marks})", some).fetchall()  # noqa: S608 - marks are ours
                connection.execute(f"DELETE FROM changes WHERE row IN ({marks})", some)  # noqa: S608 - as above
                connection.executemany(
                    "DELETE FROM steps WHERE row = ? AND kind = 'call'"
                    " AND NOT EXISTS (SELECT 1 FROM changes WHERE step = steps.row)",
                    found,
                )

    def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """All of a session, oldest first."""
        return self._select("WHERE s.session_id = ?", (text(session_id),))

    def sessions(self, limit: int = 20) -> Sequence[str]:
        """The ids of those in which a call changed files, the last one first."""
        sql = "SELECT session_id FROM steps WHERE kind = 'call' GROUP BY session_id ORDER BY max(row) DESC LIMIT ?"
        return self._database.records(plain, sql, (limit,))

    def settle(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """How a step left other changes, by their ids: taken back, left as they are, or in effect again."""
        with self._database.transaction() as connection:
            for sql, ids in (
                (f"UPDATE changes SET undone_by = {int(step_id)} WHERE undone_by = 0 AND row = ?", undone),  # noqa: S608 - a number
                (f"UPDATE changes SET passed_by = {int(step_id)} WHERE row = ?", passed),  # noqa: S608 - a number
                ("UPDATE changes SET undone_by = 0, passed_by = 0 WHERE row = ?", revived),
            ):
                connection.executemany(sql, [(number,) for number in ids])

    def untold(self, session_id: str) -> Sequence[ChangeStep]:
        """Undos and redos that the session's model has not heard of, oldest first."""
        return self._select("WHERE s.session_id = ? AND s.kind <> 'call' AND NOT s.told", (text(session_id),))

    def told(self, step_ids: Collection[int]) -> None:
        with self._database.transaction() as connection:
            connection.executemany("UPDATE steps SET told = 1 WHERE row = ?", [(number,) for number in step_ids])

    def _select(self, where: str, values: Sequence[Any]) -> Sequence[ChangeStep]:
        rows = self._database.records(_read, f"{_SELECT} {where} ORDER BY s.row, c.row", values)
        found = []
        for _, group in groupby(rows, key=lambda row: row[0].id):
            members = list(group)
            found.append(replace(members[0][0], changes=tuple(change for _, change in members if change is not None)))
        return found


def _columns(change: FileChange) -> tuple[Any, ...]:
    states = (None if state is None else dump([state.digest, state.size, state.mode]) for state in (change.before, change.after))
    return (text(change.path), text(change.place), *states, text(change.lost), dump(list(change.folders)))


def _read(*row: Any) -> tuple[ChangeStep, FileChange | None]:
    number, session_id, kind, turn, call_id, tool, at, change, path, place, before, after, lost, folders, undone, passed = row
    step = ChangeStep(plain(session_id), turn, plain(call_id), plain(tool), at, (), kind, number)
    if change is None:
        return step, None
    states = (_state(before), _state(after))
    return step, FileChange(plain(path), plain(place), *states, plain(lost), tuple(load(folders)), change, undone, passed)


def _state(stored: Stored | None) -> FileState | None:
    return None if stored is None else FileState(*load(stored))


def _portions(ids: Collection[int]) -> Iterator[list[int]]:
    left = list(ids)
    for start in range(0, len(left), _MOST):
        yield left[start : start + _MOST]
