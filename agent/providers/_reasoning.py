"""The reasoning of Chat Completions replies: joins its streamed objects, and decides which of its fields a server gets back."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Any, TypeAlias

from agent.providers._events import whole
from toolcrib.contract.regex import Regex

FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
DEMANDED = "reasoning_content"
"""The field that some servers require in each of the model's messages."""

_REFUSING = ("cerebras.ai", "groq.com", "mistral.ai")
"""Domains whose servers refuse a request that contains reasoning, even their own."""

_NAMED = {
    "reasoning_content": Regex(r"\breasoning[_ ]content\b"),
    "reasoning": Regex(r"[\"'`.\[]reasoning(?![\w-]|\.\w| effort)"),  # in prose the word does not name a field
    "reasoning_details": Regex(r"\breasoning_details\b"),
}
_REFUSES = Regex(
    r"unsupported|not (be )?(supported|permitted|allowed|accepted|expected|recogni[sz]ed)|extra_forbidden|extra (input|field)"
    r"|additional propert|un(known|expected|recogni[sz]ed)|cannot find|no such|does not (accept|support|exist)|\bremove\b"
)
_UNEXPLAINED = Regex(r"\(400: (provider returned error|bad request|error)[.:]?( ?\{\})?\)")
"""A gateway's refusal without a reason, as for encrypted reasoning of another of its providers."""
_EITHER = Regex(r"both content and (?:thinking|reasoning)")
"""The refusal of gpt-oss's chat template: a message with calls may have text or reasoning."""
_DEMANDS = Regex(r"pass(ed)? back|sent back|missing|required|must (contain|include|have|be (present|included|provided|sent|set))")

_Detail: TypeAlias = tuple[dict[str, Any], dict[str, list[str]]]
"""The fields of an object, and the parts of its texts, which are joined at the end."""

_TEXTS = ("text", "summary", "data")
_SEARCHED = 16
"""A piece may continue one of this many latest objects of its index."""

_refused: dict[str, set[str]] = {}
"""The fields that each server, by host and port, refused in this process."""


class ReasoningBack:
    """The fields of reasoning that go back to one server: all that a reply carried, until the server refuses one."""

    def __init__(self, server: str) -> None:
        """Begin with no field omitted, or with all omitted if the server is known to refuse them. ``server``: host and port."""
        host = server.partition(":")[0].lower()
        is_refusing = any(host == domain or host.endswith(f".{domain}") for domain in _REFUSING)
        self._server = server
        self._omitted = set(FIELDS) if is_refusing else set()
        self.is_demanded = False
        """True if the server requires ``DEMANDED`` in each message of the model."""
        self._may_demand = True  # only once, so that a server that requires and refuses it is not retried forever

    def sends(self, field: str) -> bool:
        if field == DEMANDED and self.is_demanded:
            return True
        return field not in self._omitted and field not in _refused.get(self._server, ())

    def adapt(self, said: str, replies: Collection[Collection[str]]) -> bool:
        """Adapt to a refusal that names a field; return False if the next request would be the same.

        ``said`` is the refusal's text in lower case.

        ``replies``: the fields that each message of the model carries. A server can't refuse a field that was not sent. If only
        some messages had ``DEMANDED``, the server more likely requires it in all of them, whatever the language of the refusal.
        A field that the server refuses is remembered for all sessions. If it refuses only the field's value, such as a
        signature, this session alone omits the field. It also omits ``reasoning_details`` after a refusal without a reason.
        """
        if replies and _EITHER.search(said):
            fresh = {field for field in FIELDS if self.sends(field) and any(field in one for one in replies)}
            self._omitted |= fresh
            return bool(fresh)
        named = {field for field in FIELDS if _NAMED[field].search(said)} if replies else set()
        if replies and _UNEXPLAINED.search(said):
            named.add("reasoning_details")
        refuses, demands = _REFUSES.search(said) is not None, _DEMANDS.search(said) is not None
        sent = {DEMANDED} if self.is_demanded else set()
        fresh = {field for field in named if field in sent.union(*replies) and self.sends(field)}
        is_partial = not self.is_demanded and any(DEMANDED not in one for one in replies)
        if DEMANDED in named and (not fresh or (not refuses and (demands or is_partial))):
            first, self._may_demand = self._may_demand, False
            self.is_demanded |= first
            if first or demands or not fresh:
                return first
        self._omitted |= fresh
        if DEMANDED in fresh:
            self.is_demanded = False
        if refuses and fresh:
            _refused.setdefault(self._server, set()).update(fresh)
        return bool(fresh)


class DetailReader:
    """Joins ``reasoning_details``: the pieces of an object have its index. An object without an index is complete."""

    def __init__(self) -> None:
        self._found: list[Any] = []
        self._open: dict[int, list[_Detail]] = {}
        self.size = 0
        """Number of characters of text that have arrived, plus one for each piece."""

    def feed(self, pieces: Any) -> None:
        for piece in pieces if isinstance(pieces, list) else [pieces]:
            self.size += 1
            if not isinstance(piece, dict) or type(piece.get("index")) is not int:
                self._found.append(piece)
                continue
            fields, texts = self._object_of(piece)
            for key, value in piece.items():
                if key in _TEXTS and isinstance(value, str):
                    texts.setdefault(key, []).append(value)
                    self.size += len(value)
                elif value not in (None, "") or key not in fields:
                    fields[key] = value

    def finish(self) -> list[Any]:
        """Return the whole objects, in the order of their first pieces."""
        for fields, texts in chain.from_iterable(self._open.values()):
            for key, parts in texts.items():
                is_repeated = key == "data" and len(set(parts)) == 1
                fields[key] = parts[0] if is_repeated else whole(parts)
        return self._found

    def _object_of(self, piece: dict[str, Any]) -> _Detail:
        """Return the latest object of the piece's index whose type and id do not differ from the piece's, or a new object."""
        opened = self._open.setdefault(piece["index"], [])
        for detail in reversed(opened[-_SEARCHED:]):
            if all(not detail[0].get(key) or not piece.get(key) or detail[0][key] == piece[key] for key in ("type", "id")):
                return detail
        begun: _Detail = ({}, {})
        self._found.append(begun[0])
        opened.append(begun)
        return begun
