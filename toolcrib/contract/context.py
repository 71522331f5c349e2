"""Context of a call, for its handler and its gates."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from toolcrib.contract.background import SpawnedProcess
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import Effect, RunsCommand
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import Denied, Internal
from toolcrib.contract.identity import LOCAL_PLATFORMS, Principal, RunIdentity
from toolcrib.contract.state import SHARED, StateKey, StateScope, StateSnapshot, StateValue, typed
from toolcrib.contract.types import Answer, Json, ToolCall
from toolcrib.contract.undo import UndoLog

__all__ = ["LOCAL_PLATFORMS", "Principal", "RunIdentity", "ToolCallContext"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The agent that makes the calls."""

    name: str = "toolcrib"
    model: str = ""
    instructions: str = ""
    options: Mapping[str, Json] = field(default_factory=dict)


class ProgressStatus(StrEnum):
    """State of a tool's progress, as the tool reports it."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    """A tool's report while it works: a full replacement (``content``) or a change (``patch``, always a list)."""

    message_id: str
    activity_type: str
    content: Json = None
    patch: Sequence[Json] | None = None

    @property
    def is_delta(self) -> bool:
        """True for a change, False for a full replacement."""
        return self.patch is not None


class EventSink(Protocol):
    """Receiver of a call's activity."""

    def emit(self, event: ActivityEvent) -> None:
        """Accept the event at once; must not raise."""
        ...


class ScopeView(Protocol):
    """The part of a session that its calls may see."""

    @property
    def identity(self) -> RunIdentity:
        """The identity of the call's run."""
        ...

    @property
    def agent_spec(self) -> AgentSpec:
        """The agent that the call belongs to."""
        ...

    @property
    def state(self) -> StateSnapshot:
        """The session's state. It is replaced as a whole when it changes, so a reference to it is a snapshot."""
        ...

    @property
    def activity_sink(self) -> EventSink | None:
        """The receiver of activity, or None if the session has no listener."""
        ...

    @property
    def environment(self) -> Environment:
        """The session's environment; opened at first use."""
        ...

    @property
    def granted(self) -> frozenset[str] | None:
        """Names of the tools that the session may call, or None for all."""
        ...

    @property
    def cancelled(self) -> bool:
        """True after the call was interrupted."""
        ...

    @property
    def spill_dir(self) -> Path:
        """A private folder for long output."""
        ...

    async def keep_file(self, path: Path, /) -> str:
        """Keep a file of the spill folder as long as the session, and return its name."""
        ...

    async def artifact(self, name: str, /) -> Path:
        """Return a file with the content that was kept under the name."""
        ...

    def redact(self, text: str, /) -> str:
        """Return the text without secrets."""
        ...

    @property
    def settings(self) -> Mapping[str, Json]:
        """The operator's settings for tools, by dotted name."""
        ...

    @property
    def undo(self) -> UndoLog | None:
        """The log of changed files, or None if no file versions are kept."""
        ...

    @property
    def policy(self) -> object | None:
        """The approval gate's policy in this session (tools.approval.policy.Policy), or None for the gate's own."""
        ...

    @property
    def processes(self) -> object:
        """The session's background processes (tools.processes.table.ProcessTable)."""
        ...

    async def spawn(self, command: str, cwd: str, name: str, /, *, open_input: bool) -> SpawnedProcess:
        """Start a background process that the session owns."""
        ...


