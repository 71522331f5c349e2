"""Reads an OpenAI Responses reply, streamed or whole, into one ProviderTurn.

Output items are kept unchanged and in order: reasoning, and calls that the server ran itself, are sent back as they came. A
finished item from the server takes precedence over its deltas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from agent.providers._calls import CUT_OFF, MAX_CALLS, TOO_MANY, UNREADABLE, new_event, read_arguments, sent_back
from agent.providers._events import EventReader, counts, latest, whole
from agent.providers._images import drawn_in
from agent.reply_ends import CUT, end_of
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import ProviderTurn, StreamEvent
from toolcrib.contract.types import ToolCall

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"})
WHOLE_WORDS = ("completed",)
_Kind: TypeAlias = Literal["assistant_delta", "thinking_delta"]
_DELTAS: dict[str, _Kind] = {
    "response.output_text.delta": "assistant_delta",
    "response.refusal.delta": "assistant_delta",
    "response.reasoning_summary_text.delta": "thinking_delta",
    "response.reasoning_text.delta": "thinking_delta",
}


class _Item:
    """An output item that is being received. ``seen``: a part of it was passed to on_event.

    A call of one of our tools has ``call_id``, and the tool's name as ``shown``.
    """

    __slots__ = ("call_id", "done", "item", "parts", "seen", "shown")

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        self.parts: list[str] = []
        self.seen = self.done = False
        self.call_id = self.shown = ""

    @property
    def kind(self) -> str:
        kind = self.item.get("type")
        return kind if isinstance(kind, str) else ""

    def arguments(self) -> str:
        given = self.item.get("arguments")
        if self.done and isinstance(given, str) and (given or not self.parts):
            return given
        if self.done and isinstance(given, dict):
            return json.dumps(given, ensure_ascii=False)
        return whole(self.parts)

    def text(self) -> str:
        """Return a message's text; if the deltas differ, the finished item takes precedence."""
        if not self.done:
            return whole(self.parts)
        return whole([str(part.get("text") or part.get("refusal") or "") for part in _parts(self.item, "content")])


