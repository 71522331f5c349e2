"""A conversation as Chat Completions messages, each stored as the JSON text to send: small, and always the same bytes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from agent.providers._history import NO_RESULT, NO_SIGNATURE, History, encode
from agent.providers._images import NO_IMAGES, Pictured, chat_content, chat_from_tools
from agent.providers._names import WireNames, nine_id, wire_id
from agent.providers._reasoning import DEMANDED, FIELDS, ReasoningBack
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex

_LONGEST_ID = 40
"""Maximum number of characters of a call id that OpenAI accepts."""
_USER, _TOOL, _MODEL = b'{"role":"user",', b'{"role":"tool",', b'{"role":"assistant",'
_NO_TEXT = encode({"role": "assistant", "content": "[no text]"})
_CHANNEL, _MARK = b"<|channel|>", Regex(r"<\|[a-z]+\|>")
_NULL = b'{"role":"assistant","content":null'
_FILLS = (b'""', b'"[no text]"')
"""Contents of a message with only calls, for servers that refuse null; the first is enough for most."""
_NO_REASONING = encode(" ")
"""Reasoning of a message without any, if the server requires the field. DeepSeek V4 also refuses empty text."""


class ChatMessages(History):
    wire = "chat"

    def __init__(self, names: WireNames, model: str, server: str = "") -> None:
        """Begin an empty conversation. ``server``: host and port."""
        super().__init__(names, model)
        self._nine = f".{server.partition(':')[0].lower()}".endswith(".mistral.ai")
        """True for servers that refuse call ids of any other form than Mistral's."""
        self._alternates = False
        self._bares = False
        self._fills = 0  # which of _FILLS is sent, from 1
        self._sent: list[bytes] = []
        self._reasoned: dict[int, dict[str, bytes]] = {}  # reasoning of each message of the model, by its place
        self._open: dict[str, str] = {}  # calls without a result: their own id and their id on the wire
        self.ids: set[str] = set()  # ids of all calls so far

    @property
    def carried(self) -> Collection[Collection[str]]:
        """Return the fields of reasoning that each of the model's messages has."""
        return self._reasoned.values()

    def system(self, text: str) -> None:
        self._close_calls()
        self._add({"role": "system", "content": text})

    def user(self, text: str, images: Sequence[Image] = ()) -> None:
        self._close_calls()
        self._add({"role": "user", "content": chat_content(text, images)})

    def assistant(self, message: Mapping[str, Any], *, foreign: bool = False) -> None:
        """Add a native message, with its reasoning. The call ids of a ``foreign`` model are sent in the wire's form."""
        self._close_calls()
        bare = {key: value for key, value in message.items() if key not in FIELDS}
        calls = bare.get("tool_calls") or []
        if not (bare.get("content") or calls or bare.get("images")):
            return  # an empty reply: servers refuse it in a history
        self._reasoned[len(self._sent)] = {key: encode(message[key]) for key in FIELDS if message.get(key) is not None}
        fit = nine_id if self._nine else (lambda call_id: wire_id(call_id, _LONGEST_ID)) if foreign else str
        self._open = {call["id"]: fit(call["id"]) for call in calls}
        self._add({**bare, "tool_calls": [self._fitted(call) for call in calls]} if calls else bare)
        self.ids.update(self._open)

    def results(self, results: Iterable[tuple[str, str]], shown: Pictured = NO_IMAGES) -> None:
        """Add the results of the last message's calls, (call id, text for the model): one for each call, in the calls' order.

        Their images follow in one user message (004-21).
        """
        texts = dict(results)
        for call_id, on_wire in self._open.items():
            self._add({"role": "tool", "tool_call_id": on_wire, "content": texts.get(call_id, NO_RESULT)})
        self._open = {}
        if shown:
            self._add({"role": "user", "content": chat_from_tools(shown)})

    def shorten_ids(self) -> bool:
        """Send call ids of 9 letters and digits, which every server accepts; return False if they already have this form."""
        if self._nine:
            return False
        self._nine = True
        self._open = {call_id: nine_id(on_wire) for call_id, on_wire in self._open.items()}
        for place, sent in enumerate(self._sent):
            if b'"tool_call' in sent:
                message = json.loads(sent)
                for call in message.get("tool_calls") or ():
                    call["id"] = nine_id(call["id"])
                if "tool_call_id" in message:
                    message["tool_call_id"] = nine_id(message["tool_call_id"])
                self._sent[place] = encode(message)
        return True

    def alternate(self) -> bool:
        """From now on, merge successive user messages, and put a message of the model between a result and a user message.

        Return False if that is so already.
        """
        first, self._alternates = not self._alternates, True
        return first

    def fill(self) -> bool:
        """Send text instead of null for messages with only calls; return False if there is none, or no other text to try."""
        can = self._fills < len(_FILLS) and any(one.startswith(_NULL) for one in self._sent)
        self._fills = self._fills + 1 if can else 0
        return can

    def bare(self) -> bool:
        """Send only the final part of texts with Harmony's channels from now on; return False if that is so already."""
        first, self._bares = not self._bares, True
        return first

    def joined(self, back: ReasoningBack) -> bytes:
        """Return the messages as a JSON list, with the reasoning that the server gets back."""
        self._close_calls()
        sent = self._sent.copy()
        for place, carried in self._reasoned.items():
            if back.is_demanded:
                texts = (carried.get(DEMANDED), carried.get("reasoning"), _NO_REASONING)
                carried = {**carried, DEMANDED: next(text for text in texts if text not in (None, b'""'))}
            if fields := [encode(key) + b":" + value for key, value in carried.items() if back.sends(key)]:
                sent[place] = b",".join([sent[place][:-1], *fields]) + b"}"
        return self._listed(sent)

    def _listed(self, sent: Iterable[bytes]) -> bytes:
        """Return messages as a JSON list."""
        made: list[bytes] = []
        for one in sent:
            if self._bares and _CHANNEL in one:
                one = _final(one)
            if self._signs and one.startswith(_MODEL):
                one = _signed(one)
            if self._fills and one.startswith(_NULL):
                one = _NULL[: -len(b"null")] + _FILLS[self._fills - 1] + one[len(_NULL) :]
            last = made[-1] if made and self._alternates and one.startswith(_USER) else b""
            if last.startswith(_USER):
                made[-1] = _merged(last, one)
                continue
            made += [_NO_TEXT, one] if last.startswith(_TOOL) else [one]
        return b"[" + b",".join(made) + b"]"

    def _recorded_reply(self, record: Mapping[str, Any]) -> None:
        self.assistant(self._native(record), foreign=not self._is_ours(record))

    def _native(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        native = record.get("native")
        if isinstance(native, Mapping):
            message = native.get("message") if native.get("wire") == "chat" else native
            if isinstance(message, Mapping) and message.get("role") == "assistant":
                return message if self._is_ours(record) else _common(message)
        message = {"role": "assistant", "content": record.get("text") or None}
        if calls := [self.native_call(call["id"], call["name"], call["args"]) for call in record.get("calls") or ()]:
            message["tool_calls"] = calls
        return message

    def native_call(self, call_id: str, name: str, args: Any) -> dict[str, Any]:
        function = {"name": self._names.wire(name), "arguments": json.dumps(args, ensure_ascii=False)}
        return {"id": call_id, "type": "function", "function": function}

    def _fitted(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a native call with an id and a name that the server accepts."""
        named = {"function": self._names.accepted(call["function"])} if isinstance(call.get("function"), dict) else {}
        return {**call, "id": self._open[call["id"]], **named}

    def _add(self, message: Mapping[str, Any]) -> None:
        self._sent.append(encode(message))


def _final(sent: bytes) -> bytes:
    """Return a message of the model without Harmony's other channels in its text, and any other message unchanged."""
    message = json.loads(sent)
    if message["role"] != "assistant" or not isinstance(message.get("content"), str):
        return sent
    return encode({**message, "content": _MARK.sub("", message["content"].rpartition("<|message|>")[2]).strip() or "[no text]"})


def _signed(sent: bytes) -> bytes:
    """Return a message of the model whose first call, if it has one, has a signature of Gemini's."""
    message = json.loads(sent)
    if calls := message.get("tool_calls"):
        calls[0].setdefault("extra_content", {"google": {"thought_signature": NO_SIGNATURE}})
    return encode(message)


def _merged(first: bytes, second: bytes) -> bytes:
    """Return two messages of the user as one."""
    one, other = (json.loads(message)["content"] for message in (first, second))
    if isinstance(one, str) and isinstance(other, str):
        return encode({"role": "user", "content": f"{one}\n\n{other}"})
    parts = [[{"type": "text", "text": part}] if isinstance(part, str) else part for part in (one, other)]
    return encode({"role": "user", "content": [*parts[0], *parts[1]]})


def _common(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with only the fields that every server accepts: a server refuses another model's signatures."""
    common: dict[str, Any] = {"role": "assistant", "content": message.get("content")}
    if calls := message.get("tool_calls"):
        common["tool_calls"] = [{key: call[key] for key in ("id", "type", "function")} for call in calls]
    return common
