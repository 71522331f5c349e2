"""Protocols of the store. ``agent/store`` implements them; the dispatcher and the gates use only these names.

Methods that read or write are async, do not block the event loop, and may be awaited from any thread and any loop. A store that
keeps everything in memory never suspends, so a coroutine that awaits it can be driven without a loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from toolcrib.contract.forgetting import Forgetting
from toolcrib.contract.origins import OriginStore
from toolcrib.contract.processes import LeaseStore, Signals
from toolcrib.contract.records import (
    NO_ENTRIES,
    AuditEntry,
    CallRecord,
    Fence,
    Grant,
    GrantScope,
    InboxItem,
    InboxMode,
    Lease,
    RunRecord,
    RunStatus,
    SessionInfo,
    Settled,
    TicketRecord,
    TicketState,
)
from toolcrib.contract.sessions import SessionStore
from toolcrib.contract.state import StateStore
from toolcrib.contract.types import Answer, Json, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.undo import ChangeJournal
from toolcrib.contract.usage import UsageLog, UsageSum

if TYPE_CHECKING:
    from toolcrib.contract.artifacts import ArtifactStore
    from toolcrib.contract.cron import CronStore
    from toolcrib.contract.mail import MailStore
    from toolcrib.contract.search import MessageSearch

__all__ = [
    "AuditEntry",
    "AuditLog",
    "CallLedger",
    "CallRecord",
    "Fence",
    "Grant",
    "GrantScope",
    "GrantStore",
    "Inbox",
    "InboxItem",
    "InboxMode",
    "Lease",
    "LeaseStore",
    "OriginStore",
    "RunRecord",
    "RunStatus",
    "RunStore",
    "SessionInfo",
    "SessionStore",
    "Settled",
    "Signals",
    "Store",
    "TicketRecord",
    "TicketState",
    "TicketStore",
    "UsageLog",
    "UsageSum",
]


class CallLedger(Protocol):
    """The status of every call. Changes of status follow the table in ToolCallStatus; any other raises InvalidTransition."""

    async def open(
        self,
        call: ToolCall,
        session_id: str,
        status: ToolCallStatus = ToolCallStatus.NEW,
        *,
        turn: str = "",
        handler_started: bool = False,
    ) -> None:
        """Record a call as NEW, or at once as RUNNING, before anything happens. ``turn``: see CallRecord. ``handler_started``:
        the call runs again, so it may have had effects already.

        Providers repeat ids: the id of an ended call may be used again, and then means the new call. The earlier record is kept.
        Raises InvalidTransition for the id of a call that has not ended.
        """
        ...

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        """Move a call to ``status``. Raises InvalidTransition."""
        ...

    async def handler_started(self, session_id: str, call_id: str) -> None:
        """Record that the handler has started: from here on the call may have had effects."""
        ...

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
        """Record a call's result and last status, and whether a gate ended the run with it. ``state``: the call's state
        of scope ``call``, if the call waits. Raises InvalidTransition.
        """
        ...

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """Return the newest call with that id, or None."""
        ...

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        """Return every call of a session, oldest first."""
        ...


class TicketStore(Protocol):
    """Tickets of suspended calls, and their answers."""

    async def put(self, record: TicketRecord) -> None:
        """Store a ticket. Raises ValueError for a known id: a decided ticket must not become pending again."""
        ...

    async def get(self, ticket_id: str) -> TicketRecord | None:
        """Return the ticket with that id, or None."""
        ...

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Return the tickets that wait for an answer, of one session or of all, oldest first."""
        ...

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Return every ticket of the newest call with that id, answered or not, oldest first.

        An answer to an earlier call with the same id must not count for this one.
        """
        ...

    async def decide_ticket(self, answer: Answer, state: TicketState) -> Settled:
        """Move a ticket from pending to ``state`` by compare-and-set. Return ``refused`` for an unknown ticket too.
        Not fenced: a user may answer from any process.
        """
        ...

    async def due(self, now: float) -> Sequence[TicketRecord]:
        """Return pending tickets whose ``remind_at`` (Unix seconds) has passed, oldest first."""
        ...

    async def reminded(self, ticket_id: str, was: float, again_at: float | None) -> bool:
        """Set the time of the next reminder, by compare-and-set of ``remind_at``. Only one of several processes gets True, and
        sends the reminder.
        """
        ...


class GrantStore(Protocol):
    """Grants of sessions and principals."""

    async def add(self, grant: Grant) -> None:
        """Store a grant. A known id changes nothing: uses that were spent stay spent."""
        ...

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Return the grants of this session and the permanent ones of this principal; without a session, every grant."""
        ...

    async def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, by compare-and-set. Return False if no use was left."""
        ...

    async def revoke(self, grant_id: str) -> bool:
        """Remove a grant. Return False if the id is unknown."""
        ...


class AuditLog(Protocol):
    """Decisions about calls, in order."""

    async def record(self, entry: AuditEntry) -> None:
        """Append an entry."""
        ...

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        """Return entries in order: all, or those of one session."""
        ...


class RunStore(Protocol):
    """Runs, step by step. A step is stored as a whole: the run, its new messages, and the inbox items that it takes."""

    async def commit(self, run: RunRecord, *, messages: Sequence[Mapping[str, Json]] = (), taken: Collection[int] = ()) -> bool:
        """Store a step, all or nothing. Return False, and change nothing, if the run already has this step or a later one.

        Raises KeyError for a session that was never created, and LeaseLost.
        """
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """Return the run with that id, or None."""
        ...

    async def current(self, session_id: str) -> RunRecord | None:
        """Return the session's run that has not ended, or None."""
        ...

    async def last(self, session_id: str) -> RunRecord | None:
        """Return the session's newest run, ended or not, or None."""
        ...

    async def parked(self, limit: int = 1_000, offset: int = 0) -> Sequence[RunRecord]:
        """Return the runs of all sessions that wait for an answer, the longest wait first."""
        ...

    async def unfinished(self) -> Sequence[str]:
        """Return the ids of sessions that can continue: they have a run in progress, or a message in their inbox."""
        ...


