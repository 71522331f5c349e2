"""The state of a run between two steps: all that another process needs to continue it, even a week later."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from agent.conversation.limits import ERRORS, AnswerUnfit, RunError, RunLimits, Stopped
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.store import InboxItem, RunRecord, RunStatus
from toolcrib.contract.types import Json, ToolCall, ToolCallStatus

VERSION = 1
Phase: TypeAlias = Literal["asking", "calling", "parked", "ended"]
"""The next action of a run: ask the model, run the turn's calls, wait for an answer, nothing."""
_STATUS: Mapping[Phase, RunStatus] = {"asking": "running", "calling": "running", "parked": "parked", "ended": "ended"}


def run_id_of(session_id: str, item: int) -> str:
    """Return the id of the run that answers a message of a session's inbox."""
    return f"{session_id}-{item}"


def tokens_used(usage: Mapping[str, int]) -> int:
    """Return the tokens that count towards ``max_tokens``: input and output together."""
    return int(usage.get("input", 0)) + int(usage.get("output", 0))


@dataclass(frozen=True, slots=True)
class CallState:
    """State of a call in the turn's batch. ``tickets`` are pending; ``end_run``: a gate ended the run at this call."""

    call: ToolCall
    status: ToolCallStatus = ToolCallStatus.NEW
    tickets: tuple[str, ...] = ()
    end_run: bool = False

    @property
    def settled(self) -> bool:
        """True once the ledger has the call's result."""
        return self.status.is_terminal

    def to_json(self) -> dict[str, Json]:
        """Return the state as JSON, for a stored run."""
        call = self.call
        return {
            "call": {"id": call.id, "name": call.name, "args": call.args, "fault": call.fault},
            "status": self.status.value,
            "tickets": list(self.tickets),
            "end_run": self.end_run,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> CallState:
        """Return the state that ``to_json`` made."""
        return cls(ToolCall(**data["call"]), ToolCallStatus(data["status"]), tuple(data["tickets"]), data["end_run"])


@dataclass(frozen=True, slots=True)
class ParkedShell:
    """The folder and exported variables of the session's commands at the time of parking; without secrets."""

    cwd: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Frozen state of a run; each step makes a new one. ``step`` counts the stored steps, from 1.

    ``turn`` counts replies of the model. ``usage`` sums the server's counts, ``cost`` is 0 without prices. ``failed`` is the last
    failed call and how often it failed in a row, ``repeated`` the same for a turn's calls with their results, ``unreadable`` the
    number of turns in a row without a readable call. ``batch`` is the turn's calls. ``first`` is the transcript index of the
    message that the run answers. ``schema`` is the schema of the answer. ``mends`` means that the model is answering again after
    an invalid answer, ``last`` that this turn must have no calls. ``shell`` is set while the run is parked.
    """

    id: str
    session_id: str
    principal: Principal = field(default_factory=Principal)
    phase: Phase = "asking"
    step: int = 0
    limits: RunLimits = field(default_factory=RunLimits)
    turn: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: float = 0.0
    estimated: str = ""
    """Source of the list prices, if they were used for a part of the cost."""
    failed: tuple[str, int] = ("", 0)
    repeated: tuple[str, int] = ("", 0)
    unreadable: int = 0
    batch: tuple[CallState, ...] = ()
    first: int = 0
    items: tuple[int, ...] = ()
    """The inbox items that the run answers."""
    schema: Mapping[str, Json] | None = None
    mends: bool = False
    last: bool = False
    shell: ParkedShell | None = None
    stopped: Stopped | None = None
    text: str = ""
    data: Json = None
    error: tuple[str, str] | None = None
    """The type and the message of the error that ended the run."""
    finish: str = ""
    """Reason why the last reply ended; see ProviderTurn."""
    said: str = ""
    """Text of an unfinished reply, as last stored."""

    @property
    def turn_id(self) -> str:
        """Unique id of the last reply, which the ledger stores with the reply's calls."""
        return f"{self.id}/{self.turn}"

    @property
    def is_over(self) -> bool:
        """True once the run has ended."""
        return self.phase == "ended"

    def ends_for(self, item: InboxItem) -> bool:
        """Return True if this message interrupts the run: it comes from the run's principal, or from the local user."""
        who = Principal.from_json(item.principal)
        theirs = (who.key, who.speaker) == (self.principal.key, self.principal.speaker)
        return item.mode == "interrupt" and item.id not in self.items and (who.is_local or theirs)

    def next(self, **changes: Any) -> RunState:
        """Return the state after another step."""
        return replace(self, step=self.step + 1, **{"said": "", **changes})

    def ended(self, stopped: Stopped, text: str = "", **changes: Any) -> RunState:
        """Return the state after its last step."""
        return self.next(phase="ended", stopped=stopped, text=text, batch=(), shell=None, **changes)

    def failed_with(self, error: RunError) -> RunState:
        """Return the state after a limit ended the run."""
        return self.next(
            phase="ended", batch=(), shell=None, error=(type(error).__name__, str(error)), text=getattr(error, "text", "")
        )

    def raise_error(self) -> None:
        """Raise the RunError that ended the run, if there is one."""
        if self.error is not None:
            kind, words = self.error
            raise AnswerUnfit(words, self.text) if kind == AnswerUnfit.__name__ else ERRORS.get(kind, RunError)(words)

    # -- stored form ---------------------------------------------------------------------------------------------

    def record(self) -> RunRecord:
        """Return the run's record for the store."""
        return RunRecord(self.id, self.session_id, _STATUS[self.phase], self.step, self.to_json(), time.time())

    def to_json(self) -> dict[str, Json]:
        """Return the state as JSON, for the store."""
        return {
            "version": VERSION,
            "principal": self.principal.to_json(),
            "phase": self.phase,
            "limits": self.limits.to_json(),
            "turn": self.turn,
            "usage": dict(self.usage),
            "cost": self.cost,
            **({"estimated": self.estimated} if self.estimated else {}),
            "failed": list(self.failed),
            **({"repeated": list(self.repeated)} if self.repeated[0] else {}),
            "unreadable": self.unreadable,
            "batch": [one.to_json() for one in self.batch],
            "first": self.first,
            "items": list(self.items),
            "schema": None if self.schema is None else dict(self.schema),
            "mends": self.mends,
            "last": self.last,
            "shell": None if self.shell is None else {"cwd": self.shell.cwd, "variables": dict(self.shell.variables)},
            "stopped": self.stopped,
            "text": self.text,
            "data": self.data,
            "error": None if self.error is None else list(self.error),
            "finish": self.finish,
            **({"said": self.said} if self.said else {}),
        }

    @classmethod
    def of(cls, record: RunRecord) -> RunState:
        """Return the state of a stored run. Raises ToolcribError for a run of another version, or an invalid one."""
        data = dict(record.state)
        version = data.pop("version", None)
        if version != VERSION:
            raise ToolcribError(
                f"the run {record.id} was stored by another version of toolcrib (form {version!r}, this one knows {VERSION});"
                " upgrade toolcrib, or start a new session"
            )
        try:
            return cls(
                **data
                | {
                    "id": record.id,
                    "session_id": record.session_id,
                    "step": record.step,
                    "principal": Principal.from_json(data["principal"]),
                    "limits": RunLimits.from_json(data["limits"]),
                    "failed": (str(data["failed"][0]), int(data["failed"][1])),
                    "repeated": (str(data.get("repeated", ("", 0))[0]), int(data.get("repeated", ("", 0))[1])),
                    "batch": tuple(map(CallState.from_json, data["batch"])),
                    "items": tuple(data["items"]),
                    "shell": None if data["shell"] is None else ParkedShell(**data["shell"]),
                    "error": None if data["error"] is None else (data["error"][0], data["error"][1]),
                }
            )
        except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
            raise ToolcribError(f"the stored run {record.id} can't be read ({type(error).__name__}: {error})") from error


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outcome of a run. ``usage`` sums the server's counts over its turns; ``cost`` is None without prices."""

    text: str
    stopped: Stopped
    turns: int
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    data: Any = None
    """The answer as JSON, if the request had a schema, or if the answer itself was JSON other than a string."""
    images: Sequence[Image] = ()
    """Images that the model made in the run, in order."""
    tickets: Sequence[str] = ()
    """Ids of the tickets that a parked run waits for."""
    finish: str = ""
    """Reason why the last reply ended, as in ProviderTurn; ``length`` means that it reached its token limit."""
    estimated: str = ""
    """Source of the list prices, with their date, if they were used for a part of ``cost``; "" for the configured prices."""