class _Done:
    """Return value of the report methods: sync handlers ignore it, async ones may await it."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()
_STATUSES = tuple(ProgressStatus)
_MINT = object()
SharedState: TypeAlias = Mapping[StateScope, Mapping[str, StateValue]]
_NO_STATE: Mapping[str, Json] = MappingProxyType({})
_NO_SHARED: SharedState = MappingProxyType({})


class ToolCallContext:
    """The context of a call: its identity, state and session. Read-only (002-13). Only the dispatcher makes one, and tools that
    act refuse to run without it.

    The ``report_*`` methods may be awaited or not, and do nothing if the session has no listener (002-18).
    """

    __slots__ = (
        "_own_state",
        "_scope",
        "_shared_state",
        "answers",
        "call",
        "effects",
        "notice",
        "resume_input",
        "snapshot",
        "used_environment",
    )

    call: ToolCall
    answers: Mapping[str, tuple[str, Answer]]
    """Answers to this call's tickets, by ticket id: (what the ticket bound, the answer)."""
    resume_input: Json
    """The answer's payload in resume mode ``pass_to_tool``, else None."""
    effects: Sequence[Effect]
    """The effects that the tool declared for this call. They are computed once: gates judge them, and the handler acts on
    them.
    """
    notice: str
    """A gate's notice about a call that it allowed, "" if none. ``terminal`` adds it to its result."""
    snapshot: StateSnapshot
    """The session's state when the call, or the group of parallel calls that it belongs to, began; read-only."""
    used_environment: bool
    """True after the handler asked for the environment. The result then names the backend."""

    def __init__(self, mint: object, call: ToolCall, scope: ScopeView) -> None:
        if mint is not _MINT:
            raise TypeError("only the dispatcher creates a ToolCallContext; use toolcrib.testing.call_tool in tests")
        self.call = call
        self._scope = scope
        self.answers = {}
        self.resume_input = None
        self.effects = ()
        self.notice = ""
        self.snapshot = scope.state
        self._own_state = _NO_STATE
        self._shared_state = _NO_SHARED
        self.used_environment = False

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id

    @property
    def tool_name(self) -> str:
        """The name of the called tool."""
        return self.call.name

    @property
    def run_identity(self) -> RunIdentity:
        """The identity of the call's run."""
        return self._scope.identity

    @property
    def agent_spec(self) -> AgentSpec:
        """The agent that the call belongs to."""
        return self._scope.agent_spec

    @property
    def activity_sink(self) -> EventSink | None:
        """The receiver of activity, or None if the session has no listener."""
        return self._scope.activity_sink

    @property
    def environment(self) -> Environment:
        """The environment where this session runs commands; opened at first use. Raises EnvironmentFailed."""
        self.used_environment = True
        return self._scope.environment

    @property
    def granted(self) -> frozenset[str] | None:
        """The tools that this session may call, or None for all."""
        return self._scope.granted

    @property
    def cancelled(self) -> bool:
        """True after the run was interrupted. A long sync handler should check this and stop."""
        return self._scope.cancelled

    @property
    def settings(self) -> Mapping[str, Json]:
        """The operator's settings for tools, by dotted name, such as ``terminal.timeout``."""
        return self._scope.settings

    @property
    def spill_dir(self) -> Path:
        """A private folder on this machine for results too large to return; the model can read files in it. The folder is deleted
        when the process ends: see ``keep_file``.
        """
        return self._scope.spill_dir

    async def keep_file(self, path: Path) -> str:
        """Keep a copy of a file in the spill folder, without secrets, as long as the session exists. Return the name under which
        read_file and search_files find it. If the session keeps no artifacts, or the file is larger than 64 MiB, the file stays
        as it is and the name is its path.
        """
        return await self._scope.keep_file(path)

    async def artifact(self, name: str) -> Path:
        """Return the path of a file on this machine with the content of the artifact of that name: a file that ``keep_file``
        kept, in this or another process, or the whole text of a result that was clipped. Raises NotFound and StoreFailed.
        """
        return await self._scope.artifact(name)

    def redact(self, text: str) -> str:
        """Return the text without secrets. Use it before you cut a text; secrets in complete results are removed anyway."""
        return self._scope.redact(text)

    @property
    def undo(self) -> UndoLog | None:
        """The log for the versions of files before a tool changes them, or None if no file versions are kept."""
        return self._scope.undo

    @property
    def policy(self) -> object | None:
        """The approval gate's policy in this session; opaque to all other code."""
        return self._scope.policy

    @property
    def processes(self) -> object:
        """The session's background processes; opaque to all other code."""
        return self._scope.processes

    async def spawn(self, command: str, *, name: str = "") -> SpawnedProcess:
        """Start a background process: exactly the ``command`` of a RunsCommand that this call declared with ``background``.

        ``name`` names it for users; the tool's name by default. It has the folder and variables of the session's shell, and ends
        with the session. Raises Denied for any other command, ExecutionFailed and EnvironmentFailed.
        """
        for effect in self.effects:
            if isinstance(effect, RunsCommand) and effect.background and effect.command == command and not effect.outside:
                self.used_environment = True
                return await self._scope.spawn(command, effect.cwd, name or self.call.name, open_input=effect.open_input)
        raise Denied(f"{self.call.name} may not start {command!r}: declare RunsCommand(..., background=True) as its effect")

    def answer_to(self, binds: str) -> Answer | None:
        """Return the answer to a ticket of this call that bound exactly ``binds``, or None."""
        for bound, answer in self.answers.values():
            if bound == binds:
                return answer
        return None

    def state(self, key: StateKey[T]) -> T | None:
        """Return a copy of the typed value that ``key`` had when the call began, or None (002-14).

        Raises Internal for a key of scope principal or profile that the tool was not registered with (``state=``).
        """
        if key.scope == "session":
            return typed(key, self.snapshot.get(key.name))
        if key.scope == "call":
            return typed(key, self._own_state.get(key.name))
        if key.scope in SHARED and key.scope not in self._shared_state:
            raise Internal(
                f"{self.call.name} reads the state {key.name!r} of scope {key.scope} but was not registered with it: state=[...]"
            )
        found = self._shared_state[key.scope].get(key.name)
        return None if found is None else typed(key, found.value)

    def report_activity(self, activity_type: str, content: Json) -> _Done:
        """Replace what the call shows as ``activity_type`` (002-15)."""
        sink = self._scope.activity_sink
        if sink is not None:
            sink.emit(ActivityEvent(self.call.id, activity_type, content))
        return _DONE

    def report_activity_delta(self, activity_type: str, patch: Json) -> _Done:
        """Change what the call shows as ``activity_type`` by a JSON Patch; a single operation is wrapped in a list (002-16)."""
        sink = self._scope.activity_sink
        if sink is not None:
            operations = cast("Sequence[Any]", patch if isinstance(patch, list) else [patch])
            sink.emit(ActivityEvent(self.call.id, activity_type, patch=operations))
        return _DONE

    def report_progress(self, status: ProgressStatus, message: str | None = None, progress: float | None = None) -> _Done:
        """Report the progress. ``progress`` is from 0 to 1, or None if it is unknown (002-17). A tool may call this as often as
        it likes: screens show the newest report. An unknown status counts as RUNNING.
        """
        if self._scope.activity_sink is None:
            return _DONE
        content: dict[str, Json] = {
            "schema": "tool-call-progress.v1",
            "node_id": f"tool_call:{self.call.id}",
            "status": str(status) if status in _STATUSES else ProgressStatus.RUNNING.value,
        }
        if message is not None:
            content["message"] = message
        if progress is not None:
            content["progress"] = progress
        return self.report_activity("tool-call-progress", content)


def mint_context(call: ToolCall, scope: ScopeView) -> ToolCallContext:
    """Return the context of a call. Only the dispatcher may call this."""
    return ToolCallContext(_MINT, call, scope)


def own_state(ctx: ToolCallContext) -> Mapping[str, Json]:
    """Return the state of scope ``call``, by key."""
    return ctx._own_state


def give_own_state(ctx: ToolCallContext, values: Mapping[str, Json]) -> None:
    """Set the state of scope ``call``, by key. For the dispatcher."""
    ctx._own_state = values


def shared_state(ctx: ToolCallContext) -> SharedState:
    """Return the shared state that was read for the call, by scope."""
    return ctx._shared_state


def give_shared_state(ctx: ToolCallContext, values: SharedState) -> None:
    """Set the shared state that the call sees. For the dispatcher."""
    ctx._shared_state = values
