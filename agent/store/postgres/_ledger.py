"""The ledger. The allowed transitions are part of the UPDATE, so only one of two processes moves a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._codec import Stored, dump_call, dump_result
from agent.store._from_rows import CALL, read_call
from agent.store._shared import can_finish_as, check_opening, interrupted
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import Values, digest, to_json, to_text
from toolcrib.contract.errors import InvalidTransition
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import CallRecord, Fence
from toolcrib.contract.types import Json, ToolCall, ToolCallStatus, ToolResult

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_S = ToolCallStatus
_BEFORE = {new: [old.value for old in _S if old is not new and old.can_become(new)] for new in _S}

NEWEST = "(SELECT max(row) FROM calls WHERE session_id = %(session)s AND call_key = %(call_key)s)"
"""Query for the row of an id's newest call; ``of_call`` returns its parameters."""


def of_call(session_id: str, call_id: str) -> Values:
    return {"session": to_text(session_id), "call_key": digest(call_id)}


class PostgresLedger:
    """Every call's status, by session and call id (002-27, 002-28). An id means its newest call; older ones stay stored."""

    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def open(
        self,
        call: ToolCall,
        session_id: str,
        status: ToolCallStatus = ToolCallStatus.NEW,
        *,
        turn: str = "",
        handler_started: bool = False,
    ) -> None:
        check_opening(status)
        made = await self._database.write(
            self._fence,
            "INSERT INTO calls (session_id, call_id, call_key, call, status, token, opened_at, handler_started)"  # noqa: S608 - NOW is ours
            f" VALUES (%(session)s, %(id)s, %(call_key)s, %(call)s, %(status)s, %(token)s, {NOW}, %(started)s)"
            " ON CONFLICT DO NOTHING RETURNING row",
            {
                **of_call(session_id, call.id),
                **self._database.now(),
                "id": to_text(call.id),
                "call": to_json(dump_call(call, turn)),
                "status": status.value,
                "token": self._token(),
                "started": handler_started,
            },
        )
        if not made:
            known = await self.get(session_id, call.id)
            now = "under way" if known is None else known.status.value
            raise InvalidTransition(f"the call {call.id!r} is already {now}; each call needs its own id")

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        await self._set(session_id, call_id, status, _BEFORE[status], None)

    async def handler_started(self, session_id: str, call_id: str) -> None:
        sql = (
            "UPDATE calls SET handler_started = true, token = %(token)s"  # noqa: S608 - NEWEST is ours
            f" WHERE row = {NEWEST} AND status IN ('running', 'resuming') RETURNING row"
        )
        if not await self._database.write(self._fence, sql, {**of_call(session_id, call_id), "token": self._token()}):
            record = await self._known(session_id, call_id)
            raise InvalidTransition(f"the handler of a call that is {record.status.value} can't start")

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
            await self._known(session_id, call_id)
            raise InvalidTransition(f"a tool call can't finish as {status.value}")
        before = [*_BEFORE[status], status.value] if status is _S.SUSPENDED else _BEFORE[status]
        await self._set(session_id, call_id, status, before, dump_result(result, end_run, state))

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        sql = f"SELECT {CALL} FROM calls WHERE row = {NEWEST}"  # noqa: S608 - both are ours
        found = await self._database.records(read_call, sql, of_call(session_id, call_id))
        return found[0] if found else None

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        sql = f"SELECT {CALL} FROM calls WHERE session_id = %(session)s ORDER BY row"  # noqa: S608 - ours
        return await self._database.records(read_call, sql, {"session": to_text(session_id)})

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """See toolcrib.contract.store.Store.recover. Calls of this lease may still run and are left alone.

        Without a lease it ends no call.
        """
        token = self._token()
        if not token:
            return ()
        values = {"session": to_text(session_id), "token": token}

        async def recover(connection: Connection) -> list[CallRecord]:
            left = await connection.execute(
                f"SELECT row, {CALL} FROM calls WHERE session_id = %(session)s"  # noqa: S608 - ours
                " AND status IN ('new', 'running', 'resuming') AND token < %(token)s ORDER BY row FOR UPDATE",
                values,
            )
            ended = []
            for row, *columns in await left.fetchall():
                (record,) = self._database.made(read_call, [columns])
                result = interrupted(record.call.name, record.handler_started)
                done = await connection.execute(
                    f"UPDATE calls SET status = 'failed', ended_at = {NOW}, result = %(result)s, token = %(token)s"  # noqa: S608 - ours
                    f" WHERE row = %(row)s RETURNING {CALL}",
                    {**self._database.now(), "row": row, "token": token, "result": to_json(dump_result(result))},
                )
                ended += self._database.made(read_call, await done.fetchall())
            return ended

        return await self._database.transact(self._fence, recover)

    async def _set(self, session_id: str, call_id: str, status: ToolCallStatus, before: list[str], result: Stored | None) -> None:
        moved = await self._database.write(
            self._fence,
            "UPDATE calls SET status = %(status)s, token = %(token)s, result = coalesce(%(result)s, result),"  # noqa: S608 - ours
            f" ended_at = CASE WHEN %(ended)s THEN {NOW} END"
            f" WHERE row = {NEWEST} AND status = ANY(%(before)s) RETURNING row",
            {
                **of_call(session_id, call_id),
                **self._database.now(),
                "status": status.value,
                "token": self._token(),
                "result": None if result is None else to_json(result),
                "ended": status.is_terminal,
                "before": before,
            },
        )
        if not moved:
            await self._refuse(session_id, call_id, status)

    async def _refuse(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        """Raise InvalidTransition, unless the call already has the status."""
        record = await self._known(session_id, call_id)
        if record.status.become(status) is not record.status:
            raise InvalidTransition(f"the call {call_id!r} was changed by another process at the same moment")

    async def _known(self, session_id: str, call_id: str) -> CallRecord:
        record = await self.get(session_id, call_id)
        if record is None:
            raise InvalidTransition(f"the call {call_id!r} was never opened")
        return record

    def _token(self) -> int:
        held = None if self._fence is None else self._fence.lease
        return 0 if held is None else held.token
