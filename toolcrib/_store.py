"""What must be remembered, as protocols. ``agent/store`` implements them; the dispatcher and the gates only name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from toolcrib._types import Answer, Json, SuspendTicket, ToolCall, ToolCallStatus, ToolResult

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
    call: ToolCall
    session_id: str
    status: ToolCallStatus
    handler_started: bool = False
    result: ToolResult | None = None


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
        """Record a call as NEW, before anything happens."""
        ...

    def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None: ...

    def handler_started(self, session_id: str, call_id: str) -> None:
        """From here on the call may have had effects."""
        ...

    def finish(self, session_id: str, call_id: str, status: ToolCallStatus, result: ToolResult) -> None: ...

    def get(self, session_id: str, call_id: str) -> CallRecord | None: ...


class TicketStore(Protocol):
    def put(self, record: TicketRecord) -> None: ...

    def get(self, ticket_id: str) -> TicketRecord | None: ...

    def pending(self, session_id: str) -> Sequence[TicketRecord]: ...

    def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of one call, answered or not, oldest first."""
        ...

    def settle(self, answer: Answer, state: TicketState) -> bool:
        """pending -> ``state`` by compare-and-set. False if it was not pending: late, double or unknown."""
        ...


class GrantStore(Protocol):
    def add(self, grant: Grant) -> None: ...

    def all(self, session_id: str) -> Sequence[Grant]:
        """Those of this session and the permanent ones."""
        ...

    def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, by compare-and-set. False where nothing was left."""
        ...

    def revoke(self, grant_id: str) -> bool: ...


class AuditLog(Protocol):
    def record(self, entry: AuditEntry) -> None: ...

    def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]: ...


class SessionStore(Protocol):
    def create(self, session_id: str, *, platform: str, user: str) -> None: ...

    def append(self, session_id: str, message: Mapping[str, Json]) -> None: ...

    def messages(self, session_id: str) -> Sequence[Mapping[str, Json]]: ...


class Store(Protocol):
    """All of it, in one place."""

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
    def close(self) -> None: ...
