"""Reads Gemma's calls, ``call:name{key:<|"|>text<|"|>,count:3}``, also if a string lacks its opening mark."""

from __future__ import annotations

import json
import re
from typing import Any

from agent.protocols._made import ANY, Definitions, between, faulty, made, typed
from agent.protocols.repair import DECODER, read_json
from toolcrib.contract.schema_view import SchemaView
from toolcrib.contract.types import Json, ToolCall

_COLON = re.compile(r"(?:call)?:\s*([A-Za-z_][\w.:/-]*)\s*(?=\{)")
_QUOTE = re.compile(r'<\|"\|>|<escape>')
_BRACES = re.compile(
    r"""<\|"\|>.*?<\|"\|>|<escape>.*?<escape>|"[^"\\]*(?:\\.[^"\\]*)*"|(?<=[:,\[{ ])'[^'\\]*(?:\\.[^'\\]*)*'|[{}]""", re.DOTALL
)
_OPEN_STRING = "a string has no end"
_KEY = re.compile(r"""\s*(?:<\|"\|>|<escape>|["'])?(?P<key>[A-Za-z_][\w.-]*)(?:<\|"\|>|<escape>|["'])?\s*[:=]\s*""")
_LITERAL = re.compile(r"(?P<word>true|false|null|True|False|None|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|'[^'\\<]*')(?=\s*[,}\]])")
_ENDS = re.compile(r"\s*[,}\]]")
_NEXT_KEY = re.compile(r",\s*([A-Za-z_][\w.-]*)\s*[:=]")
_MOST_DEPTH = 50


def read_colons(text: str, known: Definitions) -> list[ToolCall]:
    """Return the calls of ``call:name{...}``, one or several; none for any other text."""
    calls: list[ToolCall] = []
    at = 0
    while match := _COLON.match(text, at):
        end = _closing(text, match.end())
        if end < 0:
            return [*calls, _read(match[1], text[match.end() :], text, known)] if text.endswith("}") else []
        calls.append(_read(match[1], text[match.end() : end], text[match.start() : end], known))
        at = between(text, end)
    return calls if at == len(text) else []


def _closing(text: str, at: int) -> int:
    """Return the offset after the brace that closes the one at ``at``; -1 if none does."""
    depth = 0
    for match in _BRACES.finditer(text, at):
        mark = match[0]
        depth += (mark == "{") - (mark == "}")
        if not depth:
            return match.end()
    return -1


def _read(name: str, braces: str, raw: str, known: Definitions) -> ToolCall:
    """Return the call; its strings may be between ``<|"|>`` (000-22 to 000-25)."""
    parts = _QUOTE.split(braces)
    fault = _OPEN_STRING
    if len(parts) % 2:
        text = "".join(json.dumps(part) if place % 2 else part for place, part in enumerate(parts))
        try:
            return made(name, read_json(text), raw)
        except ValueError as error:
            fault = f"the arguments are not valid JSON ({error}); send one JSON object"
    try:
        args, end = _Lenient(braces, known.view(name)).object(0, known.view(name), 0)
    except (ValueError, RecursionError):
        return faulty(name, raw, fault)
    return faulty(name, raw, fault) if braces[end:].strip() else made(name, args, raw)


class _Lenient:
    """Reader of arguments in braces that lack some marks.

    Its methods return a value and the offset after it, or raise ValueError.

    A string may lack its opening mark if its end is clear; a comma may be missing after a string; ``=`` may follow a key.
    """

    def __init__(self, text: str, schema: SchemaView) -> None:
        self._text = text
        self._keys = set(schema.names) if "properties" in schema.fields else None

    def object(self, at: int, schema: SchemaView, depth: int) -> tuple[dict[str, Json], int]:
        text, found = self._text, dict[str, Json]()
        at += 1
        while not (end := re.compile(r"\s*\}").match(text, at)):
            key = _KEY.match(text, at)
            if key is None or key["key"] in found or depth > _MOST_DEPTH:
                raise ValueError("no key")
            found[key["key"]], at = self._value(key.end(), schema.property(key["key"]) or ANY, depth + 1)
            at = self._behind(at)
        return found, end.end()

    def _list(self, at: int, schema: SchemaView, depth: int) -> tuple[list[Json], int]:
        found: list[Json] = []
        at += 1
        while not (end := re.compile(r"\s*\]").match(self._text, at)):
            if depth > _MOST_DEPTH:
                raise ValueError("too deep")
            start = at + len(self._text[at:]) - len(self._text[at:].lstrip())
            value, at = self._value(start, schema.item(len(found)) or ANY, depth + 1)
            found.append(value)
            at = self._behind(at)
        return found, end.end()

    def _behind(self, at: int) -> int:
        """Return the offset after a value's comma. Only the last value, and a string before another key, may lack it."""
        if comma := re.compile(r"\s*,").match(self._text, at):
            return comma.end()
        if _ENDS.match(self._text, at) or (self._text[:at].endswith(('<|"|>', "<escape>")) and _KEY.match(self._text, at)):
            return at
        raise ValueError("no comma")

    def _value(self, at: int, schema: SchemaView, depth: int) -> tuple[Any, int]:
        text = self._text
        if text.startswith("{", at):
            return self.object(at, schema, depth)
        if text.startswith("[", at):
            return self._list(at, schema, depth)
        if text.startswith('"', at):
            return DECODER.raw_decode(text, at)
        mark = _QUOTE.search(text, at)
        if mark is not None and mark.start() == at:
            end = text.find(mark[0], mark.end())
            if end < 0:
                raise ValueError(_OPEN_STRING)
            return text[mark.end() : end], end + len(mark[0])
        if literal := _LITERAL.match(text, at):
            return read_json(literal["word"]), literal.end()
        if mark is None or not _ENDS.match(text, mark.end()):
            raise ValueError("no end of a string")
        value = text[at : mark.start()]
        if not value.strip() or any(self._keys is None or key in self._keys for key in _NEXT_KEY.findall(value)):
            raise ValueError("it may hold another argument")
        return typed(value, schema), mark.end()
