"""A conversation as Responses items: the model's items unchanged and in order, then one output for each call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._history import NO_RESULT, History, encode
from agent.providers._images import NO_IMAGES, Pictured, data_url
from agent.providers._names import WireNames, wire_id
from toolcrib.contract.image import Image


class ResponsesItems(History):
    """The conversation as items. ``stored``: the server keeps replies, so a request has the latest one's id and newer items."""

    wire = "responses"

    def __init__(self, names: WireNames, model: str, *, stored: bool) -> None:
        super().__init__(names, model)
        self._stored = stored
        self._system: list[str] = []
        self._sent: list[bytes] = []
        self.ids: set[str] = set()  # of all calls so far
        self._open: dict[str, str] = {}  # calls without an output: their own id and their id on the wire
        self._unreasoned: dict[int, bytes] = {}  # call without its own reasoning (position) -> its reply's latest
        self._repeats = False
        self._called: dict[str, int] = {}  # positions of calls, by their id on the wire
        self._outputs: dict[int, int] = {}  # position of a call -> position of its output
        self._pairs = False
        self._known = 0  # number of items, up to the end of the reply ``previous_id``
        self.previous_id = ""

    @property
    def instructions(self) -> str:
        return "\n\n".join(self._system)

    def system(self, text: str) -> None:
        """Add to the instructions before the first item; after that, add a system message."""
        if self._sent:
            self._say("system", text)
        else:
            self._system.append(text)

    def user(self, text: str, images: Sequence[Image] = ()) -> None:
        self._say("user", _content(text, images))

    def assistant(self, reply: Mapping[str, Any], *, recorded: bool = False) -> None:
        """Add the native form of a reply: ``{"id", "output": items}``.

        A ``recorded`` reply may be another server's, so its call ids are changed to the wire's form.
        """
        self._close_calls()
        items = self._acceptable(reply.get("output") or [])
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        self._open = {call_id: wire_id(call_id) if recorded else call_id for call_id in called}
        latest, before = b"", ""
        for item in items:
            kind = str(item.get("type"))
            if kind == "function_call":
                item = self._names.accepted({**item, "call_id": self._open[item["call_id"]]})
                self._called[item["call_id"]] = len(self._sent)
                if latest and before != "reasoning":
                    self._unreasoned[len(self._sent)] = latest
            self._sent.append(encode(item))
            latest, before = self._sent[-1] if kind == "reasoning" else latest, kind
        self.ids.update(self._open)
        if self._stored and reply.get("id"):
            self.previous_id, self._known = str(reply["id"]), len(self._sent)

    def results(self, results: Iterable[tuple[str, str]], shown: Pictured = NO_IMAGES) -> None:
        """Add a result for each call of the last reply, in the calls' order. ``results``: call ids and texts for the model."""
        texts = dict(results)
        for call_id, on_wire in self._open.items():
            if (place := self._called.pop(on_wire, None)) is not None:
                self._outputs[place] = len(self._sent)
            output = _content(texts.get(call_id, NO_RESULT), shown[call_id].images if call_id in shown else ())
            self._sent.append(encode({"type": "function_call_output", "call_id": on_wire, "output": output}))
        self._open = {}

    def joined(self) -> bytes:
        """Return the items to send as a JSON list: all, or those after the reply that ``previous_id`` names."""
        self._close_calls()
        sent = self._sent.copy()
        for place, reasoning in self._unreasoned.items() if self._repeats else ():
            sent[place] = reasoning + b"," + sent[place]
        places = range(self._known if self.previous_id else 0, len(sent))
        if not self._pairs:
            return b"[" + b",".join([sent[place] for place in places]) + b"]"
        after = {call: output for call, output in self._outputs.items() if call in places}
        moved = set(after.values())
        paired = [one for place in places if place not in moved for one in (place, after.get(place)) if one is not None]
        return b"[" + b",".join([sent[place] for place in paired]) + b"]"

    def pair(self) -> bool:
        """Send each output right after its call, as DeepSeek requires; return False if that is so already."""
        first, self._pairs = not self._pairs, True
        return first

    def repeat_reasoning(self) -> bool:
        """Send a reply's reasoning before each of its calls, as DeepSeek's gateways require; return False if nothing changes."""
        changes = bool(self._unreasoned) and not self._repeats
        self._repeats = True
        return changes

    def forget_previous(self) -> None:
        """Forget the previous reply, because the server no longer knows it: the next request contains everything."""
        self.previous_id, self._known = "", 0

    # -- the history ---------------------------------------------------------------------------------------------------

    def _recorded_reply(self, record: Mapping[str, Any]) -> None:
        native = record.get("native")
        reply = native.get("message") if isinstance(native, Mapping) and native.get("wire") == "responses" else None
        if isinstance(reply, Mapping) and self._is_ours(record):
            self.assistant(reply, recorded=True)
            return
        self._close_calls()
        self.forget_previous()  # the server's stored conversation lacks replies of other models
        if text := record.get("text"):
            self._sent.append(encode({"role": "assistant", "content": text}))
        for call in record.get("calls") or ():
            self._open[call["id"]] = on_wire = wire_id(call["id"])
            self.ids.add(call["id"])
            arguments = json.dumps(call["args"], ensure_ascii=False)
            name = self._names.wire(call["name"])
            self._called[on_wire] = len(self._sent)
            self._sent.append(encode({"type": "function_call", "call_id": on_wire, "name": name, "arguments": arguments}))

    def _acceptable(self, output: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the items that the server accepts.

        They are without reasoning at the end, which is unfinished, and, unless the server keeps replies, without reasoning that
        it could only look up.
        """
        items = [item for item in output if isinstance(item, dict)]
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        if self._stored:
            return items
        kept = [item for item in items if item.get("type") != "reasoning" or item.get("encrypted_content") or item.get("content")]
        if len(kept) == len(items):
            return items
        return [_without_id(item) for item in kept]

    def _say(self, role: str, content: str | list[dict[str, Any]]) -> None:
        self._close_calls()
        self._sent.append(encode({"role": role, "content": content}))


def _content(text: str, images: Sequence[Image]) -> str | list[dict[str, Any]]:
    """Return the content of a message or of a call's output: plain text if there are no images."""
    if not images:
        return text
    said: list[dict[str, Any]] = [{"type": "input_text", "text": text}] if text else []
    return said + [{"type": "input_image", "image_url": data_url(image), "detail": "auto"} for image in images]


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message or call without its id, and any other item unchanged.

    With the id, the server would look up the stored item and require the reasoning before it.
    """
    if item.get("type") == "message":
        parts = [part for part in item.get("content") or () if isinstance(part, dict)]
        return {"role": "assistant", "content": "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)}
    return {key: value for key, value in item.items() if key != "id"} if item.get("type") == "function_call" else item
