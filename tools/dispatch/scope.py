"""A session as its calls see it: the principal, the granted tools, the environment, and the user to ask."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from toolcrib.contract.context import AgentSpec, EventSink, RunIdentity, ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.entry import Invoke, ToolEntry, bind_handler, is_async_callable
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.state import NO_STATE, StateSnapshot, StateStore, StateValue
from toolcrib.contract.store import CallLedger, TicketStore
from toolcrib.contract.types import Answer, Handler, Json, SuspendTicket, ToolCall
from toolcrib.contract.undo import UndoLog
from tools.clip import MAX_RESULT_CHARS
from tools.dispatch.states import MemoryStates
from tools.environments import leftovers
from tools.redact import Redactor

if TYPE_CHECKING:
    from toolcrib.contract.artifacts import ArtifactStore
    from toolcrib.contract.background import SpawnedProcess
    from tools.processes.table import ProcessTable
    from tools.processes.watching import Tell

_log = logging.getLogger(__name__)

Asker: TypeAlias = Callable[[SuspendTicket, ToolCallContext], "Answer | Awaitable[Answer | None] | None"]
"""A function of an interface that asks the user, sync or async. None means no answer: the call is parked or denied."""


_CLOSE_LIMIT = 5.0
"""Seconds that calls may take to end when their scope is closed; ending a command takes less."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds and characters."""

    handler_seconds: float = 300.0
    """Limit of handlers without a ``timeout`` of their own: async ones, and sync ones that run in a thread."""
    gate_seconds: float = 10.0
    """Limit of async hooks and of plugins' synchronous gates. A late gate blocks the call; a late observer is ignored."""
    answer_seconds: float | None = None
    """Limit of a user's answer to a prompt; after that the call is denied. None: no limit."""
    park_seconds: float | None = None
    """Limit of an answer to a parked call; after that the call is not run. None: no limit."""
    remind_seconds: float | None = None
    """Seconds after which the user is reminded of a waiting ticket. None: never."""
    result_chars: int = MAX_RESULT_CHARS


_left: list[Environment | None] = []
"""Environments of sessions that were left. They are kept, because a dropped environment is closed."""


class CallRunner(Protocol):
    """The part of a Dispatcher that a scope needs."""

    def call_sync(self, call: ToolCall, scope: CallScope, extra: Mapping[str, Any], /) -> ExecutedCall:
        """Run one call from sync code."""
        ...


class CallSnapshots(Protocol):
    """Snapshots around the calls of a session."""

    def begin(self) -> None:
        """Take the first snapshot in the background when the session's run begins."""
        ...

    async def before(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext, /) -> bool:
        """Take a snapshot before a call that may write. Return whether the caller must call ``after``. Raises Denied."""
        ...

    async def after(self, call: ToolCall, entry: ToolEntry, /) -> None:
        """Take a snapshot after a call, and record what the call changed."""
        ...

    def begin_full_walk(self) -> None:
        """Take a snapshot in the background that also finds writes through memory maps, when the session's run has ended."""
        ...

    def shared(self) -> CallSnapshots:
        """Return these snapshots for use by another scope, which must close them too."""
        ...

    async def close(self, end: Callable[[], Awaitable[None]], /) -> None:
        """Call ``end``, which ends background processes, and record what they changed. Then release as ``release`` does."""
        ...

    def release(self) -> None:
        """End one scope's use of the snapshots. They are closed when no scope uses them."""
        ...


