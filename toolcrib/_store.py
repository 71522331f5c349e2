"""What must be remembered, as protocols. ``agent/store`` implements them; the dispatcher and the gates only name them.

Every method is async, and none blocks the event loop. It may be awaited from any thread and any loop. A store that keeps
everything in memory never suspends, so that a coroutine which awaits it can be driven by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

from toolcrib._types import Answer, Json, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib._undo import ChangeJournal

TicketState: TypeAlias = Literal["pending", "approved", "denied", "expired"]
GrantScope: TypeAlias = Literal["once", "task", "session", "uses", "until", "always"]
Settled: TypeAlias = Literal["settled", "repeated", "refused"]
"""What became of an answer: it counts; the same decision counted before; another answer, or its time, came before it."""
RunStatus: TypeAlias = Literal["running", "parked", "ended"]
InboxMode: TypeAlias = Literal["queue", "steer", "interrupt"]
"""What follows from something that is said while a run is under way: it waits for the run's end; the model reads it with the next
results; it ends the run first."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing yes. ``key`` names the finding it covers, below the folder ``root`` only.

    ``session_id`` is empty for ``always``, whose ``argv`` is the one normalised command it covers. ``principal`` is whose it is
    (``Principal.key``); "" is the local person's. ``at`` and ``until`` are Unix seconds.
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
    ``host`` names the lease of the process that wants to continue its parked run; "" for none.
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


class CallLedger(Protocol):
    """Every call's status. Moves follow ToolCallStatus' table; a refused move raises InvalidTransition."""

    async def open(self, call: ToolCall, session_id: str, status: ToolCallStatus = ToolCallStatus.NEW) -> None:
        """Record a call as NEW, or at once as RUNNING, before anything happens.

        Providers repeat ids: the id of a call that has ended may be used again, and means the new call from then on.
        The earlier record is kept. Raises InvalidTransition for the id of a call that is under way.
        """
        ...

    async def move(self, session_id: str, call_id: str, status: ToolCallStatus) -> None: ...

    async def handler_started(self, session_id: str, call_id: str) -> None:
        """From here on the call may have had effects."""
        ...

    async def finish(self, session_id: str, call_id: str, status: ToolCallStatus, result: ToolResult) -> None: ...

    async def get(self, session_id: str, call_id: str) -> CallRecord | None:
        """The newest call of that id."""
        ...

    async def calls(self, session_id: str) -> Sequence[CallRecord]:
        """Every call of a session, oldest first."""
        ...


class TicketStore(Protocol):
    async def put(self, record: TicketRecord) -> None:
        """Raises ValueError for an id that is known: a settled ticket must not come to life again."""
        ...

    async def get(self, ticket_id: str) -> TicketRecord | None: ...

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Those that wait for an answer, of one session or of all, oldest first."""
        ...

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of the newest call of that id, answered or not, oldest first.

        An answer that an earlier call of the same id got must not count for this one.
        """
        ...

    async def settle(self, answer: Answer, state: TicketState) -> Settled:
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
    async def add(self, grant: Grant) -> None: ...

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Grants of this session and the permanent ones of this principal; without a session every grant there is."""
        ...

    async def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, by compare-and-set. False where nothing was left."""
        ...

    async def revoke(self, grant_id: str) -> bool: ...


class AuditLog(Protocol):
    async def record(self, entry: AuditEntry) -> None: ...

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]: ...


class SessionStore(Protocol):
    """Conversations. A message is a JSON object with a ``role``. ``append`` returns when the message is kept for good.

    What takes a ``session_id`` raises KeyError for a session that was never created.
    """

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
        ...

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
        """Change what is given."""
        ...

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None: ...

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """All of them or, where it raises, none."""
        ...

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """In order, from the ``offset``-th on, at most ``limit``."""
        ...

    async def get(self, prefix: str) -> SessionInfo | None:
        """The session of that id, or the only one whose id begins so. Raises ToolcribError with the candidates of several."""
        ...

    async def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        """The one that ``list`` would give first."""
        ...

    async def list(
        self, limit: int = 20, *, platform: str | None = None, user: str | None = None, cwd: str | None = None
    ) -> Sequence[SessionInfo]:
        """Those in which a user said something, the last one that was used first; what is given must be equal."""
        ...


