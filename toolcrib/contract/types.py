"""Tools, calls and results: the types that all other modules use.

The names and the wire forms follow the specification's Tool trait; a rule from the specification has its number
beside it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import InvalidTransition
from toolcrib.contract.frozen import freeze
from toolcrib.contract.image import Image
from toolcrib.contract.state import StateKey, StateUpdate

if TYPE_CHECKING:
    from toolcrib.contract.context import ToolCallContext

Json: TypeAlias = Any
"""A value that json.dumps takes: str, int, float, bool, None, lists and string-keyed dicts of them."""

Kind: TypeAlias = Literal["read", "edit", "execute", "other"]
"""Effect of a tool on the world. ``edit`` and ``execute`` run only if an approval gate is registered."""

_PROCESS = os.urandom(8).hex()
_COUNTER = itertools.count(1)

EMPTY_PARAMETERS: Mapping[str, Json] = freeze({"type": "object", "properties": {}})


class ToolStatus(StrEnum):
    """State of a result (002-6)."""

    SUCCESS = "success"
    PENDING = "pending"
    ERROR = "error"


class ToolCallStatus(StrEnum):
    """State of a call (002-27, 002-28). The last three are terminal."""

    NEW = "new"
    RUNNING = "running"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """True if no other status can follow."""
        return not _MOVES[self]

    def can_become(self, new: ToolCallStatus) -> bool:
        """Return True for an allowed move, and for the same status (which does nothing)."""
        return new is self or new in _MOVES[self]

    def become(self, new: ToolCallStatus) -> ToolCallStatus:
        """Return ``new``. Raises InvalidTransition if that move is not allowed."""
        if not self.can_become(new):
            raise InvalidTransition(f"a tool call that is {self.value} can't become {new.value}")
        return new

    @classmethod
    def outcome_of(cls, status: ToolStatus) -> ToolCallStatus:
        """Return a call's status after a result: Pending -> Suspended, Error -> Failed, Success -> Succeeded (002-29)."""
        return _OUTCOMES[status]