class Inbox(Protocol):
    """Messages to sessions that no run has taken yet, in order. Not fenced: any process may add one."""

    async def put(self, item: InboxItem) -> InboxItem | None:
        """Store an item and return it with its id. Return None if this session already had an item with that (non-empty) key."""
        ...

    async def waiting(self, session_id: str) -> Sequence[InboxItem]:
        """Return the items that no run has taken, in the order of arrival."""
        ...

    async def drop(self, item_ids: Collection[int]) -> None:
        """Remove items that no run has taken, with their keys, so that the same messages may be sent again."""
        ...


class Store(Forgetting, Protocol):
    """The whole store. Its methods raise StoreFailed if the store can't be read or written.

    Writes of a fenced view raise LeaseLost if another process took its lease.
    """

    @property
    def ledger(self) -> CallLedger:
        """Statuses of calls."""
        ...

    @property
    def tickets(self) -> TicketStore:
        """Tickets and answers."""
        ...

    @property
    def grants(self) -> GrantStore:
        """Grants."""
        ...

    @property
    def audit(self) -> AuditLog:
        """Decisions about calls."""
        ...

    @property
    def sessions(self) -> SessionStore:
        """Sessions and their messages."""
        ...

    @property
    def changes(self) -> ChangeJournal:
        """Changes of files, for undo."""
        ...

    @property
    def leases(self) -> LeaseStore:
        """Leases of sessions."""
        ...

    @property
    def runs(self) -> RunStore:
        """Runs and their steps."""
        ...

    @property
    def usage(self) -> UsageLog:
        """Usage of models and tools."""
        ...

    @property
    def search(self) -> MessageSearch:
        """Full-text search in messages."""
        ...

    @property
    def inbox(self) -> Inbox:
        """Messages that no run has taken."""
        ...

    @property
    def origins(self) -> OriginStore:
        """Origins of sessions' files."""
        ...

    @property
    def state(self) -> StateStore:
        """State of sessions, principals and profiles."""
        ...

    @property
    def artifacts(self) -> ArtifactStore:
        """Large results of sessions."""
        ...

    @property
    def mail(self) -> MailStore:
        """Mail, posts and chats of a gateway."""
        ...

    @property
    def cron(self) -> CronStore:
        """Scheduled jobs."""
        ...

    @property
    def signals(self) -> Signals:
        """Signals between processes."""
        ...

    def fenced(self, fence: Fence) -> Store:
        """Return a view of this store for one session: its writes to the ledger, tickets, grants, audit, sessions, changes, runs,
        origins, state and artifacts carry ``fence.lease``, and raise LeaseLost after another process has taken it.
        Making a view is cheap; closing it does nothing.
        """
        ...

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """End as FAILED the calls of a session that an earlier holder of its lease left NEW, RUNNING or RESUMING, and return
        them.

        Only the holder of the lease may call this, through a fenced view, so that no other process works on these
        calls. Their results say whether they may have run. SUSPENDED calls are left alone: their tickets may still be
        answered.
        """
        ...

    def close(self) -> None:
        """Wait until all writes are done, then close. Blocks: if a loop runs, call it in a thread."""
        ...
