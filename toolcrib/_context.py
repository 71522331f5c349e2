"""Context of a call, for its handler and its gates."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from toolcrib._dataclass import dataclass
from toolcrib._effects import Effect
from toolcrib._environment import Environment
from toolcrib._types import Answer, Json, ToolCall
from toolcrib._undo import UndoLog

T = TypeVar("T")


LOCAL_PLATFORMS = frozenset({"cli", "api", "cron", "acp"})
"""Platforms on which only the person who runs the process speaks, unless a user is named."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The person that a session, a message or an answer acts for: a user of a platform (cli, api, telegram ...) and the user's
    roles.

    The local person, who owns this machine's configuration, has no name and comes by a local platform: the terminal, a program,
    a schedule, an editor. Somebody without a name on any other platform is nobody in particular, and never the local person.
    """

    platform: str = "cli"
    user: str = ""
    roles: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Return True for the local person."""
        return not self.user and self.platform in LOCAL_PLATFORMS

    @property
    def key(self) -> str:
        """``platform:user``, "" for the local person: what grants and memory are kept under."""
        return "" if self.is_local else f"{self.platform}:{self.user}"

    def to_json(self) -> dict[str, Json]:
        """Return the principal as JSON, for a store."""
        return {"platform": self.platform, "user": self.user, "roles": list(self.roles)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Principal:
        """Read what ``to_json`` wrote; {} is the local person. Raises TypeError for anything else than text and a list of it."""
        platform, user, roles = data.get("platform", "cli"), data.get("user", ""), data.get("roles", ())
        if not all(isinstance(one, str) for one in (platform, user, *roles)):
            raise TypeError(f"a principal is {{platform, user, roles}} of text, not {data!r}")
        return cls(platform, user, tuple(roles))


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Whose call this is. ``task_id`` groups calls that share a working folder, and is the session's id where it is "";
    ``platform`` is where the chat happens: cli, api ...
    """

    session_id: str
    run_id: str = ""
    task_id: str = ""
    user: str = ""
    platform: str = "api"
    roles: tuple[str, ...] = ()

    @property
    def principal(self) -> Principal:
        """The principal that the run acts for."""
        return Principal(self.platform, self.user, self.roles)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The agent that asks."""

    name: str = "toolcrib"
    model: str = ""
    instructions: str = ""
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateKey(Generic[T]):
    """A typed name in the session's state: ``PREFS = StateKey("prefs", dict)``."""

    name: str
    type: type[T]


class ProgressStatus(StrEnum):
    """State of a tool's progress, as it reports it."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    """A report of a tool while it works: a full replacement (``content``) or a change (``patch``, always a list)."""

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
        """Take the event at once; must not raise."""
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
    def state(self) -> Mapping[str, Json]:
        """Replaced as a whole when it changes, so holding it is a snapshot."""
        ...

    @property
    def activity_sink(self) -> EventSink | None:
        """The receiver of activity, or None where nobody watches."""
        ...

    @property
    def environment(self) -> Environment:
        """The session's environment; opened at first use."""
        ...

    @property
    def granted(self) -> frozenset[str] | None:
        """Names of the tools that may be called, or None for all."""
        ...

    @property
    def cancelled(self) -> bool:
        """True once the call was interrupted."""
        ...

    @property
    def spill_dir(self) -> Path:
        """A private folder for long output."""
        ...

    @property
    def settings(self) -> Mapping[str, Json]:
        """The operator's settings for tools, by dotted name."""
        ...

    @property
    def undo(self) -> UndoLog | None:
        """The log of changed files, or None where nothing is kept."""
        ...

    @property
    def policy(self) -> object | None:
        """The approval gate's policy in this session (tools.approval.policy.Policy), or None for the gate's own."""
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


class ToolCallContext:
    """Read-only (002-13). Only the dispatcher mints one, and tools that act refuse to run without it.

    The ``report_*`` methods may be awaited or not, and do nothing where no one listens (002-18).
    """

    __slots__ = ("_scope", "answers", "call", "effects", "resume_input", "snapshot", "used_environment")

    call: ToolCall
    answers: Mapping[str, tuple[str, Answer]]
    """Answers given to this call's tickets, by ticket id: (what the ticket bound, the answer)."""
    resume_input: Json
    """The answer's payload in resume mode ``pass_to_tool``, else None."""
    effects: Sequence[Effect]
    """The effects that the tool announced, resolved once: gates judge these, and the handler acts on these."""
    snapshot: Mapping[str, Json]
    """The session's state as it was when the call began."""
    used_environment: bool
    """True once the handler has asked for the environment: then the result says where it ran."""

    def __init__(self, mint: object, call: ToolCall, scope: ScopeView) -> None:
        if mint is not _MINT:
            raise TypeError("a ToolCallContext is minted by the dispatcher; use toolcrib.testing.call_tool in tests")
        self.call = call
        self._scope = scope
        self.answers = {}
        self.resume_input = None
        self.effects = ()
        self.snapshot = scope.state
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
        """The receiver of activity, or None where nobody watches."""
        return self._scope.activity_sink

    @property
    def environment(self) -> Environment:
        """The environment in which this session runs commands; opened at first use. Raises EnvironmentFailed."""
        self.used_environment = True
        return self._scope.environment

    @property
    def granted(self) -> frozenset[str] | None:
        """The tools that this session may call, or None for all."""
        return self._scope.granted

    @property
    def cancelled(self) -> bool:
        """True once the run was interrupted: a long sync handler should look and stop."""
        return self._scope.cancelled

    @property
    def settings(self) -> Mapping[str, Json]:
        """The operator's settings for tools, by dotted name, such as ``terminal.timeout``."""
        return self._scope.settings

    @property
    def spill_dir(self) -> Path:
        """A private folder on this machine for results too large to return; the model can read files in it."""
        return self._scope.spill_dir

    @property
    def undo(self) -> UndoLog | None:
        """The log in which a tool keeps each file before it replaces it, or None where nothing is kept."""
        return self._scope.undo

    @property
    def policy(self) -> object | None:
        """The approval gate's policy in this session; opaque to everybody else."""
        return self._scope.policy

    def answer_to(self, binds: str) -> Answer | None:
        """The answer that was given to a ticket of this call which bound exactly this."""
        for bound, answer in self.answers.values():
            if bound == binds:
                return answer
        return None

    def state(self, key: StateKey[T]) -> T | None:
        """The typed value under ``key``, or None; from the snapshot taken at the call (002-14)."""
        value = self.snapshot.get(key.name)
        return value if isinstance(value, key.type) else None

    def report_activity(self, activity_type: str, content: Json) -> _Done:
        """Replace what this call shows as ``activity_type`` (002-15)."""
        sink = self._scope.activity_sink
        if sink is not None:
            sink.emit(ActivityEvent(self.call.id, activity_type, content))
        return _DONE

    def report_activity_delta(self, activity_type: str, patch: Json) -> _Done:
        """Change it by a JSON Patch; a single operation is wrapped in a list (002-16)."""
        sink = self._scope.activity_sink
        if sink is not None:
            operations = cast("Sequence[Any]", patch if isinstance(patch, list) else [patch])
            sink.emit(ActivityEvent(self.call.id, activity_type, patch=operations))
        return _DONE

    def report_progress(self, status: ProgressStatus, message: str | None = None, progress: float | None = None) -> _Done:
        """Say how far it is, ``progress`` from 0 to 1, None where that is not known (002-17). As often as it likes: whoever shows
        it takes the newest. A status that is none is taken for RUNNING.
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
    """Make the context of a call. Only the dispatcher may do that."""
    return ToolCallContext(_MINT, call, scope)