_S = ToolCallStatus
_MOVES: Mapping[ToolCallStatus, frozenset[ToolCallStatus]] = {
    _S.NEW: frozenset({_S.RUNNING}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.SUSPENDED, _S.CANCELLED}),
    _S.SUSPENDED: frozenset({_S.RESUMING, _S.CANCELLED}),
    _S.RESUMING: frozenset({_S.RUNNING, _S.SUSPENDED, _S.SUCCEEDED, _S.FAILED, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}
_OUTCOMES: Mapping[ToolStatus, ToolCallStatus] = {
    ToolStatus.SUCCESS: _S.SUCCEEDED,
    ToolStatus.PENDING: _S.SUSPENDED,
    ToolStatus.ERROR: _S.FAILED,
}


@dataclass(frozen=True, slots=True)
class ToolDescriptor:
    """A tool's description of itself (002-2). ``id`` is for code, ``name`` is what the model calls; they may differ (002-34)."""

    id: str
    name: str
    description: str
    parameters: Mapping[str, Json] = field(default_factory=lambda: EMPTY_PARAMETERS)
    category: str | None = None

    @classmethod
    def new(cls, id: str, name: str, description: str) -> ToolDescriptor:  # noqa: A002 - the specification's name
        """Return a descriptor without parameters or category."""
        return cls(id, name, description)

    def with_parameters(self, schema: Mapping[str, Json]) -> ToolDescriptor:
        """Return a copy with these parameters: a JSON Schema of type object."""
        return replace(self, parameters=schema)

    def with_category(self, category: str) -> ToolDescriptor:
        """Return a copy with that category."""
        return replace(self, category=category)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model or a person requested.

    ``fault`` says why the call could not be read (broken JSON, incomplete): such a call never runs, and still gets its one
    result.
    """

    id: str
    name: str
    args: Json = field(default_factory=dict)
    fault: str | None = None

    @staticmethod
    def new_id() -> str:
        """Return an id for a call that came without one (Gemini, text protocols)."""
        return f"call_{_PROCESS}{next(_COUNTER):x}"


ResumeMode: TypeAlias = Literal["replay", "use_as_result", "pass_to_tool"]
"""Use of an answer. replay: run the call again from its gates; use_as_result: the answer is the result; pass_to_tool: the tool
gets it as ``ctx.resume_input``.
"""


RELAYS = "relays"
"""The parameter that holds ``SuspendTicket.relays``. The dispatcher removes it from tickets of plugins' tools and of gates."""


@dataclass(frozen=True, slots=True)
class SuspendTicket:
    """Ticket of a call that waits for an answer (002-30). ``id`` has 128 random bits and is answered once.

    ``binds`` is a digest of all that the answer will cover. A gate that is asked again compares it, so an answer to one thing
    never covers another. ``response_schema`` is the JSON Schema of the payload that an answer must carry.
    """

    action: str
    message: str
    call: ToolCall | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    response_schema: Mapping[str, Json] | None = None
    resume_mode: ResumeMode = "replay"
    binds: str = ""
    id: str = field(default_factory=lambda: os.urandom(16).hex())

    @property
    def relays(self) -> str:
        """Id of the other session's ticket that this ticket relays, "" for none. The handler forwards the answer,
        even a denial. The answer grants nothing in this session.
        """
        relayed = self.parameters.get(RELAYS, "")
        return relayed if isinstance(relayed, str) else ""

    def to_json(self) -> dict[str, Json]:
        """Return the ticket as JSON, as the model and a client see it."""
        suspension: dict[str, Json] = {
            "id": self.id,
            "action": self.action,
            "message": self.message,
            "parameters": dict(self.parameters),
            "binds": self.binds,
        }
        if self.response_schema is not None:
            suspension["response_schema"] = dict(self.response_schema)
        pending = None if self.call is None else {"id": self.call.id, "name": self.call.name, "arguments": self.call.args}
        return {"suspension": suspension, "pending": pending, "resume_mode": self.resume_mode}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> SuspendTicket:
        """Return the ticket that ``to_json`` wrote. Raises KeyError if a field is missing."""
        suspension, pending = data["suspension"], data["pending"]
        return cls(
            id=suspension["id"],
            action=suspension["action"],
            message=suspension["message"],
            parameters=suspension["parameters"],
            response_schema=suspension.get("response_schema"),
            binds=suspension["binds"],
            call=None if pending is None else ToolCall(pending["id"], pending["name"], pending["arguments"]),
            resume_mode=data["resume_mode"],
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a person, or of a model, to a ticket (002-31).

    ``decision_id`` makes a repeated delivery harmless; ``at`` is Unix time in seconds.
    A denial is an answer too: action ``resume`` with the payload ``{"approved": false, "reason": ...}``.
    ``cancel`` cancels the call.
    """

    ticket_id: str
    action: Literal["resume", "cancel"] = "resume"
    payload: Json = None
    reason: str | None = None
    by: str = ""
    at: float = 0.0
    decision_id: str = field(default_factory=lambda: os.urandom(16).hex())

    @property
    def denied(self) -> bool:
        """True for an answer that denies the call."""
        return isinstance(self.payload, Mapping) and self.payload.get("approved") is False


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a call failed. Each interface words it in its own way. ``inside``: the handler failed, not a step around
    it.
    """

    inside: bool
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of one call (002-5).

    ``data`` is for code and, encoded, for the model. ``views`` holds other texts by reader (``model``, ``person``, ``screen``) if
    they should differ from data. ``images`` reach the model if its protocol accepts them, and only from a successful result.
    """

    tool_name: str
    status: ToolStatus
    data: Json = None
    message: str | None = None
    suspension: SuspendTicket | None = None
    views: Mapping[str, str] = field(default_factory=dict)
    failure: Failure | None = field(default=None, compare=False)
    images: Sequence[Image] = ()

    @classmethod
    def success(cls, tool_name: str, data: Json) -> ToolResult:
        """Return a result with data."""
        return cls(tool_name, ToolStatus.SUCCESS, data)

    @classmethod
    def success_with_message(cls, tool_name: str, data: Json, message: str) -> ToolResult:
        """Return a result with data and a message."""
        return cls(tool_name, ToolStatus.SUCCESS, data, message)

    @classmethod
    def success_with_images(cls, tool_name: str, data: Json, images: Sequence[Image]) -> ToolResult:
        """Return a result with data and images."""
        return cls(tool_name, ToolStatus.SUCCESS, data, images=tuple(images))

    @classmethod
    def error(cls, tool_name: str, message: str) -> ToolResult:
        """Return a failed result with a message."""
        return cls(tool_name, ToolStatus.ERROR, None, message)

    @classmethod
    def error_with_code(cls, tool_name: str, code: str, message: str) -> ToolResult:
        """Return a failed result with a code for programs and a message."""
        return cls(tool_name, ToolStatus.ERROR, {"error": {"code": code, "message": message}}, f"[{code}] {message}")

    @classmethod
    def suspended(cls, tool_name: str, message: str) -> ToolResult:
        """Return a pending result with a message."""
        return cls(tool_name, ToolStatus.PENDING, None, message)

    @classmethod
    def suspended_with(cls, tool_name: str, message: str, ticket: SuspendTicket) -> ToolResult:
        """Return a pending result with the ticket that it waits for."""
        return cls(tool_name, ToolStatus.PENDING, None, message, ticket)

    @property
    def is_success(self) -> bool:
        """True for a result of status SUCCESS."""
        return self.status is ToolStatus.SUCCESS

    @property
    def is_pending(self) -> bool:
        """True for a result of status PENDING."""
        return self.status is ToolStatus.PENDING

    @property
    def is_error(self) -> bool:
        """True for a result of status ERROR."""
        return self.status is ToolStatus.ERROR

    def to_json(self) -> dict[str, Json]:
        """Return the wire form (002-8). message and suspension are left out if there are none; images are always left out: they
        are not text.
        """
        data: dict[str, Json] = {"tool_name": self.tool_name, "status": self.status.value, "data": self.data}
        if self.message is not None:
            data["message"] = self.message
        if self.suspension is not None:
            data["suspension"] = self.suspension.to_json()
        return data

    def to_json_text(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_json(), ensure_ascii=False)

    def to_output(self) -> ToolOutput:
        """Return the result as an output without state changes."""
        return ToolOutput(self)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A result and its changes of the state (002-10): pairs of a key and a value or StateUpdate, none by default.

    A text key means the key of that name that the tool was registered with, else a key of scope ``session``. None as a value
    removes the key. All changes are stored, or none.
    """

    result: ToolResult
    state_changes: Sequence[tuple[StateKey[Any] | str, Json | StateUpdate]] = ()


@runtime_checkable
class Tool(Protocol):
    """A tool as a class (002-1). ``registry.add(tool)`` registers it; a subclass inherits the default ``validate_args``."""

    def descriptor(self) -> ToolDescriptor:
        """Return the tool's description."""
        ...

    def validate_args(self, args: Mapping[str, Json]) -> None:
        """Raise InvalidArguments if the tool can't accept ``args``, which already fit its schema."""
        return

    async def execute(self, args: dict[str, Json], ctx: ToolCallContext) -> ToolOutput | ToolResult:
        """Return the result. Raises ToolError to end the call as failed."""
        ...


Handler: TypeAlias = Callable[..., Any]
CheckFn: TypeAlias = Callable[[], object]


class Unavailable:
    """A falsy value that a check_fn returns in place of False, to give people the reason."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Unavailable({self.reason!r})"
