"""Reads an Anthropic Messages reply, streamed or whole, into one ProviderTurn.

Blocks are kept unchanged and in order: signatures, results of the server's own tools (never run here) and unknown kinds are sent
back as they came. message_start may contain whole blocks already (X-6).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent.providers._calls import CUT_OFF, MAX_CALLS, TOO_MANY, UNREADABLE, new_event, read_arguments
from agent.providers._events import EventReader, counts, latest, whole
from agent.reply_ends import end_of
from toolcrib.contract.session import ProviderTurn, StreamEvent
from toolcrib.contract.types import ToolCall

WHOLE_WORDS = ("end_turn", "stop_sequence", "tool_use")
_KIND_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}
_PARTS_KEY = {"text": "text", "thinking": "thinking"}


class _Block:
    """A block that is being received. ``call_id`` and ``shown`` (the tool's own name) are set for calls of our tools, else ""."""

    __slots__ = ("call_id", "head", "kind", "open", "parts", "shown")

    def __init__(self, head: dict[str, Any]) -> None:
        self.head = head
        kind = head.get("type")
        self.kind = kind if type(kind) is str else ""
        self.parts: list[str] = []
        self.open = True
        self.call_id = self.shown = ""

    def raw_input(self) -> str:
        """Return the input as JSON text: from the deltas, else from the block's start; "" and {} there mean no input."""
        raw = whole(self.parts)
        given = self.head.get("input")
        if raw.strip() or not given:
            return raw
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)

    def native(self) -> dict[str, Any]:
        block = dict(self.head)
        if self.kind in _PARTS_KEY:
            block[_PARTS_KEY[self.kind]] = whole(self.parts)
        elif self.parts:  # the input of a tool that the server runs
            args, fault = read_arguments(self.raw_input())
            block["input"] = args if fault is None else {UNREADABLE: self.raw_input()}
        return block


