"""sed: scripts that run commands (``e``, ``s///e``) or write files (``w``, ``s///w``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import Tell
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import HOLE, Taint, Value

_ADDRESS = Regex(r"\s*(?:\d+|\$|[+~]\d+|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1).)*\1[IM]*)", re.DOTALL)


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell = Tell(sink)
    source, taint = code.text.text, code.text.taint
    at = 0
    while at < len(source):
        following = _command(tell, source, at, taint)
        if following is None:
            return HOLE in source
        at = following
    return True


def _command(tell: Tell, source: str, at: int, taint: Taint) -> int | None:
    """Read one command; return the start of the next, None if it can't be read."""
    at = _after_addresses(source, at)
    if at >= len(source):
        return at
    letter = source[at]
    if letter in "/\\":
        return None
    at += 1
    if letter in "sy":
        return _substitution(tell, source, at, taint, letter)
    end = source.find("\n", at)
    end = len(source) if end < 0 else end
    rest = source[at:end].strip()
    if letter == "e":
        tell.shell(Value(rest, taint) if rest else Value(HOLE, Taint.LOCAL | Taint.UNKNOWN))
        return end
    if letter in "wW":
        _write(tell, rest, taint)
        return end
    if letter in "rRaic#:btT" or letter in "bt":
        if letter in "aic":
            while end < len(source) and source[end - 1 : end] == "\\":
                following = source.find("\n", end + 1)
                end = len(source) if following < 0 else following
            return end
        return end if letter in "rR#aic" else at + len(re.match(r"[^;\n}]*", source[at:end])[0])  # type: ignore[index] # it always matches
    return at + len(re.match(r"[ \t]*\d*", source[at:end])[0])  # type: ignore[index] # it always matches


def _after_addresses(source: str, at: int) -> int:
    while at < len(source) and source[at] in " \t\n;{}":
        at += 1
    for _ in range(2):
        if (match := _ADDRESS.match(source, at)) is not None:
            at = match.end()
        while at < len(source) and source[at] in " \t,!":
            at += 1
    return at


def _substitution(tell: Tell, source: str, at: int, taint: Taint, letter: str) -> int | None:
    if at >= len(source):
        return None
    mark, last = source[at], source.rfind("]")
    parts: list[str] = []
    at += 1
    for _ in range(2):
        start = at
        inside = False
        while at < len(source) and (source[at] != mark or inside):
            if source[at] == "\\":
                at += 1
            elif source[at] == "[" and not parts and letter == "s":
                inside = at < last
            elif source[at] == "]":
                inside = False
            at += 1
        if at >= len(source):
            return None
        parts.append(source[start:at])
        at += 1
    while at < len(source) and letter == "s":
        flag = source[at]
        if flag == "w":
            end = source.find("\n", at)
            end = len(source) if end < 0 else end
            _write(tell, source[at + 1 : end].strip(), taint)
            return end
        if flag == "e":
            replaced = parts[1]
            known = not re.search(r"(?<!\\)&|\\\d", replaced) and parts[0] in (".*", "^.*$", "^.*", ".*$")
            tell.shell(
                Value(
                    replaced if known else f"{HOLE}{replaced}{HOLE}",
                    taint | (Taint.NONE if known else Taint.UNKNOWN | Taint.LOCAL),
                )
            )
        elif not (flag.isdigit() or flag in "gpiImM"):
            break
        at += 1
    return at


def _write(tell: Tell, path: str, taint: Taint) -> None:
    if path and path not in ("/dev/stdout", "/dev/stderr"):
        tell.write(Value(path, taint))
