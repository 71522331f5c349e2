"""The store for one process: everything is remembered until it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.store._memory_changes import MemoryChanges
from agent.store._shared import CANDIDATES, Clock, ambiguous, can_finish_as, title_of
from toolcrib import Answer, InvalidTransition, ToolCall, ToolCallStatus, ToolResult
from toolcrib._frozen import freeze
from toolcrib._store import AuditEntry, CallRecord, GrantStore, SessionInfo, Settled, TicketRecord, TicketState
from toolcrib._types import Json

if TYPE_CHECKING:
    from toolcrib._store import Store


class MemoryLedger:
    """Every call's status, by session and call id. Moves follow ToolCallStatus' table (002-27, 002-28)."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._calls: list[CallRecord] = []
        self._newest: dict[tuple[str, str], int] = {}
        self._clock = clock
        self._lock = threading.Lock()

    async def open(self, call: ToolCall, session_id: str, status: ToolCallStatus = ToolCallStatus.NEW) -> None:
        """Record a call as NEW. An id that is used again means the new call; that of one under way is refused.

        Raises InvalidTransition for that.
        """
        key = (session_id, call.id)
        with self._lock:
            known = self._newest.get(key)
            if known is not None and not self._calls[known].status.is_terminal:
                status = self._calls[known].status.value
                raise InvalidTransition(f"the call {call.id!r} is already {status}; each call needs an id of its own")
            self._newest[key] = len(self._calls)
            self._calls.append(CallRecord(call, session_id, status, opened_at=self._clock()))

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        with self._lock:
            number = self._number(session_id, call_id)
            self._become(number, status)

    async def handler_started(self, session_id: str, call_id: str) -> None:
        with self._lock:
            number = self._number(session_id, call_id)
            record = self._calls[number]
            if record.status not in (ToolCallStatus.RUNNING, ToolCallStatus.RESUMING):
                raise InvalidTransition(f"the handler of a call that is {record.status.value} can not start")
            self._calls[number] = replace(record, handler_started=True)

    async def finish(self, session_id: str, call_id: str, status: ToolCallStatus, result: ToolResult) -> None:
        """Record how a call ended, or that it waits. A call that has ended keeps its first result."""
        with self._lock:
            number = self._number(session_id, call_id)
            record = self._calls[number]
            if record.status.is_terminal and status is record.status:
                return
            if not can_finish_as(status):
                raise InvalidTransition(f"a tool call can not finish as {status.value}")
            self._become(number, status)
            self._calls[number] = replace(self._calls[number], result=result)

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """The newest call of that id."""
        with self._lock:
            number = self._newest.get((session_id, call_id))
            return None if number is None else self._calls[number]

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        with self._lock:
            return [record for record in self._calls if record.session_id == session_id]

    def newest(self, session_id: str, call_id: str) -> int | None:
        """The number of the newest call of that id, in the order of opening."""
        with self._lock:
            return self._newest.get((session_id, call_id))

    def _number(self, session_id: str, call_id: str) -> int:
        number = self._newest.get((session_id, call_id))
        if number is None:
            raise InvalidTransition(f"the call {call_id!r} was never opened")
        return number

    def _become(self, number: int, status: ToolCallStatus) -> None:
        record = self._calls[number]
        if record.status.become(status) is not record.status:
            self._calls[number] = replace(record, status=status, ended_at=self._clock() if status.is_terminal else None)