@dataclasses.dataclass(kw_only=True, eq=False, repr=False, match_args=False)  # other generated methods would slow the start
class CallScope:
    """A session as the dispatcher sees it. It owns its environment and its spill folder, so the caller must ``close`` it.

    ``granted`` names the tools that may be called, None for all. Without an ``asker`` a ticket is denied at once, unless
    ``suspends`` is set and the answer comes later through ``Dispatcher.resume``. ``handlers`` run the agent-loop tools.
    """

    identity: RunIdentity
    open_environment: Callable[[], Environment]
    start: str = ""
    """The environment's start folder, if it is known without opening it."""
    granted: frozenset[str] | None = None
    asker: Asker | None = None
    suspends: bool = False
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    agent_spec: AgentSpec = field(default_factory=AgentSpec)
    activity_sink: EventSink | None = None
    ledger: CallLedger | None = None
    tickets: TicketStore | None = None
    redactor: Redactor = field(default_factory=lambda: Redactor.of(os.environ))
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, Json] = field(default_factory=dict)
    undo: UndoLog | None = None
    snapshots: CallSnapshots | None = None
    """Snapshots around calls that may write; None for no snapshots. The scope closes them."""
    policy: object | None = None
    """The tools.approval.policy.Policy for the approval gate; None for the gate's own policy."""
    states: StateStore = field(default_factory=MemoryStates)
    """Store of the state of the session, of its principal and of its profile."""
    artifacts: ArtifactStore | None = None
    """Store of results that are too large; None for files in the spill folder, which live as long as the scope."""
    profile: str = ""
    """Name of the configuration's profile: the owner of the state of scope ``profile``."""
    tell_processes: Tell | None = None
    """Reports events of the session's background processes to its model; None reports none."""
    on_processes: Callable[[ProcessTable], None] | None = None
    """Called when the session first uses background processes."""
    dispatcher: CallRunner | None = None
    """Runs this session's calls that come through a synchronous interface; None for the interface's own dispatcher."""
    keep_spill: bool = False
    """True if a non-empty spill folder outlives the scope, because the user was given a path in it."""

    def __post_init__(self) -> None:
        self.state = NO_STATE
        self._kept: dict[str, StateValue] = {}
        self.extra: Mapping[str, Any] = {}
        """Passed to handlers that take keywords: ``task_id`` and ``user_task``; see ``begin_run``."""
        self.begin_run(None)
        self.loop_handlers: Mapping[str, tuple[Invoke, bool]] = {
            name: (bind_handler(handler), is_async_callable(handler)) for name, handler in self.handlers.items()
        }
        self.asker_is_async = self.asker is not None and is_async_callable(self.asker)
        self._environment: Environment | None = None
        self._processes: ProcessTable | None = None
        self._spill_dir: Path | None = None
        self._lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._closed = False
        self.running: set[asyncio.Task[Any]] = set()
        """Tasks that ``interrupt`` cancels, while they run."""
        self.asking: set[str] = set()
        """Tickets that a user is being asked about."""
        self._resuming: set[str] = set()
        self.unrecorded: list[ExecutedCall] = []
        """Calls whose end the ledger could not record; see ``record_again``."""
        self.said_of_store = ""
        """Text of the store's error that was logged last, until the ledger accepts a write again."""
        self.cancelled = False
        self.calls: list[None] = []
        """Contains one None for each running call. The owner may close the scope only while this is empty."""

    @property
    def environment(self) -> Environment:
        """The environment, opened on first use. Raises EnvironmentFailed, also after the scope was closed."""
        environment = self._environment
        if environment is None:
            with self._lock:
                environment = self._environment
                if environment is None:
                    if self._closed:
                        raise EnvironmentFailed("the session was closed: open another")
                    environment = self._environment = self.open_environment()
        return environment

    @property
    def opened(self) -> Environment | None:
        """The environment if it is open, else None. Does not open it."""
        return self._environment

    @property
    def processes(self) -> ProcessTable:
        """The session's background processes. Opens the environment. Raises EnvironmentFailed."""
        environment = self.environment
        with self._lock:
            if self._processes is None:
                from tools.processes.table import LOG_BYTES, ProcessTable

                kept = self.settings.get("terminal.log_mb")
                self._processes = ProcessTable(
                    environment,
                    f"{self.identity.session_id} {self.settings.get('store.name', '')}",
                    principal=self.identity.principal.key,
                    log_bytes=LOG_BYTES if kept is None else int(kept) << 20,
                    tell=self.tell_processes,
                )
                self._processes.know(self.state.get("processes") or {})
                if self.on_processes is not None:
                    self.on_processes(self._processes)
            return self._processes

    @property
    def opened_processes(self) -> ProcessTable | None:
        """The session's background processes if they were used, else None."""
        return self._processes

    async def spawn(self, command: str, cwd: str, name: str, /, *, open_input: bool) -> SpawnedProcess:
        """Start a background process for a tool. Raises ExecutionFailed and EnvironmentFailed."""
        from tools.processes.spawned import spawn

        return await spawn(self, command, cwd, name, open_input=open_input)

    @property
    def cwd(self) -> str:
        """The folder that commands run in. Raises EnvironmentFailed if it is known only after opening, and opening fails."""
        if self._environment is None and self.start and Path(self.start).is_dir():
            return self.start
        return self.environment.cwd

    @property
    def where(self) -> str:
        """The environment's identity; "" if none is open."""
        return "" if self._environment is None else self._environment.identity

    @property
    def spill_dir(self) -> Path:
        """The private spill folder. Created on first use, deleted when the scope closes or the process ends (see
        ``keep_spill``).
        """
        if self._spill_dir is None:
            with self._lock:
                if self._spill_dir is None:
                    leftovers.sweep(tempfile.gettempdir())
                    owner = "kept" if self.keep_spill else os.getpid()
                    self._spill_dir = Path(tempfile.mkdtemp(prefix=f"toolcrib-{owner}-"))
                    weakref.finalize(self, _remove, self._spill_dir, self.keep_spill, os.getpid())
        return self._spill_dir

    def take_state(self, found: Mapping[str, StateValue]) -> None:
        """Merge stored values of the session's state, keeping the newest of each name. Callable from any thread.

        The state is replaced as a whole, so that earlier snapshots stay unchanged.
        """
        with self._state_lock:
            newer = {name: one for name, one in found.items() if one.version > self.state.versions.get(name, 0)}
            if newer:
                self._kept = {**self._kept, **newer}
                self.state = StateSnapshot.of(self._kept)

    async def read_state(self) -> None:
        """Read the session's state from the store. Raises StoreFailed."""
        self.take_state(await self.states.of("session", self.identity.session_id))

    async def keep_file(self, path: Path) -> str:
        """Keep a file of the spill folder as long as the session. Return its name for read_file and search_files."""
        from tools.artifacts import keep_file

        return await keep_file(self, path)

    async def artifact(self, name: str) -> Path:
        """Return a file on this machine with an artifact's content. Raises NotFound and StoreFailed."""
        from tools.artifacts import as_file

        return await as_file(self, name)

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        return self.redactor.text(text)

    async def record_again(self) -> None:
        """Record the ends of calls that the ledger could not store before. Raises StoreFailed if it still cannot."""
        while self.unrecorded and self.ledger is not None:
            ended, session_id = self.unrecorded[0], self.identity.session_id
            known = await self.ledger.get(session_id, ended.call.id)
            if known is not None and known.call.name == ended.call.name and known.status.can_become(ended.status):
                await self.ledger.finish(session_id, ended.call.id, ended.status, ended.result, end_run=ended.end_run)
            self.unrecorded.pop(0)

    def begin_run(self, user_task: str | None) -> None:
        """Set the user's request that later calls serve. Handlers get its text as ``user_task``, None if there is none.

        Calls in progress keep the earlier request. ``task_id`` is the identity's, or else the session's id.
        """
        task_id = self.identity.task_id or self.identity.session_id
        self.extra = MappingProxyType({"task_id": task_id, "user_task": user_task})

    @contextlib.contextmanager
    def resuming(self, call_id: str) -> Iterator[bool]:
        """Claim a suspended call in order to continue it. Yields False if it is claimed already."""
        with self._state_lock:
            claimed = call_id not in self._resuming
            if claimed:
                self._resuming.add(call_id)
        try:
            yield claimed
        finally:
            if claimed:
                with self._state_lock:
                    self._resuming.discard(call_id)

    # -- interrupts ----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """End the running calls. Each gets a Cancelled result, and waiting calls do not start. May be called from any thread."""
        if self.cancelled:
            return
        self._cancel(list(self.running))

    def _cancel(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        self.cancelled = True
        for task in tasks:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so the task has ended
                task.get_loop().call_soon_threadsafe(task.cancel)

    def clear_interrupt(self) -> None:
        """Clear the interrupt before the next turn."""
        self.cancelled = False

    async def close(self) -> None:
        """Close the session's resources, withdraw pending questions, and end running calls as ``interrupt`` does."""
        if self.tickets is not None:
            why = "the session ended before there was an answer"
            for ticket_id in list(self.asking):
                await self.tickets.decide_ticket(Answer(ticket_id, action="cancel", reason=why, by="nobody"), "expired")
        await self._end_calls()
        snapshots, self.snapshots = self.snapshots, None
        await (self._end() if snapshots is None else snapshots.close(self._end))
        spill_dir, self._spill_dir = self._spill_dir, None
        if spill_dir is not None:
            _remove(spill_dir, self.keep_spill, os.getpid())

    async def _end(self) -> None:
        if self._processes is not None or (self.state and not self._closed):
            from tools.processes.ending import end_processes

            await end_processes(self)
        with self._lock:
            self._closed, self._processes = True, None
            environment, self._environment = self._environment, None
        if environment is not None:
            try:
                await environment.close()
            except Exception as error:
                _log.error("%s could not be closed: %s: %s", type(environment).__name__, type(error).__name__, error)

    async def leave(self) -> None:
        """Stop using the session as if this process had been killed: the background processes and their logs stay.

        The environment stays open until this process ends, because closing it may end them.
        """
        if self.snapshots is not None:
            self.snapshots.release()
            self.snapshots = None
        if self._processes is not None:
            await self._processes.release()
        with self._lock:
            self._closed, self._processes = True, None
            _left.append(self._environment)
            self._environment = None

    async def _end_calls(self) -> None:
        """End all calls except one that closes the scope itself. They may run in loops of other threads."""
        others = self.running - {asyncio.current_task()}
        if not others:
            return
        self._cancel(others)
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self.running - {asyncio.current_task()} and time.monotonic() < give_up:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.005)


def _remove(folder: Path, if_empty: bool, owner: int) -> None:
    if os.getpid() == owner:  # after a fork it is the parent's folder
        if not if_empty:
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or gone already
            folder.rmdir()
