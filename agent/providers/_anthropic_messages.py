"""A conversation as Anthropic messages: the model's blocks unchanged and in order, all results of a turn in one user message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._history import NO_RESULT, History, encode
from agent.providers._images import NO_IMAGES, Pictured
from agent.providers._names import WireNames, wire_id
from toolcrib.contract.image import Image
from toolcrib.contract.namedtuple import NamedTuple

BREAKPOINT = {"type": "ephemeral"}
"""Marks the end of the part that the server should keep in its prompt cache."""
_LOOKBACK = 20
"""Number of blocks before a breakpoint that the server searches for cached content."""

_THINKING = frozenset({"thinking", "redacted_thinking"})
_OURS = frozenset({"text", "tool_use"})


class _Breakpoint(NamedTuple):
    """The end of a request's messages: the last message's place and blocks, its number of blocks, and the total number."""

    place: int
    blocks: Sequence[Mapping[str, Any]]
    end: int
    total: int


class AnthropicMessages(History):
    """The conversation in Anthropic's form. Each message is encoded once, except the last one, which has the breakpoint.

    If so much was added that the server would not find the last request's cached content, that request's breakpoint stays for
    one more request. With those of tools and system this makes four, the wire's maximum.
    """

    wire = "anthropic"

    def __init__(self, names: WireNames, model: str) -> None:
        super().__init__(names, model)
        self._system: list[str] = []
        self._closed: list[bytes] = []
        self._role = ""
        self._last: list[Mapping[str, Any]] = []  # blocks of the message that is still open
        self.ids: set[str] = set()  # ids of all calls so far
        self._count = 0  # number of all blocks so far
        self._marked: tuple[_Breakpoint | None, _Breakpoint | None] = (None, None)  # of the last request and of this one
        self._open: dict[str, str] = {}  # calls without a result: their own id and their id on the wire

    def system(self, text: str) -> None:
        """Set the system prompt at the beginning; later, add it as a user message, as the wire has no other way."""
        if self._role:
            self.user(text)
        else:
            self._system.append(text)

    def user(self, text: str, images: Sequence[Image] = ()) -> None:
        self._close_calls()
        if blocks := _content(text, images):
            self._add("user", blocks)

    def assistant(self, message: Mapping[str, Any], *, recorded: bool = False) -> None:
        """Add a native message. A ``recorded`` one may be another server's, so its call ids are sent in the wire's form."""
        self._close_calls()
        content = _acceptable(message.get("content") or [])
        if not content:
            return  # an empty reply: refused in a history
        used = [block for block in content if block.get("type") == "tool_use"]
        ids = {block["id"]: wire_id(block["id"]) if recorded else block["id"] for block in used}
        fitted = self._names.accepted
        changed = [fitted({**block, "id": ids[block["id"]]}) if block.get("type") == "tool_use" else block for block in content]
        self._add("assistant", changed)
        self._expect(ids)

    def results(self, results: Iterable[tuple[str, str, bool]], shown: Pictured = NO_IMAGES) -> None:
        """Add the results of the last message's calls, (call id, text for the model, is an error), as one message.

        An error result has only text: the wire refuses images in it (004-21).
        """
        texts = {call_id: (text, is_error) for call_id, text, is_error in results}
        blocks: list[dict[str, Any]] = []
        for call_id, on_wire in self._open.items():
            text, is_error = texts.get(call_id, (NO_RESULT, True))
            content = _content(text, shown[call_id].images) if call_id in shown and not is_error else text
            blocks.append({"type": "tool_result", "tool_use_id": on_wire, "content": content, "is_error": is_error})
        self._open = {}
        if blocks:
            self._add("user", blocks)

    def joined(self) -> bytes:
        """Return the fields ``"system"``, if there is one, and ``"messages"`` of a request as JSON text, with breakpoints."""
        self._close_calls()
        messages = list(self._closed)
        if self._last:
            last = self._last
            if self._role == "user":
                self._mark(messages)
                last = _with_breakpoint(last, len(last))
            messages.append(encode({"role": self._role, "content": last}))
        system = b""
        if self._system:
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in self._system]
            blocks[-1]["cache_control"] = BREAKPOINT
            system = b'"system":' + encode(blocks) + b","
        return system + b'"messages":[' + b",".join(messages) + b"]"

    # -- records -------------------------------------------------------------------------------------------------------

    def _recorded_reply(self, record: Mapping[str, Any]) -> None:
        native = record.get("native")
        message = native.get("message") if isinstance(native, Mapping) and native.get("wire") == "anthropic" else None
        if isinstance(message, Mapping) and isinstance(message.get("content"), list):
            if not self._is_ours(record):
                # The current model refuses another model's signatures, and blocks that only that model's server knows.
                message = {**message, "content": [block for block in message["content"] if block.get("type") in _OURS]}
            self.assistant(message, recorded=True)
            return
        content: list[dict[str, Any]] = [{"type": "text", "text": record.get("text") or ""}]
        content += [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": self._names.wire(call["name"]),
                "input": _object(self._names.wire_args(call["name"], call["args"])),
            }
            for call in record.get("calls") or ()
        ]
        self.assistant({"content": content}, recorded=True)

    def _recorded_results(self, record: Mapping[str, Any]) -> Iterable[tuple[str, str, bool]]:
        return ((one["call_id"], one["text"], bool(one.get("is_error"))) for one in record["results"])

    # -- breakpoints -------------------------------------------------------------------------------------------------

    def _mark(self, messages: list[bytes]) -> None:
        """Record this request's breakpoint; keep the last request's in ``messages`` too if it is too far from this one."""
        before, now = self._marked
        if now is None or now.total != self._count:  # a repeated request has the same one
            before, now = self._marked = now, _Breakpoint(len(self._closed), self._last, len(self._last), self._count)
        if before is not None and before.place < len(messages) and now.total - before.total >= _LOOKBACK:
            messages[before.place] = encode({"role": "user", "content": _with_breakpoint(before.blocks, before.end)})

    # -- messages ------------------------------------------------------------------------------------------------------

    def _expect(self, calls: dict[str, str]) -> None:
        self._open = calls
        self.ids.update(calls)

    def _add(self, role: str, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Add a message, or extend the last one if it has this role, because roles must alternate."""
        self._count += len(blocks)
        if role == self._role:
            self._last.extend(blocks)
            return
        if self._last:
            self._closed.append(encode({"role": self._role, "content": self._last}))
        self._role, self._last = role, list(blocks)


def _with_breakpoint(blocks: Sequence[Mapping[str, Any]], end: int) -> list[Mapping[str, Any]]:
    """Return the blocks, with the breakpoint on the one before ``end``."""
    return [*blocks[: end - 1], {**blocks[end - 1], "cache_control": BREAKPOINT}, *blocks[end:]]


def _content(text: str, images: Sequence[Image]) -> list[dict[str, Any]]:
    """Return the blocks, images before text; the wire refuses an empty text."""
    blocks: list[dict[str, Any]] = []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
        blocks.append({"type": "image", "source": source})
    return [*blocks, {"type": "text", "text": text}] if text.strip() else blocks


def _acceptable(content: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the blocks without blank texts, and without thinking at the end: servers refuse both."""
    blocks = [
        one for one in content if isinstance(one, dict) and (one.get("type") != "text" or str(one.get("text") or "").strip())
    ]
    while blocks and blocks[-1].get("type") in _THINKING:
        blocks.pop()
    return blocks


def _object(args: Any) -> Any:
    return args if isinstance(args, dict) else {}