class MemoryTickets:
    """Tickets, each answered once. One whose time has run out is expired, whoever answers.

    ``ledger`` tells calls apart that share an id.
    """

    def __init__(self, clock: Clock = time.time, ledger: MemoryLedger | None = None) -> None:
        self._ledger = ledger
        self._calls: dict[str, int | None] = {}
        self._tickets: dict[str, TicketRecord] = {}
        self._decisions: set[str] = set()
        self._clock = clock
        self._lock = threading.Lock()

    async def put(self, record: TicketRecord) -> None:
        """Raises ValueError for an id that is known, since a settled ticket must not come to life again."""
        with self._lock:
            if record.ticket.id in self._tickets:
                raise ValueError(f"the ticket {record.ticket.id!r} is known already; each ticket needs an id of its own")
            self._tickets[record.ticket.id] = record
            if record.ticket.call is not None:
                self._calls[record.ticket.id] = self._newest(record.session_id, record.ticket.call.id)

    async def get(self, ticket_id: str) -> TicketRecord | None:
        with self._lock:
            return self._look(ticket_id)

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """In the order in which they were put."""
        with self._lock:
            found = [
                self._look(key)
                for key, record in list(self._tickets.items())
                if session_id is None or record.session_id == session_id
            ]
            return [record for record in found if record is not None and record.state == "pending"]

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of the newest call of that id, answered or not, oldest first."""
        with self._lock:
            newest = self._newest(session_id, call_id)
            found = [
                self._look(key)
                for key, record in self._tickets.items()
                if record.session_id == session_id and record.ticket.call is not None and record.ticket.call.id == call_id
                if self._calls.get(key) == newest
            ]
            return [record for record in found if record is not None]

    async def settle(self, answer: Answer, state: TicketState) -> Settled:
        """pending -> ``state``, by the first answer only. A decision that is delivered again changes nothing (002-31): False."""
        if state == "pending":
            raise ValueError("a ticket is settled as approved, denied or expired")
        with self._lock:
            record = self._look(answer.ticket_id)
            if record is not None and record.answer is not None and record.answer.decision_id == answer.decision_id:
                return "repeated"
            if record is None or record.state != "pending" or answer.decision_id in self._decisions:
                return "refused"
            self._decisions.add(answer.decision_id)
            self._tickets[answer.ticket_id] = replace(record, state=state, answer=answer)
            return "settled"

    def _newest(self, session_id: str, call_id: str) -> int | None:
        return None if self._ledger is None else self._ledger.newest(session_id, call_id)

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

    async def record(self, entry: AuditEntry) -> None:
        with self._lock:
            self._entries.append(replace(entry, detail=freeze(entry.detail)))

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        """In order; all, or those of one session."""
        with self._lock:
            return [entry for entry in self._entries if session_id is None or entry.session_id == session_id]


class MemorySessions:
    def __init__(self, clock: Clock = time.time) -> None:
        self._messages: dict[str, list[Mapping[str, Json]]] = {}
        self._infos: dict[str, SessionInfo] = {}
        self._clock = clock
        self._lock = threading.Lock()

    async def create(
        self,
        session_id: str,
        *,
        platform: str,
        user: str,
        model: str = "",
        cwd: str = "",
        place: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Creating a session again leaves it as it is."""
        with self._lock:
            if session_id not in self._infos:
                now = self._clock()
                self._infos[session_id] = SessionInfo(session_id, "", platform, user, model, cwd, now, now, 0, dict(place))
                self._messages[session_id] = []

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        place: Mapping[str, str] | None = None,
        host: str | None = None,
    ) -> None:
        with self._lock:
            info = self._infos[session_id]
            self._touch(
                replace(
                    info,
                    title=info.title if title is None else title,
                    model=info.model if model is None else model,
                    cwd=info.cwd if cwd is None else cwd,
                    place=info.place if place is None else dict(place),
                )
            )

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Keep a read-only copy. Raises KeyError for a session that was never created."""
        await self.append_many(session_id, [message])

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """All of them or, where it raises, none."""
        kept = [freeze(message) for message in messages]
        with self._lock:
            info = self._infos[session_id]
            title = info.title or next(filter(None, map(title_of, kept)), "")
            self._messages[session_id].extend(kept)
            self._touch(replace(info, title=title, messages=info.messages + len(kept)))

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """In order. Raises KeyError for a session that was never created."""
        with self._lock:
            return self._messages[session_id][offset : None if limit is None else offset + limit]

    async def get(self, prefix: str) -> SessionInfo | None:
        """The session of that id, or the only one whose id begins so. Raises ToolcribError with the candidates of several."""
        with self._lock:
            found = [self._infos[prefix]] if prefix in self._infos else self._like(prefix)
        if len(found) > 1:
            raise ambiguous(prefix, [info.id for info in found[: CANDIDATES + 1]])
        return found[0] if found else None

    async def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        return next(iter(await self.list(1, platform=platform, user=user, cwd=cwd)), None)

    async def list(
        self, limit: int = 20, *, platform: str | None = None, user: str | None = None, cwd: str | None = None
    ) -> Sequence[SessionInfo]:
        """Those in which a user said something, the last one that was used first."""
        with self._lock:
            found = [
                info
                for info in reversed(self._infos.values())
                if platform in (None, info.platform) and user in (None, info.user) and cwd in (None, info.cwd)
                if any(message.get("role") == "user" for message in self._messages[info.id])
            ]
        return sorted(found, key=lambda info: info.updated_at, reverse=True)[:limit]

    def _like(self, prefix: str) -> Sequence[SessionInfo]:
        return [info for info in reversed(self._infos.values()) if info.id.startswith(prefix)]

    def _touch(self, info: SessionInfo) -> None:
        self._infos.pop(info.id)  # the last one used stands last
        self._infos[info.id] = replace(info, updated_at=self._clock())


class MemoryStore:
    """Implements toolcrib._store.Store; thread-safe. ``grants`` may be another store of grants, such as PermanentGrants."""

    def __init__(self, grants: GrantStore | None = None, clock: Clock = time.time) -> None:
        from tools.approval.grants import MemoryGrants

        self._ledger = MemoryLedger(clock)
        self._tickets = MemoryTickets(clock, self._ledger)
        self._grants: GrantStore = MemoryGrants() if grants is None else grants
        self._audit = MemoryAudit()
        self._sessions = MemorySessions(clock)
        self._changes = MemoryChanges()

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

    @property
    def changes(self) -> MemoryChanges:
        return self._changes

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """Nothing outlives the process, so that there is nothing to recover."""
        return ()

    async def old(self, before: float) -> int:
        """None: all goes with the process."""
        return 0

    async def prune(self, before: float) -> int:
        """Nothing: all goes with the process."""
        return 0

    def close(self) -> None:
        """Nothing is open."""


if TYPE_CHECKING:

    def _conforms(store: MemoryStore) -> Store:
        return store
