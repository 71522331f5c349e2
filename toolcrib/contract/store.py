"""Protocols of the store. ``agent/store`` implements them; the dispatcher and the gates only name them.

Every method is async, and none blocks the event loop. It may be awaited from any thread and any loop. A store that keeps
everything in memory never suspends, so that a coroutine which awaits it can be driven by hand.
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
    """Every call's status. Moves follow ToolCallStatus' table; a refused move raises InvalidTransition."""

    async def open(
        self,
        call: ToolCall,
        session_id: str,
        status: ToolCallStatus = ToolCallStatus.NEW,
        *,
        turn: str = "",
        handler_started: bool = False,
    ) -> None:
        """Record a call as NEW, or at once as RUNNING, before anything happens. ``turn``: see CallRecord. ``handler_started``: it
        is run again, so that it may have had effects already.

        Providers repeat ids: the id of a call that has ended may be used again, and means the new call from then on.
        The earlier record is kept. Raises InvalidTransition for the id of a call that is under way.
        """
        ...

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None:
        """Move a call to ``status``. Raises InvalidTransition."""
        ...

    async def handler_started(self, session_id: str, call_id: str) -> None:
        """Note that the handler has started: from here on the call may have had effects."""
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
        """Record a call's result and its last status, and whether a gate ended the run with it; of one that waits, ``state``: the
        values of its own keys. Raises InvalidTransition.
        """
        ...

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """The newest call of that id."""
        ...

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        """Every call of a session, oldest first."""
        ...


class TicketStore(Protocol):
    """Tickets of suspended calls, and their answers."""

    async def put(self, record: TicketRecord) -> None:
        """Raises ValueError for an id that is known: a settled ticket must not come to life again."""
        ...

    async def get(self, ticket_id: str) -> TicketRecord | None:
        """Return the ticket with that id, or None."""
        ...

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Return the tickets that wait for an answer, of one session or of all, oldest first."""
        ...

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of the newest call of that id, answered or not, oldest first.

        An answer that an earlier call of the same id got must not count for this one.
        """
        ...

    async def decide_ticket(self, answer: Answer, state: TicketState) -> Settled:
        """Move a ticket from pending to ``state`` by compare-and-set; ``refused`` too for a ticket that is not known.

        Never fenced: whoever may answer does so from any process.
        """
        ...

    async def due(self, now: float) -> Sequence[TicketRecord]:
        """Pending tickets whose ``remind_at`` (Unix seconds) has come, oldest first."""
        ...

    async def reminded(self, ticket_id: str, was: float, again_at: float | None) -> bool:
        """Set when to remind again, by compare-and-set of ``remind_at``: of several processes one reminds, and gets True."""
        ...


class GrantStore(Protocol):
    """Grants of sessions and principals."""

    async def add(self, grant: Grant) -> None:
        """Keep a grant. One whose id is known changes nothing: what was spent of it stays spent."""
        ...

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Grants of this session and the permanent ones of this principal; without a session every grant there is."""
        ...

    async def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, by compare-and-set. False where nothing was left."""
        ...

    async def revoke(self, grant_id: str) -> bool:
        """Remove a grant. Return False where there is none of that id."""
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
    """Runs, step by step. A step is kept whole: the run, what it adds to the transcript, and the inbox items that it takes."""

    async def commit(self, run: RunRecord, *, messages: Sequence[Mapping[str, Json]] = (), taken: Collection[int] = ()) -> bool:
        """Keep a step, all or nothing. False, and nothing is changed, where the run has this step or a later one already.

        Raises KeyError for a session that was never created, and LeaseLost.
        """
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """Return the run with that id, or None."""
        ...

    async def current(self, session_id: str) -> RunRecord | None:
        """The session's run that has not ended; None where there is none."""
        ...

    async def last(self, session_id: str) -> RunRecord | None:
        """The session's run that began last, ended or not; None where there is none."""
        ...

    async def parked(self, limit: int = 1_000, offset: int = 0) -> Sequence[RunRecord]:
        """Return runs that wait for an answer, of all sessions, the one that waits longest first."""
        ...

    async def unfinished(self) -> Sequence[str]:
        """Return the ids of sessions that could go on: a run is under way in them, or a message waits in their inbox."""
        ...


class Inbox(Protocol):
    """Messages to sessions that no run has taken yet, in order. Never fenced: anybody may add one."""

    async def put(self, item: InboxItem) -> InboxItem | None:
        """Keep it and return it with its id; None where this session has had an item with that (non-empty) key before."""
        ...

    async def waiting(self, session_id: str) -> Sequence[InboxItem]:
        """Items that no run has taken, in the order of their coming."""
        ...

    async def drop(self, item_ids: Collection[int]) -> None:
        """Take items out that no run has taken, with their keys: they may be said again."""
        ...


class Store(Forgetting, Protocol):
    """The whole store. Its methods raise StoreFailed where the store can't be read or written.

    Writes of a fenced view raise LeaseLost where its lease was taken by another.
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
        """A view of this store for one session: its writes to the ledger, tickets, grants, audit, sessions, changes, runs,
        origins, state and artifacts carry ``fence.lease`` and raise LeaseLost once another has taken it. Making one is cheap,
        closing it does nothing.
        """
        ...

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """End as FAILED the calls of a session that an earlier holder of its lease left NEW, RUNNING or RESUMING; return them.

        For who holds the lease, through a fenced view: then nobody else is at work on them. Their results say whether they may
        have run. Calls that are SUSPENDED are left alone: their tickets may yet be answered.
        """
        ...

    def close(self) -> None:
        """Wait until what was handed over is written, then close. Blocks: call it in a thread where a loop runs."""
        ...
