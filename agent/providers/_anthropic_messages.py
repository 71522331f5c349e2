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
"""Marks the end of what the server is to keep in its prompt cache."""
_LOOKBACK = 20
"""Blocks before a breakpoint among which the server looks for what it has kept."""

_THINKING = frozenset({"thinking", "redacted_thinking"})
_OURS = frozenset({"text", "tool_use"})


class _Breakpoint(NamedTuple):
    """The end of a request's messages: the message's place and blocks, how many of these there were, and how many in all."""

    place: int
    blocks: Sequence[Mapping[str, Any]]
    end: int
    total: int


class AnthropicMessages(History):
    """The conversation in Anthropic's form. Each message is encoded once; only the last, which has the breakpoint, each time.

    Where so much was added at once that the server would not find what it kept of the last request, that one's breakpoint stays
    for a request. With those of tools and system these are four, the most that the wire takes.
    """

    wire = "anthropic"

    def __init__(self, names: WireNames, model: str) -> None:
        super().__init__(names, model)
        self._system: list[str] = []
        self._closed: list[bytes] = []
        self._role = ""
        self._last: list[Mapping[str, Any]] = []  # blocks of the message that is still open
        self.ids: set[str] = set()  # of all calls so far
        self._count = 0  # of all blocks so far
        self._marked: tuple[_Breakpoint | None, _Breakpoint | None] = (None, None)  # the last request's, and this one's
        self._open: dict[str, str] = {}  # calls without a result: their own id, and what the wire calls them

    def system(self, text: str) -> None:
        """Set the system prompt at the beginning; later, which the wire does not know, add it as something said."""
        if self._role:
            self.user(text)
        else:
            self._system.append(text)

    def user(self, text: str, images: Sequence[Image] = ()) -> None:
        self._close_calls()
        if blocks := _content(text, images):
            self._add("user", blocks)

    def assistant(self, message: Mapping[str, Any]) -> None:
        """Take the native message."""
        self._close_calls()
        content = _acceptable(message.get("content") or [])
        if not content:
            return  # an empty reply: refused in a history
        self._add("assistant", content)
        self._expect({block["id"]: block["id"] for block in content if block.get("type") == "tool_use"})

    def results(self, results: Iterable[tuple[str, str, bool]], shown: Pictured = NO_IMAGES) -> None:
        """(call id, what the model reads, whether it is an error) of the last message's calls; one block each, in one message.

        An error is text alone: the wire refuses more (004-21).
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
        """``"messages":[...]`` and, where there is one, ``"system":[...],`` before it: fields of a request, with breakpoints."""
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
                # One model's signatures, and what only its server knows, are refused by another.
                message = {**message, "content": [block for block in message["content"] if block.get("type") in _OURS]}
            self.assistant(message)
            return
        content: list[dict[str, Any]] = [{"type": "text", "text": record.get("text") or ""}]
        ids: dict[str, str] = {}
        for call in record.get("calls") or ():
            ids[call["id"]] = on_wire = wire_id(call["id"])
            content.append(
                {"type": "tool_use", "id": on_wire, "name": self._names.wire(call["name"]), "input": _object(call["args"])}
            )
        self.assistant({"content": content})
        self._expect(ids)

    def _recorded_results(self, record: Mapping[str, Any]) -> Iterable[tuple[str, str, bool]]:
        return ((one["call_id"], one["text"], bool(one.get("is_error"))) for one in record["results"])

    # -- breakpoints -------------------------------------------------------------------------------------------------

    def _mark(self, messages: list[bytes]) -> None:
        """Note this request's breakpoint; put the last request's into ``messages`` too, where it is too far from this one."""
        before, now = self._marked
        if now is None or now.total != self._count:  # a request that is sent again has the same
            before, now = self._marked = now, _Breakpoint(len(self._closed), self._last, len(self._last), self._count)
        if before is not None and before.place < len(messages) and now.total - before.total >= _LOOKBACK:
            messages[before.place] = encode({"role": "user", "content": _with_breakpoint(before.blocks, before.end)})

    # -- messages ------------------------------------------------------------------------------------------------------

    def _expect(self, calls: dict[str, str]) -> None:
        self._open = calls
        self.ids.update(calls)

    def _add(self, role: str, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Add a message, or extend the last one: roles alternate."""
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
    """Blocks, what is seen before what is said of it; an empty text is refused."""
    blocks: list[dict[str, Any]] = []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
        blocks.append({"type": "image", "source": source})
    return [*blocks, {"type": "text", "text": text}] if text.strip() else blocks


def _acceptable(content: Sequence[Any]) -> list[dict[str, Any]]:
    """Drop content that no server takes back: empty or blank text, and at the end thinking that led to nothing."""
    blocks = [block for block in content if isinstance(block, dict) and (block.get("type") != "text" or block.get("text"))]
    while blocks and blocks[-1].get("type") in _THINKING:
        blocks.pop()
    said = any(block.get("type") != "text" or str(block["text"]).strip() for block in blocks)
    return blocks if said else []


def _object(args: Any) -> Any:
    return args if isinstance(args, dict) else {}
