"""The ledger over SQLite. The allowed transitions are part of the UPDATE, so only one of two processes moves a call."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from agent.store._codec import Stored, dump_call, dump_result, load_call, text
from agent.store._database import Access
from agent.store._from_rows import CALL as CALL_COLUMNS
from agent.store._from_rows import read_call
from agent.store._packing import CALL, pack, unpacked
from agent.store._shared import Clock, can_finish_as, check_opening, interrupted
from toolcrib.contract.errors import InvalidTransition
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import CallRecord
from toolcrib.contract.types import Json, ToolCall, ToolCallStatus, ToolResult

_S = ToolCallStatus
_BEFORE = {new: [old.value for old in _S if old is not new and old.can_become(new)] for new in _S}

NEWEST = "SELECT max(row) FROM calls WHERE session_id = ? AND call_id = ?"
_SELECT = f"SELECT {CALL_COLUMNS} FROM calls"  # noqa: S608 - ours


class SqliteLedger:
    """Every call's status, by session and call id (002-27, 002-28). An id refers to its newest call; older ones stay stored."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def open(
        self,
        call: ToolCall,
        session_id: str,
        status: ToolCallStatus = ToolCallStatus.NEW,
        *,
        turn: str = "",
        handler_started: bool = False,
    ) -> None:
        """Record a call as NEW or RUNNING. Raises InvalidTransition for the id of a call that is under way."""
        check_opening(status)
        session, number, token = text(session_id), text(call.id), self._access.token
        values = (session, number, pack(dump_call(call, turn), CALL), status.value, token, self._clock(), int(handler_started))

        def work(connection: sqlite3.Connection) -> None:
            made = connection.execute(
                "INSERT INTO calls (session_id, call_id, call, status, token, opened_at, handler_started)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                values,
            ).rowcount
            if not made:
                known = self._known(connection, session_id, call.id).status.value
                raise InvalidTransition(f"the call {call.id!r} is already {known}; each call needs its own id")

        await self._access.write(work)

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        await self._set(session_id, call_id, status, _BEFORE[status], None)

    async def handler_started(self, session_id: str, call_id: str) -> None:
        values = (self._access.token, text(session_id), text(call_id))

        def work(connection: sqlite3.Connection) -> None:
            done = connection.execute(
                "UPDATE calls SET handler_started = 1, token = ?"  # noqa: S608 - NEWEST is ours
                f" WHERE row = ({NEWEST}) AND status IN ('running', 'resuming')",
                values,
            ).rowcount
            if not done:
                status = self._known(connection, session_id, call_id).status
                raise InvalidTransition(f"the handler of a call that is {status.value} can't start")

        await self._access.write(work)

    async def finish(
        self,
        session_id: str,
        call_id: str,
        status: ToolCallStatus,
        result: ToolResult,
        *,
        end_run: bool = False,
        state: Mapping[str, Json] = NO_ENTRIES,
    ) -> None:
        """Record how a call ended, or that it waits. A call that has ended keeps its first result. Raises InvalidTransition."""
        if not can_finish_as(status):
            await self._access.read(lambda connection: self._known(connection, session_id, call_id))
            raise InvalidTransition(f"a tool call can't finish as {status.value}")
        before = [*_BEFORE[status], status.value] if status is _S.SUSPENDED else _BEFORE[status]
        await self._set(session_id, call_id, status, before, pack(dump_result(result, end_run, state), CALL))

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """Return the newest call of an id."""
        return await self._access.read(lambda connection: self._get(connection, session_id, call_id))

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        return await self._access.records(read_call, f"{_SELECT} WHERE session_id = ? ORDER BY row", (text(session_id),))

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """See toolcrib.contract.store.Store.recover."""
        token = self._access.token
        if not token:
            return ()
        now, session = self._clock(), text(session_id)

        def work(connection: sqlite3.Connection) -> list[CallRecord]:
            found = connection.execute(
                "SELECT row, call, handler_started FROM calls"
                " WHERE session_id = ? AND status IN ('new', 'running', 'resuming') AND token < ? ORDER BY row",
                (session, token),
            ).fetchall()
            ended: list[CallRecord] = []
            for row, call, started in found:
                result = pack(dump_result(interrupted(load_call("", unpacked(call))[0].name, bool(started))), CALL)
                connection.execute(
                    "UPDATE calls SET status = 'failed', ended_at = ?, result = ?, token = ? WHERE row = ?",
                    (now, result, token, row),
                )
                ended += self._access.made(read_call, connection.execute(f"{_SELECT} WHERE row = ?", (row,)))
            return ended

        return await self._access.write(work)

    async def _set(self, session_id: str, call_id: str, status: ToolCallStatus, before: list[str], result: Stored | None) -> None:
        """Move the call if the transition is allowed or already made, else raise InvalidTransition."""
        ended, token = self._clock() if status.is_terminal else None, self._access.token
        values = (status.value, token, ended, result, text(session_id), text(call_id), *before)
        marks = ", ".join("?" * len(before))

        def work(connection: sqlite3.Connection) -> None:
            changed = connection.execute(
                "UPDATE calls SET status = ?, token = ?, ended_at = ?, result = coalesce(?, result)"  # noqa: S608 - as above
                f" WHERE row = ({NEWEST}) AND status IN ({marks})",
                values,
            ).rowcount
            if not changed:
                self._known(connection, session_id, call_id).status.become(status)

        await self._access.write(work)

    def _known(self, connection: sqlite3.Connection, session_id: str, call_id: str) -> CallRecord:
        record = self._get(connection, session_id, call_id)
        if record is None:
            raise InvalidTransition(f"the call {call_id!r} was never opened")
        return record

    def _get(self, connection: sqlite3.Connection, session_id: str, call_id: str) -> CallRecord | None:
        sql = f"{_SELECT} WHERE row = ({NEWEST})"
        found = self._access.made(read_call, connection.execute(sql, (text(session_id), text(call_id))))
        return found[0] if found else None
