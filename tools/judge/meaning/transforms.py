"""Results of ``${x#pattern}``, ``${x/pattern/text}``, ``${x^^}`` and similar expansions."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.judge.meaning import patterns
from tools.judge.meaning.value import HOLE, Value, unknown

_ESCAPED = {"\a": "a", "\b": "b", "\x1b": "E", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", "'": "'"}


def quoted(value: Value) -> Value:
    """Quote a known text as ``${x@Q}`` does: with ``$'...'`` if it has a character that can't be printed."""
    text = value.text
    if text.isprintable():
        return value._replace(text="'" + text.replace("'", "'\\''") + "'", shown="")
    if not text.isascii():  # which of its characters can be printed depends on the locale
        return unknown(value.taint)
    return value._replace(text="$'" + "".join(_escaped(char) for char in text) + "'", shown="")


def _escaped(char: str) -> str:
    if char in _ESCAPED:
        return "\\" + _ESCAPED[char]
    return char if char.isprintable() else f"\\{ord(char):03o}"


def _unsure_of(value: Value, pattern: Value) -> bool:
    return not value.known or not pattern.known or len(value.text) > 20_000


def removed(value: Value, op: str, pattern: Value) -> Value:
    if not pattern.text:
        return value
    if _unsure_of(value, pattern):
        return _partly_removed(value, op, pattern)
    text = value.text
    if op[0] == "#":
        found = patterns.for_text(pattern.text, text, lazy=op == "#")
        if found is None:
            return unknown(value.taint)
        match = found.match(text)
        return value._replace(text=text[match.end() :], shown="") if match is not None else value
    found = patterns.for_text(pattern.text, text, anywhere=True)
    if found is None or len(text) > 2_000:
        return unknown(value.taint)
    starts = range(len(text) + 1) if op == "%%" else range(len(text), -1, -1)
    for start in starts:
        if found.fullmatch(text, start):
            return value._replace(text=text[:start], shown="")
    return value


def _partly_removed(value: Value, op: str, pattern: Value) -> Value:
    """Return the result for a text or a pattern with unknown parts.

    A literal pattern is removed from a known end. For ``${x%/*}`` the known beginning stays, unless it ends with a slash. Any
    other result is unknown.
    """
    text = value.text
    fixed = patterns.literal(pattern.text) if pattern.known else None
    if op[0] == "%" and fixed is not None and text.endswith(fixed):
        return value._replace(text=text[: len(text) - len(fixed)], shown="")
    if op[0] == "#" and fixed is not None and text.startswith(fixed):
        return value._replace(text=text[len(fixed) :], shown="")
    if op == "%" and pattern.text.startswith("/") and HOLE in text:
        return Value(text.partition(HOLE)[0] + HOLE if text.partition(HOLE)[0].endswith("/") is False else HOLE, value.taint)
    return unknown(value.taint | pattern.taint)


def replaced(value: Value, op: str, pattern: Value, by: Value) -> Value:
    taint = value.taint | by.taint
    if _unsure_of(value, pattern):
        return unknown(taint)
    if not pattern.text:
        return value
    found = patterns.for_text(pattern.text, value.text, anywhere=op != "/#")
    if found is None:
        return unknown(taint)
    text, new = value.text, by.text.replace(r"\&", "\0")
    if not text:
        match = found.match(text)
        text = _put(new, match) if match is not None else text
    elif op == "/#":
        match = found.match(text)
        text = _put(new, match) + text[match.end() :] if match is not None else text
    elif op == "/%":
        for start in range(len(text) + 1):
            if tail := found.fullmatch(text, start):
                text = text[:start] + _put(new, tail)
                break
    else:
        text = found.sub(lambda match: _put(new, match) if match[0] else "", text, count=0 if op == "//" else 1)
    return Value(text, taint)


def _put(new: str, match: re.Match[str]) -> str:
    return new.replace("&", match[0]).replace("\0", "&")


def cased(value: Value, op: str, pattern: Value) -> Value:
    if not value.known:
        return unknown(value.taint)
    change: Callable[[str], str] = str.upper if op[0] == "^" else str.lower
    found = patterns.regex(pattern.text) if pattern.text else None
    if pattern.text and (found is None or not pattern.known):
        return unknown(value.taint)
    text = value.text
    count = len(text) if len(op) == 2 else 1
    changed = "".join(change(char) if found is None or found.fullmatch(char) else char for char in text[:count])
    return value._replace(text=changed + text[count:], shown="")