class ResponsesReader(EventReader):
    """See EventReader. The turn's native form is ``{"id": the server's id of the reply, "output": items}``."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.response_id = ""
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}
        self._status = ""
        self._why = ""
        self._calls = 0
        self.cut = False
        """True if the reply had more calls than are kept: then the server's stored reply differs from the history."""

    @property
    def size(self) -> int:
        return super().size + sum(item.done + sum(map(len, item.parts)) for item in self._items)

    def _call_parts(self) -> Sequence[str]:
        return self._items[-1].parts if self._items and self._items[-1].call_id else ()

    def read_body(self, body: Any) -> None:
        """Read a whole reply, as parsed JSON."""
        if not isinstance(body, dict) or not isinstance(body.get("output"), list):
            if isinstance(body, dict) and (body.get("error") or "detail" in body or body.get("type") == "error"):
                self._raise_error(body)
            raise self._broken("answered with something that is not a response", json.dumps(body, default=str))
        self._end(body)

    def finish(self) -> ProviderTurn:
        """Return the turn. Raises StreamBroken if the stream ended before the reply did: none of its calls may run."""
        if not self.ended:
            raise self._broken("ended the connection before the reply was complete")
        self._end_text()
        word = (self._why if self._status == "incomplete" else "") or self._status
        finish = self._ends(end_of(word, WHOLE_WORDS), self._why or self._status)
        calls: list[ToolCall] = []
        output: list[dict[str, Any]] = []
        for item in self._items:
            if item.kind == "function_call":
                call = self._call(item)
                if len(calls) >= MAX_CALLS:
                    call = replace(call, args={UNREADABLE: item.arguments()}, fault=TOO_MANY)
                calls.append(call)
                output.append(_native_call(item, call))
            else:
                output.append(item.item if item.done else _unfinished(item))
        if calls and finish == "stop":
            finish = "tool_calls"  # a reply has calls if it contains any, whatever its finish reason
        native = {"id": "" if self.cut else self.response_id, "output": output}
        text = "".join(item.text() for item in self._items if item.kind == "message")
        images = drawn_in(item.item.get("result") for item in self._items if item.kind == "image_generation_call")
        return ProviderTurn(text, self._hold(calls), native, self.usage, finish, self.model, self.reasoning, images)

    # -- events --------------------------------------------------------------------------------------------------------

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if type(kind) is not str:
            kind = str(kind)
        deltas = _DELTAS.get(kind)
        if deltas is not None:
            self._delta(event, deltas)
        elif kind == "response.function_call_arguments.delta":
            item = self._item(event) or self._new(event.get("output_index"), {"type": "function_call"})
            self._arguments(item, event.get("delta"))
        elif kind == "response.function_call_arguments.done":
            found = self._item(event)
            if found is not None and not found.parts:
                self._arguments(found, event.get("arguments"))
        elif kind == "response.output_item.added":
            self._added(event)
        elif kind == "response.output_item.done":
            self._done(self._item(event), event.get("output_index"), event.get("item"))
        elif kind in _ENDS:
            self._end(event.get("response"), kind)
        else:
            self._other(kind, event)

    def _other(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "error" or event.get("error"):
            self._raise_error(event)
        if type(response := event.get("response")) is dict:
            self._head(response)

    def _delta(self, event: dict[str, Any], kind: _Kind) -> None:
        delta = event.get("delta")
        if type(delta) is str:
            item = self._by_id.get(item_id) if type(item_id := event.get("item_id")) is str else None
            if item is None:
                own = "message" if kind == "assistant_delta" else "reasoning"
                item = self._item(event) or self._new(event.get("output_index"), {"type": own})
            item.seen = True
            item.parts.append(delta)
            if delta.isascii() and delta and kind == "assistant_delta" and not self._half[kind]:
                self._text.append(delta)  # the usual case of _emit, inlined
                self._on_event(new_event(StreamEvent, (kind, delta, "", "")))
            else:
                self._emit(kind, delta)

    def _item(self, event: dict[str, Any]) -> _Item | None:
        """Return an event's item by id, else by index: some servers change the id with each event, some use one index for all."""
        item_id = event.get("item_id")
        if type(item_id) is str and (found := self._by_id.get(item_id)) is not None:
            return found
        if item_id is None and type(item := event.get("item")) is dict:
            item_id = item.get("id")
        if type(item_id) is str and (found := self._by_id.get(item_id)) is not None:
            return found
        index = event.get("output_index")
        return self._by_index.get(index) if type(index) is int else None

    def _new(self, index: Any, item: dict[str, Any]) -> _Item:
        made = _Item(item)
        if made.kind == "function_call":
            if self._calls > MAX_CALLS:
                self.cut = True
                return made  # above the limit: it is dropped
            self._calls += 1
        self._items.append(made)
        if type(index) is int:
            self._by_index[index] = made
        if isinstance(item_id := item.get("id"), str) and item_id:
            self._by_id[item_id] = made
        if made.kind == "function_call":
            made.call_id = self._call_id(item.get("call_id") or item.get("id"))
            name = item.get("name")
            made.shown = self._name_of(name) if isinstance(name, str) and name else ""
            self._on_event(new_event(StreamEvent, ("tool_call_delta", "", made.call_id, made.shown)))
        return made

    def _added(self, event: dict[str, Any]) -> None:
        item = event.get("item")
        if isinstance(item, dict) and not (isinstance(item.get("id"), str) and item["id"] in self._by_id):
            self._new(event.get("output_index"), item)

    def _done(self, found: _Item | None, index: Any, item: Any) -> None:
        """Handle a finished item, and show the parts that no delta showed."""
        if not isinstance(item, dict):
            return
        if found is None or found.done or found.kind != item.get("type"):
            found = self._new(index, item)
        found.item, found.done = item, True
        if found.kind == "function_call":
            if isinstance(name := item.get("name"), str) and name:
                found.shown = self._name_of(name)
            if not found.seen:
                self._arguments(found, found.arguments())
        elif not found.seen:
            for part in _parts(item, "summary") + (_parts(item, "content") if found.kind == "reasoning" else []):
                self._emit("thinking_delta", part.get("text"))
            if found.kind == "message":
                self._emit("assistant_delta", found.text())
        found.seen = True

    def _arguments(self, item: _Item, piece: Any) -> None:
        if type(piece) is str and piece and item.call_id:
            item.seen = True
            item.parts.append(piece)
            self._on_event(new_event(StreamEvent, ("tool_call_delta", piece, item.call_id, item.shown)))

    # -- the end of the reply ------------------------------------------------------------------------------------------

    def _end(self, response: Any, kind: str = "") -> None:
        if not isinstance(response, dict):
            response = {}
        self._head(response)
        if response.get("error") or kind == "response.failed" or response.get("status") == "failed":
            self._raise_error(response.get("error") or "the server gave no reason")
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            if isinstance(item, dict):
                found = self._item({"item": item, "output_index": index})
                if found is None or not found.done:
                    self._done(found, index, item)
        status, word = response.get("status"), kind.removeprefix("response.")
        is_old = word in ("incomplete", "cancelled") or (word != "" and status == "in_progress")  # the event is newer
        self._status = status if isinstance(status, str) and not is_old else word
        details = response.get("incomplete_details")
        self._why = str(details.get("reason") or "") if isinstance(details, dict) else ""
        self.done = True

    def _head(self, response: dict[str, Any]) -> None:
        if isinstance(model := response.get("model"), str):
            self.model = model
        if isinstance(response_id := response.get("id"), str):
            self.response_id = response_id
        usage = response.get("usage")
        if isinstance(usage, dict):
            found = counts(
                input=usage.get("input_tokens"),
                output=usage.get("output_tokens"),
                cached=_inner(usage, "input_tokens_details", "cached_tokens"),
                reasoning=_inner(usage, "output_tokens_details", "reasoning_tokens"),
            )
            self.usage = latest(self.usage, found)

    def _call(self, item: _Item) -> ToolCall:
        raw = item.arguments()
        args, fault = read_arguments(raw)
        ended_well = item.done and item.item.get("status") != "incomplete"
        if self.end is CUT and (item is self._items[-1] or not ended_well):
            fault = CUT_OFF
        elif not item.shown:
            fault = "the call names no tool"
        elif not ended_well and not raw.strip():
            fault = "the call ended before its arguments arrived"
        return ToolCall(item.call_id, item.shown, {UNREADABLE: raw} if fault is not None else args, fault)


def _native_call(item: _Item, call: ToolCall) -> dict[str, Any]:
    # Invalid JSON is sent back wrapped, because the server would refuse the whole conversation with it.
    arguments = sent_back(item.arguments(), call.args) if call.fault is None else json.dumps(call.args, ensure_ascii=False)
    changed: dict[str, Any] = {"type": "function_call", "call_id": call.id, "arguments": arguments}
    changed["name"] = item.item.get("name") or "unnamed"
    return {**item.item, **changed}


def _unfinished(item: _Item) -> dict[str, Any]:
    """Return an item that the server never sent whole. The text of a message is that of its deltas."""
    if item.kind == "message":
        return {**item.item, "role": "assistant", "content": [{"type": "output_text", "text": item.text(), "annotations": []}]}
    return item.item


def _parts(item: dict[str, Any], key: str) -> list[dict[str, Any]]:
    parts = item.get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _inner(usage: dict[str, Any], group: str, key: str) -> Any:
    inner = usage.get(group)
    return (inner.get(key) or None) if isinstance(inner, dict) else None
