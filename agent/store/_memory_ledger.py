"""The ledger, the tickets and the audit for one process."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from agent.store._codec import dump_answer, dump_call, dump_result, dump_ticket, plain
from agent.store._memory_room import MemoryMember, Room
from agent.store._shared import can_finish_as, check_opening, check_settling, interrupted
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import InvalidTransition
from toolcrib.contract.frozen import freeze
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import AuditEntry, CallRecord, Settled, TicketRecord, TicketState
from toolcrib.contract.types import Answer, Json, ToolCall, ToolCallStatus, ToolResult

_S = ToolCallStatus


class MemoryLedger(MemoryMember):
    """Every call's status, by session and call id. Moves follow ToolCallStatus' table (002-27, 002-28)."""

    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._calls: list[CallRecord] = []
        self._tokens: list[int] = []
        self._newest: dict[tuple[str, str], int] = {}

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
        key = (session_id, call.id)
        with self._writing:
            known = self._newest.get(key)
            if known is not None and not self._calls[known].status.is_terminal:
                under_way = self._calls[known].status.value
                raise InvalidTransition(f"the call {call.id!r} is already {under_way}; each call needs an id of its own")
            self._newest[key] = len(self._calls)
            self._calls.append(CallRecord(call, session_id, status, handler_started, opened_at=self._room.clock(), turn=turn))
            self._tokens.append(self._writing.token)

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        with self._writing:
            self._become(self._number(session_id, call_id), status)

    async def handler_started(self, session_id: str, call_id: str) -> None:
        with self._writing:
            number = self._number(session_id, call_id)
            record = self._calls[number]
            if record.status not in (_S.RUNNING, _S.RESUMING):
                raise InvalidTransition(f"the handler of a call that is {record.status.value} can not start")
            self._calls[number] = replace(record, handler_started=True)
            self._tokens[number] = self._writing.token

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
        """Record how a call ended, or that it waits. A call that has ended keeps its first result."""
        with self._writing:
            number = self._number(session_id, call_id)
            record = self._calls[number]
            if record.status.is_terminal and status is record.status:
                return
            if not can_finish_as(status):
                raise InvalidTransition(f"a tool call can not finish as {status.value}")
            self._become(number, status)
            self._calls[number] = replace(self._calls[number], result=result, end_run=end_run, state=freeze(dict(state)))

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """The newest call of that id."""
        with self._reading:
            number = self._newest.get((session_id, call_id))
            return None if number is None else self._calls[number]

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        with self._reading:
            return [record for record in self._calls if record.session_id == session_id]

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """See toolcrib.contract.store.Store.recover."""
        with self._writing:
            ended: list[CallRecord] = []
            for number, record in enumerate(self._calls):
                left = record.status in (_S.NEW, _S.RUNNING, _S.RESUMING) and self._tokens[number] < self._writing.token
                if record.session_id == session_id and left:
                    result = interrupted(record.call.name, record.handler_started)
                    record = replace(record, status=_S.FAILED, ended_at=self._room.clock(), result=result)
                    self._calls[number], self._tokens[number] = record, self._writing.token
                    ended.append(record)
            return ended

    def at_work(self, session_id: str) -> bool:
        """Return whether a call of the session has not ended."""
        with self._reading:
            return any(record.session_id == session_id and not record.status.is_terminal for record in self._calls)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the calls of these sessions. The others keep their numbers. For who holds the lock."""
        for number, record in enumerate(self._calls):
            if record.session_id in session_ids:
                self._calls[number] = CallRecord(ToolCall("", "", {}), "", _S.CANCELLED)
                self._newest.pop((record.session_id, record.call.id), None)

    def newest(self, session_id: str, call_id: str) -> int | None:
        """The number of the newest call of that id, in the order of opening."""
        with self._reading:
            return self._newest.get((session_id, call_id))

    def _number(self, session_id: str, call_id: str) -> int:
        number = self._newest.get((session_id, call_id))
        if number is None:
            raise InvalidTransition(f"the call {call_id!r} was never opened")
        return number

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) for what is kept. For who holds the lock."""
        for record in self._calls:
            yield record.session_id, plain(dump_call(record.call))
            if record.result is not None:
                yield record.session_id, plain(dump_result(record.result))

    def _become(self, number: int, status: ToolCallStatus) -> None:
        record = self._calls[number]
        if record.status.become(status) is not record.status:
            ended_at = self._room.clock() if status.is_terminal else None
            self._calls[number] = replace(record, status=status, ended_at=ended_at)
            self._tokens[number] = self._writing.token


class MemoryTickets(MemoryMember):
    """Tickets, each answered once. One whose time has run out is expired, whoever answers.

    ``ledger`` tells calls apart that share an id.
    """

    def __init__(self, room: Room | None = None, ledger: MemoryLedger | None = None) -> None:
        super().__init__(room)
        self._ledger = ledger
        self._calls: dict[str, int | None] = {}
        self._tickets: dict[str, TicketRecord] = {}
        self._decisions: dict[str, str] = {}
        """The ticket that each decision settled."""

    async def put(self, record: TicketRecord) -> None:
        """Raises ValueError for an id that is known, since a settled ticket must not come to life again."""
        with self._writing:
            if record.ticket.id in self._tickets:
                raise ValueError(f"the ticket {record.ticket.id!r} is known already; each ticket needs an id of its own")
            self._tickets[record.ticket.id] = record
            if record.answer is not None:
                self._decisions[record.answer.decision_id] = record.ticket.id
            if record.ticket.call is not None:
                self._calls[record.ticket.id] = self._newest(record.session_id, record.ticket.call.id)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the tickets of these sessions. For who holds the lock."""
        for name in [name for name, record in self._tickets.items() if record.session_id in session_ids]:
            del self._tickets[name]
            self._calls.pop(name, None)
        for decision in [decision for decision, name in self._decisions.items() if name not in self._tickets]:
            del self._decisions[decision]

    async def get(self, ticket_id: str) -> TicketRecord | None:
        with self._reading:
            return self._look(ticket_id)

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Return pending tickets in the order in which they were put."""
        with self._reading:
            found = [
                self._look(key)
                for key, record in list(self._tickets.items())
                if session_id is None or record.session_id == session_id
            ]
            return [record for record in found if record is not None and record.state == "pending"]

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of the newest call of that id, answered or not, oldest first."""
        with self._reading:
            newest = self._newest(session_id, call_id)
            found = [
                self._look(key)
                for key, record in self._tickets.items()
                if record.session_id == session_id and record.ticket.call is not None and record.ticket.call.id == call_id
                if self._calls.get(key) == newest
            ]
            return [record for record in found if record is not None]

    async def settle(self, answer: Answer, state: TicketState) -> Settled:
        """pending -> ``state``, by the first answer only (002-31)."""
        check_settling(state)
        with self._reading:
            settled = self._decisions.get(answer.decision_id)
            record = self._look(answer.ticket_id)
            if settled is not None and settled == answer.ticket_id:
                return "repeated"
            if record is None or record.state != "pending" or settled is not None:
                return "refused"
            self._decisions[answer.decision_id] = answer.ticket_id
            self._tickets[answer.ticket_id] = replace(record, state=state, answer=answer)
            return "settled"

    async def due(self, now: float) -> Sequence[TicketRecord]:
        return [record for record in await self.pending() if record.remind_at is not None and record.remind_at <= now]

    async def reminded(self, ticket_id: str, was: float, again_at: float | None) -> bool:
        with self._reading:
            record = self._look(ticket_id)
            if record is None or record.state != "pending" or record.remind_at != was:
                return False
            self._tickets[ticket_id] = replace(record, remind_at=again_at)
            return True

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) for what is kept. For who holds the lock."""
        for record in self._tickets.values():
            yield record.session_id, plain(dump_ticket(record.ticket))
            if record.answer is not None:
                yield record.session_id, plain(dump_answer(record.answer))

    def _newest(self, session_id: str, call_id: str) -> int | None:
        return None if self._ledger is None else self._ledger.newest(session_id, call_id)

    def _look(self, ticket_id: str) -> TicketRecord | None:
        record = self._tickets.get(ticket_id)
        late = record is not None and record.expires_at is not None and self._room.clock() >= record.expires_at
        return replace(record, state="expired") if record is not None and late and record.state == "pending" else record


class MemoryAudit(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._entries: list[AuditEntry] = []

    async def record(self, entry: AuditEntry) -> None:
        with self._writing:
            self._entries.append(replace(entry, detail=freeze(entry.detail)))

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        """Return entries in order: all, or those of one session."""
        with self._reading:
            return [entry for entry in self._entries if session_id is None or entry.session_id == session_id]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) for what is kept. For who holds the lock."""
        return ((entry.session_id, json.dumps(entry.detail, default=dict)) for entry in self._entries)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the entries of these sessions. For who holds the lock."""
        self._entries[:] = [entry for entry in self._entries if entry.session_id not in session_ids]
