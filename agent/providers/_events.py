"""Parts that the readers of all wires share: streamed text, errors within it, and the error for a broken reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias

from agent.providers._calls import held_back, new_event, scan_json
from agent.providers._faults import EndlessReply, from_object
from agent.providers.sse import SseEvent
from agent.reply_ends import CUT, WHOLE, ReplyEnd, fault_of_end
from toolcrib.contract.errors import StreamBroken
from toolcrib.contract.session import ProviderTurn, StreamEvent
from toolcrib.contract.types import ToolCall

_Kind: TypeAlias = Literal["assistant_delta", "thinking_delta"]

_MANY_VALUES = 500_000
"""Maximum commas and opening brackets in one piece of JSON. A value takes up to a hundred times the memory of its text."""


class EventReader:
    """Reads one reply: call ``read_events`` (for a stream) or ``read_body`` (for a whole reply), then ``finish``.

    ``on_event`` receives deltas as they arrive. ``name_of`` maps a tool's name on the wire to its own; ``taken`` are the ids of
    earlier calls, which some servers reuse. The read methods raise a subclass of ProviderError for an error object in the reply,
    and StreamBroken for an invalid reply; both carry the text so far.
    """

    def __init__(
        self,
        on_event: Callable[[StreamEvent], None] | None = None,
        name_of: Callable[[str], str] | None = None,
        *,
        server: str = "",
        taken: Collection[str] = (),
    ) -> None:
        self._on_event = on_event or _ignored
        self._name_of = name_of or str
        self._server = server or "the server"
        self._ids = set(taken)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._half: dict[_Kind, str] = {"assistant_delta": "", "thinking_delta": ""}  # unpaired surrogate halves
        self.usage: dict[str, int] = {}
        self.model = ""
        self.begun = False
        self.done = False
        self.end: ReplyEnd = WHOLE
        self.end_word = ""
        """``end`` is the kind of the reply's end, ``end_word`` the server's word for it. ``finish`` sets both."""
        self.held: str | None = None
        """The reason why none of the reply's calls runs, not even those in its text; None if they may. Set by ``finish``."""

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def size(self) -> int:
        """Return how many characters of the reply have arrived; each part that is not text counts as one."""
        return sum(map(len, self._text)) + sum(map(len, self._reasoning))

    def growing(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Return the texts of the reply that may grow, each with its name and in pieces."""
        return ("text", self._text), ("thinking", self._reasoning), ("last call", self._call_parts())

    def _call_parts(self) -> Sequence[str]:
        """Return the pieces of the last call's arguments."""
        return ()

    @property
    def ended(self) -> bool:
        """True once the server reported that the reply is complete."""
        return self.done

    def read_events(self, events: Sequence[SseEvent]) -> None:
        """Read the events of a stream. ``begun`` is true from the first one, ``done`` once the server marked the last one."""
        if events:
            self.begun = True
        for name, data in events:
            if len(data) > _MANY_VALUES:
                check_values(data.encode("utf-8", "replace"), self._server)
            try:
                event, end = scan_json(data, 0)
            except (ValueError, RecursionError, StopIteration):
                self._unusual(name, data)
                continue
            if end != len(data) and data[end:].strip():
                raise self._broken("sent a piece that is not JSON", data)
            if name == "error" and not self.done:
                self._raise_error(event)
            if type(event) is not dict:
                raise self._broken("sent a piece that is not an event", data)
            self._take(event)

    def read_body(self, body: Any) -> None:
        """Read a whole reply, as parsed JSON."""
        raise NotImplementedError

    def finish(self) -> ProviderTurn:
        """Return the turn. Raises StreamBroken if the stream ended before the reply did: none of its calls may run."""
        raise NotImplementedError

    def _take(self, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def _emit(self, kind: _Kind, text: Any) -> None:
        """Emit a delta. JSON may escape a non-BMP character as two halves, and servers split them over two deltas."""
        if type(text) is not str:
            return
        if not text.isascii() or self._half[kind]:
            try:
                text.encode()
                text = ("\ufffd" if self._half[kind] else "") + text
                self._half[kind] = ""
            except UnicodeEncodeError:
                text = self._half[kind] + text
                self._half[kind] = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
                text = whole([text.removesuffix(self._half[kind])])
        if text:
            (self._text if kind == "assistant_delta" else self._reasoning).append(text)
            self._on_event(new_event(StreamEvent, (kind, text, "", "")))

    def _call_id(self, wire_id: Any) -> str:
        """Return the server's id for a call if it is valid and unused (X-1, X-2), else a new one."""
        usable = isinstance(wire_id, str) and wire_id and wire_id not in self._ids
        call_id = str(wire_id) if usable else ToolCall.new_id()
        self._ids.add(call_id)
        return call_id

    def _ends(self, end: ReplyEnd, word: str) -> str:
        """Record the end of the reply and the server's ``word`` for it. Return the end as in ProviderTurn."""
        self.end, self.end_word, self.held = end, word, fault_of_end(end, word)
        return end.finish

    def _hold(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """Return the calls, with a fault if none may run. The session adds the fault of a cut reply to its complete calls."""
        return held_back(calls, None if self.end is CUT else self.held)

    def _end_text(self) -> None:
        """Emit U+FFFD for a half character at the very end, because its other half can no longer follow."""
        for kind, half in self._half.items():
            if half:
                self._emit(kind, "")

    def _raise_error(self, error: Any) -> None:
        raise from_object(error, text=self.text, server=self._server)

    def _unusual(self, name: str, data: str) -> None:
        stripped = data.strip()
        if stripped == "[DONE]":
            self.done = True
            return
        if self.done or not stripped or stripped[0] == ":":  # a comment that a gateway sent as data
            return
        try:
            event = json.loads(stripped)
        except (ValueError, RecursionError):
            event = None
        if name == "error":
            self._raise_error(data if event is None else event)
        if not isinstance(event, dict):
            raise self._broken("sent a piece that is not JSON", data)
        self._take(event)

    def _broken(self, what: str, piece: str = "") -> StreamBroken:
        shown = f": {piece[:200]!r}" if piece else ""
        return StreamBroken(f"{self._server} {what}{shown}", text=self.text)


def check_values(text: bytes, server: str) -> None:
    """Raise EndlessReply for JSON with so many values that parsing it would fill the memory; long strings are fine."""
    if len(text) > _MANY_VALUES and sum(map(text.count, (b",", b"[", b"{"))) > _MANY_VALUES:
        raise EndlessReply(f"{server} sent one piece of more than {_MANY_VALUES:,} values; it does not speak this protocol")


def whole(parts: Sequence[str]) -> str:
    """Return the parts as one text; halves of a character are joined, and a lone half becomes U+FFFD."""
    text = "".join(parts)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def counts(**found: Any) -> dict[str, int]:
    """Return the token counts that the server gave; a negative one counts as 0."""
    return {name: max(0, count) for name, count in found.items() if type(count) is int}


def latest(counted: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return ``counted`` with the newer counts. A count of zero or less, or None, does not replace an earlier one."""
    return counted | {
        name: count
        for name, count in found.items()
        if name not in counted or not (count is None or (type(count) is int and count <= 0))
    }


def _ignored(event: StreamEvent) -> None:
    """Ignore an event: there is no listener."""
