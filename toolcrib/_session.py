"""How the loop talks to a model: sessions stream turns, and take results back in the provider's own form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from toolcrib._types import Json, ToolCall, ToolCallStatus, ToolResult


class StreamEvent(NamedTuple):  # there is one for each token: a frozen dataclass takes twice as long to make
    """A piece of a reply as it comes. Tool call deltas have ``call_id`` and ``name``; their ``text`` is raw argument text."""

    kind: Literal["assistant_delta", "thinking_delta", "tool_call_delta"]
    text: str
    call_id: str = ""
    name: str = ""


OnEvent: TypeAlias = Callable[[StreamEvent], None]


@dataclass(frozen=True, slots=True)
class ProviderTurn:
    """One reply. ``assistant_turn`` is the provider's own object: opaque, and sent back unchanged.

    ``usage`` counts tokens: ``input``, ``output``, and of these ``cached`` and ``reasoning`` where the server told. ``finish`` is
    ``stop``, ``tool_calls``, ``length``, ``content_filter`` or ``other``; whether there are calls is for ``tool_calls`` to say.
    ``model`` is the server's name for what answered.
    """

    assistant_text: str
    tool_calls: Sequence[ToolCall] = ()
    assistant_turn: Any = None
    usage: Mapping[str, int] = field(default_factory=dict)
    finish: str = ""
    model: str = ""
    reasoning: str = ""


@dataclass(slots=True)
class ExecutedCall:
    """A call and its one result; to be read only (frozen, it would cost half a microsecond more on every call).

    ``duration`` is in seconds; ``end_run`` means that a gate ended the whole run.

    ``encoded`` is the JSON text of ``result.data`` where it is known already.
    """

    call: ToolCall
    result: ToolResult
    status: ToolCallStatus
    duration: float = 0.0
    end_run: bool = False
    encoded: str | None = field(default=None, repr=False, compare=False)


class ProviderSession(Protocol):
    """One conversation with one model."""

    def say(self, text: str) -> None:
        """Add what the person says to the history; the next turn answers it."""
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


class TextProtocol(Protocol):
    """Tool calls in plain text, for models without native ones."""

    @property
    def name(self) -> str: ...

    def render_tools(self, definitions: Sequence[Mapping[str, Json]]) -> str:
        """What the system prompt says about the tools."""
        ...

    def parse(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """(text for people, calls) of a whole reply. An unreadable call comes back with its fault."""
        ...

    def render_results(self, executed: Sequence[ExecutedCall]) -> str: ...
