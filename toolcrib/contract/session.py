"""The contract between the loop and a model: sessions stream turns, and take results back in the provider's own form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ProviderError
from toolcrib.contract.image import Image
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json, ToolCall, ToolCallStatus, ToolResult


class StreamEvent(NamedTuple):  # there is one for each token: a frozen dataclass takes twice as long to make
    """A piece of a reply as it comes. Tool call deltas have ``call_id`` and ``name``; their ``text`` is raw argument text."""

    kind: Literal["assistant_delta", "thinking_delta", "tool_call_delta"]
    text: str
    call_id: str = ""
    name: str = ""


OnEvent: TypeAlias = Callable[[StreamEvent], None]


@dataclass(frozen=True, slots=True)
class ProviderTurn:
    """A reply of the model. ``assistant_turn`` is the provider's own object: opaque, and sent back unchanged.

    ``usage`` counts tokens: ``input``, ``output``, and of these ``cached`` and ``reasoning`` where the server said. ``finish`` is
    ``stop``, ``tool_calls``, ``length``, ``content_filter`` or ``other``; whether there are calls is for ``tool_calls`` to say.
    ``model`` is the server's name for what answered. ``images`` are those that it made, in order.
    """

    assistant_text: str
    tool_calls: Sequence[ToolCall] = ()
    assistant_turn: Any = None
    usage: Mapping[str, int] = field(default_factory=dict)
    finish: str = ""
    model: str = ""
    reasoning: str = ""
    images: Sequence[Image] = ()


@dataclass(slots=True)
class ExecutedCall:
    """A call and its one result; to be read only (frozen, it would cost half a microsecond more on every call).

    ``duration`` is in seconds; ``end_run`` means that a gate ended the whole run.

    ``encoded`` is the JSON text of ``result.data`` where it is known already. ``unrecorded`` means that the store could not keep
    how it ended: should the process end now, the model will read that it may have run, so that nobody is to be told more.
    """

    call: ToolCall
    result: ToolResult
    status: ToolCallStatus
    duration: float = 0.0
    end_run: bool = False
    encoded: str | None = field(default=None, repr=False, compare=False)
    unrecorded: bool = False


class ProviderSession(Protocol):
    """A conversation with one model."""

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add what the person says, and shows, to the history; the next turn answers it."""
        ...

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        """Send what there is and read one reply. Every delta reaches ``on_event`` at once."""
        ...

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        """Take the results of the turn's calls into the history, one for each, in order."""
        ...

    async def close(self) -> None:
        """Free the connection. May be called twice."""
        ...


# -- abilities that a provider's session may have besides: ask with isinstance ----------------------------------------


@runtime_checkable
class Named(Protocol):
    """A provider session that knows the name of the model it talks to."""

    @property
    def model(self) -> str:
        """The model's name, "" where it is not known."""
        ...


@runtime_checkable
class Steerable(Protocol):
    """A provider session whose wire can hold the model's replies to a form."""

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        """Say what the replies are from now on, until the next call of ``steer``.

        ``tool_choice`` is "auto", "none", "required" or a tool's name; ``schema`` is a JSON Schema for the replies' text.
        """
        ...


class TokenPrices(Protocol):
    """Prices of a million tokens that a model reads and writes, in any currency."""

    @property
    def input(self) -> float:
        """Price of a million tokens of input."""
        ...

    @property
    def output(self) -> float:
        """Price of a million tokens of output."""
        ...

    def cost(self, usage: Mapping[str, int]) -> float:
        """Return the cost of one reply with this ``ProviderTurn.usage``."""
        ...


@runtime_checkable
class Priced(Protocol):
    """A provider session that knows what its model costs."""

    @property
    def prices(self) -> TokenPrices | None:
        """The prices of the model that answers now; None for the configured ones."""
        ...


@runtime_checkable
class FallsBack(Protocol):
    """A provider session that can hand the conversation to another model."""

    async def fall_back(self, error: ProviderError) -> str | None:
        """Continue with the next model after ``error`` and return its name; None where there is none, or it would not help."""
        ...


Thinking: TypeAlias = Literal["open", "maybe", "unlikely", "closed"]
"""State of the prompt's thinking block: open; perhaps open; hardly; closed.

``maybe``: a stray end of thinking is believed, so nothing is shown before the reader knows. ``unlikely``: text is shown at once
and stays text; calls before a stray end do not run.
"""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply in plain text, read to its end.

    ``content`` is for people, ``reasoning`` what the model thought. ``calls`` are in text order; one that could not be read has
    a ``fault`` and is answered, not run. ``faults`` says all that is wrong. ``events`` is what the end brought yet to show.
    Protocols that take or refuse a reply as a whole set ``error`` (a code such as ``invalid_json``) and ``value`` (the final
    answer as JSON). ``next_thinking`` is what the reply tells of the replies after it.
    """

    content: str
    reasoning: str = ""
    calls: Sequence[ToolCall] = ()
    faults: Sequence[str] = ()
    events: Sequence[StreamEvent] = ()
    error: str = ""
    value: Json = None
    next_thinking: Thinking = "maybe"


class TextReader(Protocol):
    """A reader of one reply as it comes. However the reply is cut into pieces, the result is the same."""

    def feed(self, text: str) -> list[StreamEvent]:
        """Return what can be shown by now: never half a tag, never a call's own text."""
        ...

    def finish(self, *, truncated: bool = False) -> ParsedReply:
        """``truncated``: the token limit ended the reply, so a call that was not closed is not run. Call it once."""
        ...


class TextProtocol(Protocol):
    """Tool calls in plain text, for models without native ones."""

    @property
    def name(self) -> str:
        """Name of the protocol."""
        ...

    def render_tools(self, definitions: Sequence[Mapping[str, Json]], *, instructions: str = "") -> str:
        """The system prompt: the agent's ``instructions``, then what the model must know of the tools."""
        ...

    def reader(self, definitions: Sequence[Mapping[str, Json]], *, thinking: Thinking = "maybe") -> TextReader:
        """Return a reader of one reply."""
        ...

    def render_results(self, executed: Sequence[ExecutedCall]) -> Sequence[Mapping[str, Json]]:
        """Return chat messages (role, content, ...) with the results of the model's calls."""
        ...

    def render_recorded(self, results: Sequence[Mapping[str, Json]]) -> Sequence[Mapping[str, Json]]:
        """Render stored results (call_id, name, text, is_error) as ``render_results`` does."""
        ...

    def render_reply(self, text: str, calls: Sequence[ToolCall]) -> str:
        """A reply with these calls as the model would have written it: for turns that come from another wire."""
        ...
