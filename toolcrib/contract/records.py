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
"""Outcome of an answer. settled: it counts; repeated: the same decision was recorded before; refused: another answer or the
ticket's expiry came first.
"""
RunStatus: TypeAlias = Literal["running", "parked", "ended"]
InboxMode: TypeAlias = Literal["queue", "steer", "interrupt"]
"""Effect of a message that arrives during a run. queue: it waits for the run's end; steer: the model reads it with the next
results; interrupt: it ends the run first.
"""
NO_ENTRIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Grant:
    """A lasting approval. ``key`` names the finding that it covers, only below the folder ``root``.

    ``session_id`` is empty for ``always``, whose ``argv`` is the one normalised command that it covers. ``principal`` is its
    owner (``Principal.key``); "" is the local person. ``at`` and ``until`` are Unix seconds. ``links`` are pairs of a path that
    the grant is bound to and the path that it led to through links when the grant was given; a path not among them led to itself.
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
    """A ticket and its outcome. ``expires_at`` and ``remind_at`` are Unix seconds, or None for never."""

    ticket: SuspendTicket
    session_id: str
    state: TicketState = "pending"
    answer: Answer | None = None
    at: float = 0.0
    expires_at: float | None = None
    remind_at: float | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call and its status. ``opened_at`` and ``ended_at`` are Unix seconds; ``ended_at`` is None until the status is terminal.

    ``turn`` names the model's reply that made the call; "" for other calls, and for those of an older toolcrib. ``end_run``: a
    gate ended the run with this call. ``state`` holds the call's state of scope ``call`` while it waits.
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
        """Return whether the reply ``turn`` made the call. The call's id is not enough, because some servers repeat ids in every
        reply. For a call that names no reply, return whether it began at ``since`` or later; the two times may come from
        different clocks.
        """
        return self.turn == turn if self.turn else self.opened_at >= since


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Summary of a session, for lists. ``title`` is the name that a person gave it, or the beginning of the first paragraph of
    a user's first message, on one line.

    ``messages`` is the number of messages. Times are Unix seconds; ``updated_at`` is that of the last message or change.
    ``place`` is the session's environment: its ``name`` and ``target``, and other values that the session needs to continue
    there; empty if unknown. ``host`` names the lease of the process that wants to continue the parked run; "" for none. ``via``
    is the model server: its ``provider``, ``model``, ``base_url`` and ``key_env``; empty if none was chosen yet, or if a person
    types the calls. ``tags`` are a person's labels. ``parent`` is the id of the session that it comes from, "" for none; ``why``
    is ``fork``, ``delegate`` (of the parent) or ``import`` (from a file), "" for a session that a user began here.
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
    """The right to write under ``name`` (a session's id). ``token`` is its fencing token: it grows each time the lease is taken,
    and a write with an older token is refused. ``seconds`` is how long the lease lasts without being renewed.
    """

    name: str
    token: int
    owner: str
    seconds: float


@dataclass(slots=True)
class Fence:
    """The lease that the writes of one session carry. It stays after the lease is released: a late write is refused once another
    process has taken the session. None: no lease was taken yet, and writes are not fenced.
    """

    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as of its last complete step. ``state`` is agent.conversation's RunState as JSON; ``step`` counts from 1."""

    id: str
    session_id: str
    status: RunStatus
    step: int
    state: Mapping[str, Json]
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A message to a session. The sender chooses ``key``: two items with the same key are the same message.

    ``principal`` is the sender, as ``Principal.to_json`` returns it. ``images`` are as ``Image.to_json`` returns them.
    ``options`` are conditions of the run (schema, limits). ``id`` is assigned by the store. ``at`` is in Unix seconds.
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
