"""Arguments that arrive in pieces, each with the JSON path of its value (X-7)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from agent.providers._events import whole
from toolcrib.contract.regex import Regex

Path: TypeAlias = tuple[str | int, ...]

_STEP = Regex(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPES = Regex(r"""\\(.)|\"""", re.DOTALL)
_KINDS = ("stringValue", "numberValue", "boolValue", "nullValue")
_MAX_DEPTH = 100
_ABSENT = object()


class BadPiece(Exception):
    """A piece that does not fit; the text is the reason."""


class PartialArgs:
    """Assembles arguments: ``feed`` it the pieces; ``value`` is the result, and ``feed`` and ``close`` return its JSON text.

    The cost is linear in the pieces. If a server returns to a value that it had left, no more text is returned: then only
    ``value`` is right.
    """

    def __init__(self, start: Mapping[str, Any] | None = None) -> None:
        self._value: dict[str, Any] = dict(start or {})
        self._strings: dict[Path, list[str]] = {}
        self._at: Path = ()  # path of the last written value
        self._in_string = False
        self._open: list[str] = []  # the pieces of the current string; its path is in _open_at
        self._open_at: Any = _ABSENT
        self._in_order = not self._value
        self._whole = True

    @property
    def whole(self) -> bool:
        """False while a string is unfinished."""
        return self._whole

    @property
    def value(self) -> dict[str, Any]:
        for path, pieces in self._strings.items():
            holder: Any = self._value
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = whole(pieces)
        return self._value

    def more(self, place: Any, text: Any, goes_on: Any) -> str | None:
        """Do what ``feed`` does for a piece that only continues the current string; for others, do nothing and return None."""
        if place != self._open_at or type(text) is not str or not text or not goes_on:
            return None
        self._open.append(text)
        return _escaped(text)

    def feed(self, piece: Mapping[str, Any]) -> str:
        """Return the JSON text that the piece adds. Raises BadPiece."""
        text, place = piece.get("stringValue"), piece.get("jsonPath")
        if place == self._open_at and type(text) is str:
            self._open.append(text)  # the usual case: more of the current string
            if piece.get("willContinue"):
                return _escaped(text)
            self._open_at, self._in_string, self._whole = _ABSENT, False, True
            return encode_basestring(text)[1:]
        self._open_at = _ABSENT
        path = _parsed(place)
        goes_on = bool(piece.get("willContinue"))
        kind = next((kind for kind in _KINDS if kind in piece), "")
        if not kind:
            return ""
        value = None if kind == "nullValue" else piece[kind]
        self._whole = not (goes_on and kind == "stringValue")
        if isinstance(value, str):
            pieces = self._strings.get(path)
            if pieces is not None:
                pieces.append(value)
                return self._more(path, value, goes_on)
        known = self._place(path, value)
        self._strings.pop(path, None)
        if isinstance(value, str):
            self._strings[path] = [value]
        written = self._write(path, known, value, goes_on)
        if self._in_order and self._in_string and not self._whole:
            self._open, self._open_at = self._strings[path], place
        return written

    def close(self) -> str:
        """Return the end of the JSON text."""
        self._open_at = _ABSENT
        if not self._in_order:
            return ""
        self._in_order = False
        return ('"' if self._in_string else "") + (self._closing(0) + "}" if self._at else "{}")

    def _place(self, path: Path, value: Any) -> int:
        """Put the value at its path; return how many steps of the path existed already."""
        holder: Any = self._value
        known = 0
        for place, key in enumerate(path):
            inner = _get(holder, key)
            known += inner is not _ABSENT
            if place == len(path) - 1:
                if isinstance(inner, (dict, list)):
                    raise BadPiece(f"its arguments use one value in two ways, at {key!r}")
                inner = value
            elif inner is _ABSENT:
                inner = [] if isinstance(path[place + 1], int) else {}
            else:
                holder = inner
                continue
            if isinstance(key, int) and key == len(holder):
                holder.append(inner)
            else:
                holder[key] = inner
            holder = inner
        return known

    # -- the text ------------------------------------------------------------------------------------------------

    def _more(self, path: Path, text: str, goes_on: bool) -> str:
        if not self._in_order or path != self._at or not self._in_string:
            self._in_order = False
            return ""
        self._in_string = goes_on
        return _escaped(text) + ("" if goes_on else '"')

    def _write(self, path: Path, known: int, value: Any, goes_on: bool) -> str:
        last = self._at
        shared = 0
        while shared < min(len(path), len(last)) - 1 and path[shared] == last[shared]:
            shared += 1
        if not self._in_order or known != shared:
            self._in_order = False
            return ""
        out = ['"'] if self._in_string else []
        out.append(f"{self._closing(shared)}," if last else "{")
        for place in range(shared, len(path)):
            key = path[place]
            if place > shared:
                out.append("[" if isinstance(key, int) else "{")
            if isinstance(key, str):
                out.append(encode_basestring(key) + ":")
        self._at, self._in_string = path, isinstance(value, str) and goes_on
        text = json.dumps(value, ensure_ascii=False)
        out.append(text[:-1] if self._in_string else text)
        return "".join(out)

    def _closing(self, shared: int) -> str:
        """Return the brackets that close the values below ``shared`` steps."""
        return "".join("]" if isinstance(key, int) else "}" for key in reversed(self._at[shared + 1 :]))


def _get(holder: Any, key: str | int) -> Any:
    if isinstance(key, int) and isinstance(holder, list):
        if key > len(holder):
            raise BadPiece(f"its arguments skip an index of a list: {key} comes after {len(holder)} values")
        return holder[key] if key < len(holder) else _ABSENT
    if isinstance(key, str) and isinstance(holder, dict):
        return holder.get(key, _ABSENT)
    raise BadPiece(f"its arguments use one value in two ways, at {key!r}")


def _parsed(path: Any) -> Path:
    """Return the steps of a JSON path: ("a", 0, "b c") for "$.a[0]['b c']"."""
    return _steps(path if isinstance(path, str) else "")


@lru_cache(maxsize=64)  # a long text arrives in thousands of pieces with the same path
def _steps(text: str) -> Path:
    steps: list[str | int] = []
    at = 1
    while text[:1] == "$" and at < len(text) and (found := _STEP.match(text, at)) and len(steps) < _MAX_DEPTH:
        at = found.end()
        name, index, single, double = found.groups()
        if single is not None:
            double = _ESCAPES.sub(_as_double, single)
        steps.append(int(index) if index is not None else name if double is None else _unquoted(double))
    if not steps or at != len(text) or isinstance(steps[0], int):
        raise BadPiece(f"its arguments have a piece for {text[:200]!r}, which is not a path in them")
    return tuple(steps)


def _as_double(found: re.Match[str]) -> str:
    """Return a character of a single-quoted text in the form for a double-quoted one."""
    if found[0] == '"':
        return '\\"'
    return "'" if found[1] == "'" else found[0]


def _unquoted(text: str) -> str:
    """Return the inside of a double-quoted text without its escapes; unchanged if it is invalid."""
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _escaped(text: str) -> str:
    """Return text escaped for the inside of a JSON string: most pieces need no change."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return encode_basestring(text)[1:-1]