class AnthropicReader(EventReader):
    """See EventReader. ``usage["input"]`` is the whole input, including ``cached`` and ``cache_written``."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._blocks: dict[int, _Block] = {}
        self._finish = ""
        self._stopped = False
        self._last: _Block | None = None
        self._counted: dict[str, Any] = {}
        self._calls = 0

    @property
    def size(self) -> int:
        return super().size + sum(len(part) for block in self._blocks.values() for part in block.parts)

    def _call_parts(self) -> Sequence[str]:
        return () if self._last is None or self._last.kind in _PARTS_KEY else self._last.parts

    @property
    def ended(self) -> bool:
        return self.done or self._stopped

    def read_body(self, body: Any) -> None:
        """Read a whole reply, as parsed JSON."""
        if not isinstance(body, dict) or not isinstance(body.get("content"), list):
            if isinstance(body, dict) and ("error" in body or body.get("type") == "error" or "detail" in body):
                self._raise_error(body)
            raise self._broken("answered with something that is not a message", json.dumps(body, default=str))
        self._start(body)
        self.done = True

    def finish(self) -> ProviderTurn:
        """Return the turn. Raises StreamBroken if the stream ended before the reply did: none of its calls may run."""
        if not self.ended:
            raise self._broken("ended the connection before the reply was complete")
        self._end_text()
        finish = self._ends(end_of(self._finish, WHOLE_WORDS), self._finish)
        if self._finish == "tool_use":
            finish = "tool_calls"
        calls: list[ToolCall] = []
        content: list[dict[str, Any]] = []
        for block in self._blocks.values():
            if block.kind != "tool_use":
                content.append(block.native())
                continue
            cut = CUT_OFF if finish == "length" and block is self._last else None
            if len(calls) >= MAX_CALLS:
                cut = TOO_MANY
            if block.open and finish != "tool_calls" and not block.raw_input().strip():
                cut = cut or CUT_OFF  # without arguments, the call may have been cut off
            call = _call(block, cut)
            calls.append(call)
            content.append({**block.head, "id": call.id, "name": block.head.get("name") or "unnamed", "input": call.args})
        if calls and finish == "stop":
            finish = "tool_calls"  # a reply has calls if it contains any, whatever its finish reason
        message = {"role": "assistant", "content": content}
        return ProviderTurn(self.text, self._hold(calls), message, self.usage, finish, self.model, self.reasoning)

    # -- events --------------------------------------------------------------------------------------------------------

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(event)
        elif kind == "content_block_start":
            self._open(event.get("index"), event.get("content_block"))
        elif kind == "message_start":
            message = event.get("message")
            self._start(message if isinstance(message, dict) else {})
        elif kind == "content_block_stop":
            self._close(event.get("index"))
        elif kind == "message_delta":
            self._message_delta(event)
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or "error" in event:
            self._raise_error(event)

    def _start(self, message: dict[str, Any]) -> None:
        model = message.get("model")
        self.model = model if isinstance(model, str) else self.model
        self._count(message.get("usage"))
        content = message.get("content")
        for place, block in enumerate(content if isinstance(content, list) else ()):
            self._open(place, block)
            self._close(place)
        self._finish = str(message.get("stop_reason") or "")

    def _open(self, index: Any, head: Any) -> _Block | None:
        if type(index) is not int or not isinstance(head, dict):
            return None
        block = _Block(head)
        if block.kind == "tool_use":
            if self._calls > MAX_CALLS:
                self._last = None
                return None
            self._calls += 1
        self._blocks[index] = self._last = block
        if (key := _PARTS_KEY.get(block.kind)) is not None:
            begun = head.get(key)
            if isinstance(begun, str) and begun:
                self._add_text(block, begun)
        elif block.kind == "tool_use":
            name = head.get("name")
            block.call_id = self._call_id(head.get("id"))
            block.shown = self._name_of(name) if isinstance(name, str) and name else ""
            self._on_event(new_event(StreamEvent, ("tool_call_delta", block.raw_input(), block.call_id, block.shown)))
        return block

    def _close(self, index: Any) -> None:
        if type(index) is int and (block := self._blocks.get(index)) is not None:
            block.open = False

    def _delta(self, event: dict[str, Any]) -> None:
        delta, index = event.get("delta"), event.get("index")
        if type(delta) is not dict or type(index) is not int:
            return
        kind = delta.get("type")
        if kind == "input_json_delta" and (found := self._blocks.get(index)) is not None and found.kind in _PARTS_KEY:
            index = -1 - index  # a wrong index: these arguments are kept apart, as a call without a name
        block = self._blocks.get(index) or self._open(index, {"type": _KIND_OF_DELTA.get(str(kind), "text")})
        if block is None:
            return
        if kind == "text_delta":
            text = delta.get("text")
            if type(text) is str and text.isascii() and text and block.kind == "text" and not self._half["assistant_delta"]:
                block.parts.append(text)  # the usual case of _add_text, inlined
                self._text.append(text)
                self._on_event(new_event(StreamEvent, ("assistant_delta", text, "", "")))
            else:
                self._add_text(block, text)
        elif kind == "input_json_delta":
            piece = delta.get("partial_json")
            if type(piece) is str and piece:
                block.parts.append(piece)
                if block.call_id:
                    self._on_event(new_event(StreamEvent, ("tool_call_delta", piece, block.call_id, block.shown)))
        elif kind == "thinking_delta":
            self._add_text(block, delta.get("thinking"))
        elif kind == "citations_delta":
            cited = block.head.get("citations")
            block.head["citations"] = [*(cited if isinstance(cited, list) else ()), delta.get("citation")]
        else:  # signature_delta, and future kinds: their fields go into the block
            block.head.update({key: value for key, value in delta.items() if key != "type"})

    def _add_text(self, block: _Block, text: Any) -> None:
        if type(text) is not str:
            return
        block.parts.append(text)
        self._emit("thinking_delta" if block.kind == "thinking" else "assistant_delta", text)

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._count(event.get("usage"))
        delta = event.get("delta")
        if isinstance(delta, dict) and delta.get("stop_reason"):
            self._finish = str(delta["stop_reason"])
            self._stopped = True

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self._counted = latest(self._counted, usage)
        found = self._counted
        details = found.get("output_tokens_details")
        found_counts = counts(
            input=found.get("input_tokens"),
            output=found.get("output_tokens"),
            cached=found.get("cache_read_input_tokens") or None,
            cache_written=found.get("cache_creation_input_tokens") or None,
            reasoning=(details.get("thinking_tokens") or None) if isinstance(details, dict) else None,
        )
        if "input" in found_counts:  # the wire excludes the cached part from the input
            found_counts["input"] += found_counts.get("cached", 0) + found_counts.get("cache_written", 0)
        self.usage = found_counts


def _call(block: _Block, cut: str | None) -> ToolCall:
    raw = block.raw_input()
    args, fault = read_arguments(raw)
    if cut is not None:
        fault = cut
    elif not block.shown:
        fault = "the call names no tool"
    return ToolCall(block.call_id, block.shown, {UNREADABLE: raw} if fault is not None else args, fault)