class LeaseStore(Protocol):
    """Leases by name. Times are the database's own, so that no two clocks are compared."""

    async def take(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease that is free or has lapsed, or whose owner is a process of this machine that has ended; else None."""
        ...

    async def renew(self, lease: Lease) -> bool:
        """Let it last for ``lease.seconds`` from now. False where another took it: it is lost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give it back; one that was lost is left alone."""
        ...

    async def holder(self, name: str) -> str | None:
        """The owner of a lease that lasts, None where it is free, has lapsed, or its owner is known to have ended."""
        ...


class RunStore(Protocol):
    """Runs, step by step. A step is kept whole: the run, what it adds to the transcript, and the inbox items that it takes."""

    async def commit(self, run: RunRecord, *, messages: Sequence[Mapping[str, Json]] = (), taken: Collection[int] = ()) -> bool:
        """Keep a step, all or nothing. False, and nothing is changed, where the run has this step or a later one already.

        Raises KeyError for a session that was never created, and LeaseLost.
        """
        ...

    async def get(self, run_id: str) -> RunRecord | None: ...

    async def current(self, session_id: str) -> RunRecord | None:
        """The session's run that has not ended; None where there is none."""
        ...

    async def parked(self, limit: int = 1_000) -> Sequence[RunRecord]:
        """Runs that wait for an answer, of all sessions, the one that waits longest first."""
        ...


class Inbox(Protocol):
    """What was said to sessions and no run has taken yet, in order. Never fenced: anybody may say something."""

    async def put(self, item: InboxItem) -> InboxItem | None:
        """Keep it and return it with its id; None where this session has had an item with that (non-empty) key before."""
        ...

    async def waiting(self, session_id: str) -> Sequence[InboxItem]:
        """Items that no run has taken, in the order of their coming."""
        ...

    async def drop(self, item_ids: Collection[int]) -> None:
        """Take items out unanswered. Their keys stay known."""
        ...


class OriginStore(Protocol):
    """Where files of a session came from, as its judge found: bits of ``Taint`` by absolute path. Nothing is ever evicted."""

    async def of(self, session_id: str) -> Mapping[str, int]: ...

    async def remember(self, session_id: str, origins: Mapping[str, int]) -> None:
        """Add these bits to what is known of each path."""
        ...


class Signals(Protocol):
    """A knock on other processes' doors. It may be lost: whoever listens looks again now and then all the same."""

    async def send(self, topic: str) -> None:
        """Wake whoever listens, in any process that uses this store. Raises nothing."""
        ...

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Call ``heard(topic)`` at every signal, from any thread; it must not block. Returns what ends it."""
        ...


class Store(Protocol):
    """All of it, in one place. Whatever it does raises StoreFailed where the store can't be read or written.

    Writes of a fenced view raise LeaseLost where its lease was taken by another.
    """

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
    @property
    def leases(self) -> LeaseStore: ...
    @property
    def runs(self) -> RunStore: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def origins(self) -> OriginStore: ...
    @property
    def signals(self) -> Signals: ...

    def fenced(self, fence: Fence) -> Store:
        """A view of this store for one session: its writes to the ledger, tickets, grants, audit, sessions, changes, runs and
        origins carry ``fence.lease`` and raise LeaseLost once another has taken it. Making one is cheap, closing it does nothing.
        """
        ...

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """End as FAILED the calls of a session that an earlier holder of its lease left NEW, RUNNING or RESUMING; return them.

        For who holds the lease, through a fenced view: then nobody else is at work on them. Their results say whether they may
        have run. Calls that are SUSPENDED are left alone: their tickets may yet be answered.
        """
        ...

    async def old(self, before: float) -> int:
        """How many ``prune`` would forget."""
        ...

    async def prune(self, before: float) -> int:
        """Forget the sessions that were last used before that time (Unix seconds) and have no call under way and no run that has
        not ended, with their messages, calls, audit and grants but permanent ones. How many they were.
        """
        ...

    def close(self) -> None:
        """Wait until what was handed over is written, then close. Blocks: call it in a thread where a loop runs."""
        ...
