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


class StreamEvent(NamedTuple):  # there is one for each token, and a frozen dataclass takes twice as long to make
    """A piece of a reply as it arrives. Tool call deltas have ``call_id`` and ``name``; their ``text`` is raw argument text."""

    kind: Literal["assistant_delta", "thinking_delta", "tool_call_delta"]
    text: str
    call_id: str = ""
    name: str = ""


OnEvent: TypeAlias = Callable[[StreamEvent], None]


@dataclass(frozen=True, slots=True)
class ProviderTurn:
    """A reply of the model. ``assistant_turn`` is the provider's own object: opaque, and sent back unchanged.

    ``usage`` counts tokens: ``input``, ``output``, and ``cached`` and ``reasoning`` as parts of these if the server reports them.
    ``finish`` is ``stop``, ``tool_calls``, ``length``, ``repetition``, ``content_filter`` or ``other``; check ``tool_calls`` to
    see whether there are calls. ``model`` is the server's name for the model that answered. ``images`` are images that the model
    drew, in order. ``value`` is the answer as JSON if a text protocol defines one.
    """

    assistant_text: str
    tool_calls: Sequence[ToolCall] = ()
    assistant_turn: Any = None
    usage: Mapping[str, int] = field(default_factory=dict)
    finish: str = ""
    model: str = ""
    reasoning: str = ""
    images: Sequence[Image] = ()
    value: Json = None


@dataclass(slots=True)
class ExecutedCall:
    """A call and its one result. Treat it as read-only (frozen, it would cost half a microsecond more for every call).

    ``duration`` is in seconds; ``end_run`` means that a gate ended the whole run.

    ``encoded`` is the text of ``result.data`` (JSON, or the data itself if it is a str) if it is known already. ``unrecorded``
    means that the store could not record the result: if the process ended now, the model would only read that the call may have
    run, so the result must not be shown to other readers.
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
        """Add a user's text and images to the history; the next turn answers them."""
        ...

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        """Send the history and read one reply. Every delta reaches ``on_event`` at once."""
        ...

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        """Add the results of the turn's calls to the history, one for each call, in order."""
        ...

    async def close(self) -> None:
        """Close the connection. May be called twice."""
        ...


# -- optional abilities of a provider's session: ask with isinstance --------------------------------------------------


@runtime_checkable
class Named(Protocol):
    """A provider session that knows the name of its model."""

    @property
    def model(self) -> str:
        """The model's name, or "" if it is not known."""
        ...


@runtime_checkable
class Steerable(Protocol):
    """A provider session whose protocol can constrain the model's replies."""

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        """Constrain the replies from now on, until the next call of ``steer``.

        ``tool_choice`` is "auto", "none", "required" or a tool's name; ``schema`` is a JSON Schema for the replies' text.
        """
        ...


class TokenPrices(Protocol):
    """Prices of a million tokens of input and output, in any currency."""

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
    """A provider session that knows its model's prices."""

    @property
    def prices(self) -> TokenPrices | None:
        """The prices of the current model, or None for the configured ones."""
        ...


@runtime_checkable
class FallsBack(Protocol):
    """A provider session that can switch the conversation to another model."""

    async def fall_back(self, error: ProviderError) -> str | None:
        """Continue with the next model after ``error`` and return its name. Return None if there is no other model, or if it
        would not help.
        """
        ...


Thinking: TypeAlias = Literal["open", "maybe", "unlikely", "closed"]
"""State of the thinking block at the end of the prompt. If the block is open, the reply begins with thinking.

``open`` and ``closed`` are certain. ``maybe``: an end tag without a start tag makes the text before it thinking, so nothing is
shown until the state is certain. ``unlikely``: text is shown at once and stays text; calls before such an end tag do not run.
"""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A complete reply in plain text, parsed.

    ``content`` is for people, ``reasoning`` is the model's thinking. ``calls`` are in text order; one that could not be parsed
    has a ``fault`` and is answered, not run. ``faults`` lists all that is wrong. ``events`` are the events that
    follow when the reply ends. Protocols that accept or refuse a reply as a whole set ``error`` (a code such as
    ``invalid_json``) and ``value`` (the final answer as JSON). ``next_thinking`` is what the reply implies for later replies.
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
    """A reader of one reply as it arrives. The result does not depend on how the reply is cut into pieces."""

    def feed(self, text: str) -> list[StreamEvent]:
        """Return what can be shown by now: never half a tag, never a call's own text."""
        ...

    def finish(self, *, truncated: bool = False) -> ParsedReply:
        """Return the parsed reply; called once. ``truncated``: a limit cut off the reply, so each of its calls has a fault."""
        ...


class TextProtocol(Protocol):
    """Tool calls in plain text, for models without native tool calls."""

    @property
    def name(self) -> str:
        """Name of the protocol."""
        ...

    def render_tools(self, definitions: Sequence[Mapping[str, Json]], *, instructions: str = "") -> str:
        """Return the system prompt: the agent's ``instructions``, then what the model must know about the tools."""
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
        """Return a reply with these calls as the model would have written it, for turns that come from another protocol."""
        ...
