"""Events of the loop, sent as they happen.

The text and the thinking of each turn have ids that are unique in the conversation, even across processes; every event of a
call has that call's id.
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
    """A request goes to the model. ``number`` counts from 1."""

    number: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a call's arguments, as raw text, before the call is complete."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call goes to the dispatcher."""

    call: ToolCall
    emoji: str
    display: ToolDisplay | None = None
    """The tool's display settings, from its registration."""


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """Progress of a call, from its newest report; at most ten times a second, and never after ToolFinished.

    ``status`` is a ProgressStatus's value, ``share`` from 0 to 1 or None if the call does not know, and ``reports`` the number of
    reports so far.
    """

    call_id: str
    status: str
    message: str = ""
    share: float | None = None
    reports: int = 1


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """Content that a call shows as ``activity``, complete and with its changes applied: it replaces earlier content.

    Sent at most ten times a second. ``content`` is JSON of at most 2,000 values and 256 Ki characters.
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
    """The model made an image; it is sent complete, at the end of its turn and before TurnFinished."""

    image: Image
    id: str = ""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The model has answered. ``usage`` is the server's count of tokens: input, output; ``finish`` is ProviderTurn.finish."""

    number: int
    text: str
    calls: int
    usage: Mapping[str, int] = field(default_factory=dict)
    finish: str = ""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The server failed; the request is repeated after ``seconds``. The output of this turn so far will be sent again."""

    attempt: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """The auxiliary model of approval.smart judged a call. If it did not approve, the user is asked next."""

    call: ToolCall
    model: str
    approved: bool
    why: str


@dataclass(frozen=True, slots=True)
class TicketOpened:
    """A call waits for an answer, and its run is parked until then."""

    ticket: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class TicketReminder:
    """A ticket is still open. ``expires_at`` is in Unix seconds, None if it never expires."""

    ticket: str
    session_id: str
    message: str
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class SessionBusy:
    """Another process is working on the session; the message waits until that process is done."""

    session_id: str


@dataclass(frozen=True, slots=True)
class ContextCompressing:
    """A model begins to summarise the middle of the conversation, which may take some time; ``why`` as in ContextCompressed."""

    why: str


@dataclass(frozen=True, slots=True)
class ContextCompressed:
    """The middle of the conversation was summarised to make room. ``before`` and ``after`` are tokens, the latter estimated.

    ``why`` is ``threshold`` (nearly full), ``refused`` (the server refused the context), or ``asked`` (by the user). If no
    model could write the summary, ``problem`` is the reason, and the beginnings of the messages replace the summary.
    """

    before: int
    after: int
    why: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CompressionFailed:
    """The context is nearly full and could not be compressed; the run continues."""

    reason: str


@dataclass(frozen=True, slots=True)
class DelegateEnded:
    """A background delegate has ended; the next turn reads its answer.

    ``ended`` and ``problem`` are as in its result; ``turns`` and ``tokens`` are its usage.
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
