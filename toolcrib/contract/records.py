"""Records that a store keeps: calls, tickets, grants, sessions, runs, the inbox, and leases on sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Answer, Json, SuspendTicket, ToolCall, ToolCallStatus, ToolResult

TicketState: TypeAlias = Literal["pending", "approved", "denied", "expired"]
GrantScope: TypeAlias = Literal["once", "task", "session", "uses", "until", "always"]
Settled: TypeAlias = Literal["settled", "repeated", "refused"]
"""Fate of an answer: it counts; the same decision counted before; another answer, or the ticket's expiry, came before it."""
RunStatus: TypeAlias = Literal["running", "parked", "ended"]
InboxMode: TypeAlias = Literal["queue", "steer", "interrupt"]
"""Effect of a message that arrives during a run: it waits for the run's end; the model reads it with the next results; it ends
the run first.
"""
NO_ENTRIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing yes. ``key`` names the finding it covers, below the folder ``root`` only.

    ``session_id`` is empty for ``always``, whose ``argv`` is the one normalised command it covers. ``principal`` is whose it is
    (``Principal.key``); "" is the local person's. ``at`` and ``until`` are Unix seconds. ``links`` are pairs of a path that it
    is bound to and where that led by links when it was given; a path that is not among them led to itself.
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
    principal: str = ""
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TicketRecord:
    """A ticket and what became of it. ``expires_at`` and ``remind_at`` are Unix seconds, None for never."""

    ticket: SuspendTicket
    session_id: str
    state: TicketState = "pending"
    answer: Answer | None = None
    at: float = 0.0
    expires_at: float | None = None
    remind_at: float | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """``opened_at`` and ``ended_at`` are Unix seconds; ``ended_at`` is None until the status is terminal.

    ``turn`` names the model's reply that asked for it; "" for other calls, and for those of an older toolcrib. ``end_run``: a
    gate ended the run with it. ``state`` are the values of its own keys, while it waits.
    """

    call: ToolCall
    session_id: str
    status: ToolCallStatus
    handler_started: bool = False
    result: ToolResult | None = None
    opened_at: float = 0.0
    ended_at: float | None = None
    turn: str = ""
    end_run: bool = False
    state: Mapping[str, Json] = field(default_factory=dict)

    def is_of(self, turn: str, since: float) -> bool:
        """Return whether the reply ``turn`` asked for it: some servers give the same ids in every reply. Of one that names no
        reply, whether it began at ``since`` or later, by a clock that may be another.
        """
        return self.turn == turn if self.turn else self.opened_at >= since


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Summary of a session, for lists. ``title`` is the beginning of the first paragraph that a user said, on one line, or what a
    person named it.

    ``messages`` is their number. Times are Unix seconds; ``updated_at`` is that of the last message or change. ``place`` is the
    session's environment: its ``name`` and ``target``, and more that it needs to continue there; empty where unknown. ``host``
    names the lease of the process that wants to continue its parked run; "" for none. ``via`` is what is asked for replies: its
    ``provider``, ``model``, ``base_url`` and ``key_env``; empty where none was chosen yet, or a person types the calls. ``tags``
    are a person's words for it. ``parent`` is the id of the session that it comes from, "" for none; ``why`` is ``fork``,
    ``delegate`` (of the parent's) or ``import`` (from a file), "" for one that somebody began here.
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
    host: str = ""
    via: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()
    parent: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A decision about a call. Times are Unix seconds. ``detail`` holds findings, rule and reason; never a secret."""

    at: float
    session_id: str
    call_id: str
    tool: str
    decision: str
    by: str
    detail: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write under ``name`` (a session's id). ``token`` is its fencing token: it grows with every taking, and a write
    that carries an older one is refused. ``seconds`` is how long it lasts without being renewed.
    """

    name: str
    token: int
    owner: str
    seconds: float


@dataclass(slots=True)
class Fence:
    """The lease that the writes of one session carry. It stays after the lease was given back: a late write is refused once
    another process has taken the session. None: nothing was taken yet, and writes are not guarded.
    """

    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as of its last whole step. ``state`` is agent.conversation's RunState as JSON; ``step`` counts from 1."""

    id: str
    session_id: str
    status: RunStatus
    step: int
    state: Mapping[str, Json]
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Something that was said to a session. ``key`` is the sender's own for it: the same key again is the same message.

    ``principal`` is who said it, as ``Principal.to_json`` has it. ``images`` are as ``Image.to_json`` has them. ``options`` hold
    what the run is to keep to (schema, limits). ``id`` is the store's. ``at`` is in Unix seconds.
    """

    session_id: str
    text: str
    mode: InboxMode = "queue"
    key: str = ""
    principal: Mapping[str, Json] = field(default_factory=dict)
    images: Sequence[Json] = ()
    options: Mapping[str, Json] = field(default_factory=dict)
    at: float = 0.0
    id: int = 0
