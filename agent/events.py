"""Events of the loop, sent as they happen.

Each turn has fresh ids for its text and its thinking, which no other turn of the conversation has, in any process; every event
of a call carries that call's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.display import ToolDisplay
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Json, ToolCall


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The model is asked. ``number`` counts from 1."""

    number: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of its reasoning."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a call's arguments, as raw text, before it is complete."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call goes to the dispatcher."""

    call: ToolCall
    emoji: str
    display: ToolDisplay | None = None
    """How the tool's registration has its calls shown."""


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A call says how far it is, as its newest report has it; a few times a second at most, and never after ToolFinished.

    ``status`` is a ProgressStatus's value, ``share`` from 0 to 1 or None where the call does not know, and ``reports`` how many
    there were so far.
    """

    call_id: str
    status: str
    message: str = ""
    share: float | None = None
    reports: int = 1


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """Content that a call shows as ``activity``, whole and with its changes applied: it takes the place of what was shown before.

    A few times a second at most. ``content`` is JSON of at most 2,000 values and 256 Ki characters.
    """

    call_id: str
    activity: str
    content: Json


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has ended, and has its one result."""

    executed: ExecutedCall
    emoji: str
    display: ToolDisplay | None = None


@dataclass(frozen=True, slots=True)
class ImageMade:
    """The model drew something; it comes whole, when its turn has ended and before TurnFinished."""

    image: Image
    id: str = ""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The model has answered. ``usage`` is the server's count of tokens: input, output; ``finish`` is that of ProviderTurn."""

    number: int
    text: str
    calls: int
    usage: Mapping[str, int] = field(default_factory=dict)
    finish: str = ""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The server failed; it is asked again after ``seconds``. What came of this turn so far will come again."""

    attempt: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """The auxiliary model of approval.smart was asked about a call. Where it did not approve, a person is asked next."""

    call: ToolCall
    model: str
    approved: bool
    why: str


@dataclass(frozen=True, slots=True)
class TicketOpened:
    """A call waits for somebody's answer, and its run is parked until then."""

    ticket: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class TicketReminder:
    """A ticket is still open. ``expires_at`` is in Unix seconds, None where it never expires."""

    ticket: str
    session_id: str
    message: str
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class SessionBusy:
    """Another process is at work on the session; what was said waits until that is over."""

    session_id: str


@dataclass(frozen=True, slots=True)
class ContextCompressing:
    """A model begins to summarise the middle of the conversation, which may take it a while; ``why`` as in ContextCompressed."""

    why: str


@dataclass(frozen=True, slots=True)
class ContextCompressed:
    """The middle of the conversation was summarised, so that the model can read on. ``before`` and ``after`` are tokens, the
    latter estimated; ``why`` is ``threshold`` (nearly full), ``refused`` (the server took no more), or ``asked`` (by a person).
    ``problem`` says why no model wrote the summary, where how messages began stands in its place.
    """

    before: int
    after: int
    why: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CompressionFailed:
    """The context is nearly full and could not be compressed; the run goes on as it was."""

    reason: str


@dataclass(frozen=True, slots=True)
class DelegateEnded:
    """A delegate in the background has ended; the next turn reads its answer. ``ended`` and ``problem`` say how, as in its
    result; ``turns`` and ``tokens`` are what it used.
    """

    session_id: str
    name: str
    ended: str
    problem: str = ""
    turns: int = 0
    tokens: int = 0


Event: TypeAlias = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallDelta
    | ToolStarted
    | ModelAnswered
    | ToolProgressed
    | ToolActivity
    | ToolFinished
    | ImageMade
    | TurnFinished
    | Retrying
    | TicketOpened
    | TicketReminder
    | SessionBusy
    | ContextCompressing
    | ContextCompressed
    | CompressionFailed
    | DelegateEnded
)
Emit: TypeAlias = Callable[[Event], None]
