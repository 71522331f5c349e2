"""What must be remembered, as protocols. ``agent/store`` implements them; the dispatcher and the gates only name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

from toolcrib._types import Answer, Json, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib._undo import ChangeJournal

TicketState: TypeAlias = Literal["pending", "approved", "denied", "expired"]
GrantScope: TypeAlias = Literal["once", "task", "session", "uses", "until", "always"]


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing yes. ``key`` names the finding it covers, below the folder ``root`` only.

    ``session_id`` is empty for ``always``, whose ``argv`` is the one normalised command it covers.
    ``at`` and ``until`` are Unix seconds.
    """

    id: str
    scope: GrantScope
    key: str
    root: str
    session_id: str = ""
    task_id: str = ""
    argv: tuple[str, ...] = ()
    uses_left: int | None = None
    until: float | None = None
    by: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class TicketRecord:
    ticket: SuspendTicket
    session_id: str
    state: TicketState = "pending"
    answer: Answer | None = None
    at: float = 0.0
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """``opened_at`` and ``ended_at`` are Unix seconds; ``ended_at`` is None until the status is terminal."""

    call: ToolCall
    session_id: str
    status: ToolCallStatus
    handler_started: bool = False
    result: ToolResult | None = None
    opened_at: float = 0.0
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a session is listed by. ``title`` is the beginning of the first thing that a user said in it, on one line.

    ``messages`` is how many it has. Times are Unix seconds; ``updated_at`` is that of the last message or change.
    ``place`` is where its commands run: its ``name`` and ``target``, and more that it needs to go on there; empty where unknown.
    """

    id: str
    title: str
    platform: str
    user: str
    model: str
    cwd: str
    created_at: float
    updated_at: float
    messages: int
    place: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One decision about one call. Times are Unix seconds. ``detail`` holds findings, rule and reason; never a secret."""

    at: float
    session_id: str
    call_id: str
    tool: str
    decision: str
    by: str
    detail: Mapping[str, Json] = field(default_factory=dict)


class CallLedger(Protocol):
    """Every call's status. Moves follow ToolCallStatus' table; a refused move raises InvalidTransition."""

    def open(self, call: ToolCall, session_id: str) -> None:
        """Record a call as NEW, before anything happens.

        Providers repeat ids: the id of a call that has ended may be used again, and means the new call from then on.
        The earlier record is kept. Raises InvalidTransition for the id of a call that is under way.
        """
        ...

    def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None: ...

    def handler_started(self, session_id: str, call_id: str) -> None:
        """From here on the call may have had effects."""
        ...

    def finish(self, session_id: str, call_id: str, status: ToolCallStatus, result: ToolResult) -> None: ...

    def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """The newest call of that id."""
        ...

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """Every call of a session, oldest first."""
        ...

    def is_elsewhere(self, session_id: str, call_id: str) -> bool:
        """Whether another process, which lives, runs the newest call of that id or asks somebody about it."""
        ...


class TicketStore(Protocol):
    def put(self, record: TicketRecord) -> None: ...

    def get(self, ticket_id: str) -> TicketRecord | None: ...

    def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Those that wait for an answer, of one session or of all, oldest first."""
        ...

    def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of the newest call of that id, answered or not, oldest first.

        An answer that an earlier call of the same id got must not count for this one.
        """
        ...

    def settle(self, answer: Answer, state: TicketState) -> bool:
        """pending -> ``state`` by compare-and-set. False if it was not pending: late, double or unknown."""
        ...


class GrantStore(Protocol):
    def add(self, grant: Grant) -> None: ...

    def all(self, session_id: str | None = None) -> Sequence[Grant]:
        """Those of this session and the permanent ones; without a session every one."""
        ...

    def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, by compare-and-set. False where nothing was left."""
        ...

    def revoke(self, grant_id: str) -> bool: ...


class AuditLog(Protocol):
    def record(self, entry: AuditEntry) -> None: ...

    def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]: ...


class SessionStore(Protocol):
    """Conversations. A message is a JSON object with a ``role``. ``append`` returns when the message is kept for good.

    What takes a ``session_id`` raises KeyError for a session that was never created.
    """

    def create(
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
        ...

    def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        place: Mapping[str, str] | None = None,
    ) -> None:
        """Change what is given."""
        ...

    def append(self, session_id: str, message: Mapping[str, Json]) -> None: ...

    def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """All of them or, where it raises, none."""
        ...

    def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """In order, from the ``offset``-th on, at most ``limit``."""
        ...

    def get(self, prefix: str) -> SessionInfo | None:
        """The session of that id, or the only one whose id begins so. Raises ToolcribError with the candidates of several."""
        ...

    def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        """The one that ``list`` would give first."""
        ...

    def list(
        self, limit: int = 20, *, platform: str | None = None, user: str | None = None, cwd: str | None = None
    ) -> Sequence[SessionInfo]:
        """Those in which a user said something, the last one that was used first; what is given must be equal."""
        ...


class Store(Protocol):
    """All of it, in one place. Whatever it does raises StoreFailed where the store can't be read or written."""

    @property
    def ledger(self) -> CallLedger: ...
    @property
    def tickets(self) -> TicketStore: ...
    @property
    def grants(self) -> GrantStore: ...
    @property
    def audit(self) -> AuditLog: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def changes(self) -> ChangeJournal: ...

    def recover(self, session_id: str | None = None) -> Sequence[CallRecord]:
        """End as FAILED the calls that a dead process left under way, of one session or of all, and return them.

        Calls of processes that live, and calls whose tickets still wait for an answer, are left alone.
        """
        ...

    def old(self, before: float) -> int:
        """How many ``prune`` would forget."""
        ...

    def prune(self, before: float) -> int:
        """Forget the sessions that were last used before that time (Unix seconds) and have no call under way, with their
        messages, calls, audit and grants but permanent ones. How many they were.
        """
        ...

    def close(self) -> None: ...
