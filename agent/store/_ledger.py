"""The ledger over SQLite: the table of moves stands in the UPDATE itself, so that of two processes one moves a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent.store._codec import Stored, dump_call, dump_result, load_call, load_result, plain, text
from agent.store._database import Database
from agent.store._owner import is_alive, this_process
from agent.store._shared import Clock, can_finish_as, end_words
from toolcrib import InvalidTransition, ToolCall, ToolCallStatus, ToolResult
from toolcrib._store import CallRecord
from toolcrib._types import Failure

_S = ToolCallStatus
_BEFORE = {new: [old.value for old in _S if old is not new and old.can_become(new)] for new in _S}
_MINE = {_S.NEW, _S.RUNNING, _S.RESUMING}
"""While a call is in one of these, only its own process may move it."""

NEWEST = "SELECT max(row) FROM calls WHERE session_id = ? AND call_id = ?"
_COLUMNS = "session_id, call_id, call, status, handler_started, result, opened_at, ended_at"


class SqliteLedger:
    """Every call's status, by session and call id (002-27, 002-28). The newest call of an id is meant; all are kept."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def open(self, call: ToolCall, session_id: str) -> None:
        """Record a call as NEW. Raises InvalidTransition for the id of a call that is under way."""
        made = self._database.run(
            "INSERT INTO calls (session_id, call_id, call, owner, opened_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (text(session_id), text(call.id), dump_call(call), this_process(), self._clock()),
        )
        if not made:
            known = self.get(session_id, call.id)
            status = "under way" if known is None else known.status.value
            raise InvalidTransition(f"the call {call.id!r} is already {status}; each call needs an id of its own")

    def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        if not self._set(session_id, call_id, status, _BEFORE[status], None):
            self._refuse(session_id, call_id, status)

    def handler_started(self, session_id: str, call_id: str) -> None:
        done = self._database.run(
            "UPDATE calls SET handler_started = 1"  # noqa: S608 - NEWEST is ours
            f" WHERE row = ({NEWEST}) AND status IN ('running', 'resuming') AND owner = ?",
            (text(session_id), text(call_id), this_process()),
        )
        if not done:
            record = self._known(session_id, call_id)
            if record.status in (_S.RUNNING, _S.RESUMING):
                raise _elsewhere(record)
            raise InvalidTransition(f"the handler of a call that is {record.status.value} can not start")

    def finish(self, session_id: str, call_id: str, status: ToolCallStatus, result: ToolResult) -> None:
        """Record how a call ended, or that it waits. A call that has ended keeps its first result."""
        if not can_finish_as(status):
            self._known(session_id, call_id)
            raise InvalidTransition(f"a tool call can not finish as {status.value}")
        before = [*_BEFORE[status], status.value] if status is _S.SUSPENDED else _BEFORE[status]
        if not self._set(session_id, call_id, status, before, dump_result(result)):
            self._refuse(session_id, call_id, status)

    def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """The newest call of that id."""
        found = self._database.records(
            _record,
            f"SELECT {_COLUMNS} FROM calls WHERE row = ({NEWEST})",  # noqa: S608 - both are ours
            (text(session_id), text(call_id)),
        )
        return found[0] if found else None

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        return self._database.records(
            _record,
            f"SELECT {_COLUMNS} FROM calls WHERE session_id = ? ORDER BY row",  # noqa: S608 - ours
            (text(session_id),),
        )

    def is_elsewhere(self, session_id: str, call_id: str) -> bool:
        """Whether another process, which lives, runs the newest call of that id or asks somebody about it."""
        sql = (
            f"SELECT owner FROM calls WHERE row = ({NEWEST})"  # noqa: S608 - ours
            " AND (status IN ('new', 'running', 'resuming') OR (status = 'suspended' AND result IS NULL))"
        )
        found = self._database.row(sql, (text(session_id), text(call_id)))
        return bool(found and found[0] != this_process() and is_alive(found[0]))

    def _set(self, session_id: str, call_id: str, status: ToolCallStatus, before: list[str], result: Stored | None) -> bool:
        marks = ", ".join("?" * len(before))
        changed = self._database.run(
            "UPDATE calls SET status = ?, owner = ?, ended_at = ?, result = coalesce(?, result)"  # noqa: S608 - as above
            f" WHERE row = ({NEWEST}) AND status IN ({marks}) AND (status = 'suspended' OR owner = ?)",
            (
                status.value,
                this_process(),
                self._clock() if status.is_terminal else None,
                result,
                text(session_id),
                text(call_id),
                *before,
                this_process(),
            ),
        )
        return changed == 1

    def _refuse(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        """Raise InvalidTransition, unless the call is there already."""
        record = self._known(session_id, call_id)
        if record.status in _MINE and not self._is_mine(session_id, call_id):
            raise _elsewhere(record)
        if record.status.become(status) is not record.status:
            raise InvalidTransition(f"the call {call_id!r} was moved by somebody else at the same moment")

    def _known(self, session_id: str, call_id: str) -> CallRecord:
        record = self.get(session_id, call_id)
        if record is None:
            raise InvalidTransition(f"the call {call_id!r} was never opened")
        return record

    def _is_mine(self, session_id: str, call_id: str) -> bool:
        sql = f"SELECT owner FROM calls WHERE row = ({NEWEST})"  # noqa: S608 - ours
        found = self._database.row(sql, (text(session_id), text(call_id)))
        return bool(found and found[0] == this_process())

    # -- recovery ------------------------------------------------------------------------------------------------

    def recover(self, session_id: str | None) -> Sequence[CallRecord]:
        """See toolcrib._store.Store.recover."""
        where, values = ("", ()) if session_id is None else ("AND session_id = ?", (text(session_id),))
        under_way = (
            "SELECT row, owner, handler_started, call FROM calls AS c"  # noqa: S608 - ours
            f" WHERE status IN ('new', 'running', 'suspended', 'resuming') {where}"
            " AND (status != 'suspended' OR NOT EXISTS (SELECT 1 FROM tickets WHERE call_row = c.row AND state = 'pending'"
            " AND (expires_at IS NULL OR expires_at > ?))) ORDER BY row"
        )
        ended: list[int] = []
        with self._database.transaction() as connection:
            found = connection.execute(under_way, (*values, self._clock())).fetchall()
            living = {owner: is_alive(owner) for owner in {owner for _row, owner, _started, _call in found}}
            for row, owner, started, call in found:
                if living[owner]:
                    continue
                connection.execute(
                    "UPDATE calls SET status = 'failed', ended_at = ?, result = ?, owner = ? WHERE row = ?",
                    (self._clock(), dump_result(_interrupted(load_call("", call).name, bool(started))), this_process(), row),
                )
                ended.append(row)
        by_row = f"SELECT {_COLUMNS} FROM calls WHERE row = ?"  # noqa: S608 - ours
        return [record for row in ended for record in self._database.records(_record, by_row, (row,))]


def _interrupted(name: str, started: bool) -> ToolResult:
    words = end_words(started)
    return replace(ToolResult.error(name, words), failure=Failure(started, "Cancelled", words))


def _elsewhere(record: CallRecord) -> InvalidTransition:
    return InvalidTransition(f"the call {record.call.id!r} is {record.status.value} in another process, which alone may move it")


def _record(
    session_id: Stored,
    call_id: Stored,
    call: Stored,
    status: str,
    started: int,
    result: Stored | None,
    opened_at: float,
    ended_at: Any,
) -> CallRecord:
    return CallRecord(
        load_call(call_id, call),
        plain(session_id),
        ToolCallStatus(status),
        bool(started),
        None if result is None else load_result(result),
        opened_at,
        ended_at,
    )
