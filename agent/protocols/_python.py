"""Calls in Python syntax: ``[search(query="x", limit=3), now()]``. Parsed, never evaluated."""

from __future__ import annotations

import json
import re

from agent.protocols._made import faulty
from agent.protocols.repair import read_json
from toolcrib.contract.types import Json, ToolCall

_NAME = r"[A-Za-z_][\w.-]*"
BEGINS = re.compile(rf"\s*\[?\s*{_NAME}\s*\(")
_CALL = re.compile(rf"\s*({_NAME})\s*\(\s*")
_AFTER = re.compile(r"\s*(?:[,;\n]\s*)+|\s*\Z")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=\s*")
_TOKEN = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[\[\](){},:]|[^\s"'\[\](){},:]+|\s+""", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\n|[\\'\"ntrbf])")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_PLUS = re.compile(r"\+[\d.]")
_LEADING_ZEROS = re.compile(r"(-?)0+(\d+)")


def read_python(body: str) -> list[ToolCall]:
    """Return the calls; a single faulty one if the text is not a list of calls with keyword arguments."""
    text = body.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    calls: list[ToolCall] = []
    at = 0
    while at < len(text):
        match = _CALL.match(text, at)
        if match is None:
            return [_fault("", text)]
        try:
            args, at = _arguments(text, match.end())
        except ValueError:
            return [_fault(match[1], text)]
        calls.append(ToolCall(ToolCall.new_id(), match[1], args))
        after = _AFTER.match(text, at)
        if after is None:
            return [_fault(match[1], text)]  # part of an expression
        at = after.end()
    return calls or [_fault("", body)]


def _fault(name: str, raw: str) -> ToolCall:
    return faulty(name, raw, 'it can\'t be read as calls with keyword arguments, such as [search(query="x", limit=3)]')


def _arguments(text: str, at: int) -> tuple[dict[str, Json], int]:
    """Return the arguments, and the end of the call. Raises ValueError."""
    args: dict[str, Json] = {}
    while text[at : at + 1] != ")":
        match = _KEYWORD.match(text, at)
        if match is None or match[1] in args:
            raise ValueError("no keyword argument")
        args[match[1]], at = _value(text, match.end())
        if text[at : at + 1] == ",":
            at += 1
            while text[at : at + 1].isspace():
                at += 1
    return args, at + 1


def _value(text: str, at: int) -> tuple[Json, int]:
    """Return the value, and the position of the comma or bracket after it. Raises ValueError."""
    pieces: list[str] = []
    depth = 0
    while match := _TOKEN.match(text, at):
        mark = match[0]
        if depth == 0 and mark in (",", ")"):
            break
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        pieces.append(_piece(mark))
        at = match.end()
    if match is None or depth:
        raise ValueError("the value has no end")
    return read_json("".join(pieces)), at


def _piece(mark: str) -> str:
    if mark[0] in "\"'":
        return json.dumps(_ESCAPE.sub(_unescaped, mark[1:-1]), ensure_ascii=False)
    if zeros := _LEADING_ZEROS.fullmatch(mark):
        return zeros[1] + zeros[2]
    mark = mark[1:] if _PLUS.match(mark) else mark
    return {"True": "true", "False": "false", "None": "null"}.get(mark, mark)


def _unescaped(match: re.Match[str]) -> str:
    found = match[1]
    if found[0] in "ux" and len(found) > 1:
        return chr(int(found[1:], 16))
    return _SIMPLE.get(found, found)
