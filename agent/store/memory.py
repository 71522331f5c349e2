"""The store for one process: everything is remembered until it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib import Answer, InvalidTransition, ToolCall, ToolCallStatus, ToolResult
from toolcrib._frozen import freeze
from toolcrib._store import AuditEntry, CallRecord, GrantStore, TicketRecord, TicketState
from toolcrib._types import Json

if TYPE_CHECKING:
    from toolcrib._store import Store

Clock = Callable[[], float]
"""Unix time in seconds."""


class MemoryLedger:
    """Every call's status, by session and call id. Moves follow ToolCallStatus' table (002-27, 002-28)."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], CallRecord] = {}
        self._lock = threading.Lock()

    def open(self, call: ToolCall, session_id: str) -> None:
        """Record a call as NEW. An id that is used again replaces a finished call; one that is under way is not replaced.

        Raises InvalidTransition for that.
        """
        key = (session_id, call.id)
        with self._lock:
            known = self._calls.get(key)
            if known is not None and not known.status.is_terminal:
                raise InvalidTransition(f"the call {call.id!r} is already {known.status.value}; each call needs an id of its own")
            self._calls[key] = CallRecord(call, session_id, ToolCallStatus.NEW)

    def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        with self._lock:
            record = self._get(session_id, call_id)
            self._calls[session_id, call_id] = replace(record, status=record.status.become(status))

    def handler_started(self, session_id: str, call_id: str) -> None:
        with self._lock:
            record = self._get(session_id, call_id)
            if record.status not in (ToolCallStatus.RUNNING, ToolCallStatus.RESUMING):
                raise InvalidTransition(f"the handler of a call that is {record.status.value} can not start")
            self._calls[session_id, call_id] = replace(record, handler_started=True)

    def finish(self, session_id: str, call_id: str, status: ToolCallStatus, result: ToolResult) -> None:
        """Record how a call ended, or that it waits. A call that has ended keeps its first result."""
        with self._lock:
            record = self._get(session_id, call_id)
            if record.status.is_terminal and status is record.status:
                return
            if not status.is_terminal and status is not ToolCallStatus.SUSPENDED:
                raise InvalidTransition(f"a tool call can not finish as {status.value}")
            self._calls[session_id, call_id] = replace(record, status=record.status.become(status), result=result)

    def get(self, session_id: str, call_id: str) -> CallRecord | None:
        with self._lock:
            return self._calls.get((session_id, call_id))

    def _get(self, session_id: str, call_id: str) -> CallRecord:
        record = self._calls.get((session_id, call_id))
        if record is None:
            raise InvalidTransition(f"the call {call_id!r} was never opened")
        return record


class MemoryTickets:
    """Tickets, each answered once. One whose time has run out is expired, whoever answers."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._tickets: dict[str, TicketRecord] = {}
        self._decisions: set[str] = set()
        self._clock = clock
        self._lock = threading.Lock()

    def put(self, record: TicketRecord) -> None:
        """Raises ValueError for an id that is known, since a settled ticket must not come to life again."""
        with self._lock:
            if record.ticket.id in self._tickets:
                raise ValueError(f"the ticket {record.ticket.id!r} is known already; each ticket needs an id of its own")
            self._tickets[record.ticket.id] = record

    def get(self, ticket_id: str) -> TicketRecord | None:
        with self._lock:
            return self._look(ticket_id)

    def pending(self, session_id: str) -> Sequence[TicketRecord]:
        """In the order in which they were put."""
        with self._lock:
            found = [self._look(key) for key, record in self._tickets.items() if record.session_id == session_id]
            return [record for record in found if record is not None and record.state == "pending"]

    def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of one call, answered or not, oldest first."""
        with self._lock:
            found = [
                self._look(key)
                for key, record in self._tickets.items()
                if record.session_id == session_id and record.ticket.call is not None and record.ticket.call.id == call_id
            ]
            return [record for record in found if record is not None]

    def settle(self, answer: Answer, state: TicketState) -> bool:
        """pending -> ``state``, by the first answer only. A decision that is delivered again changes nothing (002-31): False."""
        if state == "pending":
            raise ValueError("a ticket is settled as approved, denied or expired")
        with self._lock:
            record = self._look(answer.ticket_id)
            if record is None or record.state != "pending" or answer.decision_id in self._decisions:
                return False
            self._decisions.add(answer.decision_id)
            self._tickets[answer.ticket_id] = replace(record, state=state, answer=answer)
            return True

    def _look(self, ticket_id: str) -> TicketRecord | None:
        record = self._tickets.get(ticket_id)
        late = record is not None and record.expires_at is not None and self._clock() >= record.expires_at
        if record is not None and late and record.state == "pending":
            record = self._tickets[ticket_id] = replace(record, state="expired")
        return record


class MemoryAudit:
    def __init__(self) -> None:
        self._entries: list[AuditEntry] = []
        self._lock = threading.Lock()

    def record(self, entry: AuditEntry) -> None:
        with self._lock:
            self._entries.append(replace(entry, detail=freeze(entry.detail)))

    def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        """In order; all, or those of one session."""
        with self._lock:
            return [entry for entry in self._entries if session_id is None or entry.session_id == session_id]


class MemorySessions:
    def __init__(self) -> None:
        self._messages: dict[str, list[Mapping[str, Json]]] = {}
        self._lock = threading.Lock()

    def create(self, session_id: str, *, platform: str, user: str) -> None:
        """Creating a session again leaves it as it is."""
        with self._lock:
            self._messages.setdefault(session_id, [])

    def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Keep a read-only copy. Raises KeyError for a session that was never created."""
        with self._lock:
            self._messages[session_id].append(freeze(message))

    def messages(self, session_id: str) -> Sequence[Mapping[str, Json]]:
        """In order. Raises KeyError for a session that was never created."""
        with self._lock:
            return list(self._messages[session_id])


class MemoryStore:
    """Implements toolcrib._store.Store; thread-safe. ``grants`` may be another store of grants, such as PermanentGrants."""

    def __init__(self, grants: GrantStore | None = None, clock: Clock = time.time) -> None:
        from tools.approval.grants import MemoryGrants

        self._ledger = MemoryLedger()
        self._tickets = MemoryTickets(clock)
        self._grants: GrantStore = MemoryGrants() if grants is None else grants
        self._audit = MemoryAudit()
        self._sessions = MemorySessions()

    @property
    def ledger(self) -> MemoryLedger:
        return self._ledger

    @property
    def tickets(self) -> MemoryTickets:
        return self._tickets

    @property
    def grants(self) -> GrantStore:
        return self._grants

    @property
    def audit(self) -> MemoryAudit:
        return self._audit

    @property
    def sessions(self) -> MemorySessions:
        return self._sessions

    def close(self) -> None:
        """Nothing is open."""


if TYPE_CHECKING:

    def _conforms(store: MemoryStore) -> Store:
        return store
