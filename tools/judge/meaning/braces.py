"""Brace expansion: ``{a,b}``, ``{1..5}``, ``{a..e..2}``, nested, with quoted text and expansions inside."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE
from tools.judge.shell.tree import Parameter, Part, Plain

MAX_WORDS = 512

_RANGE = Regex(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,9}))?")
_NAME = Regex(r"\w*", re.ASCII)
_TOKEN = Regex(r"[{},]|[^{},]+")

_Token = Part | str
_Words = list[list[Part]]


class TooMany(Exception):
    """Raised if there are more words than can be listed."""


def has_braces(parts: Sequence[Part]) -> bool:
    return any(type(part) is Plain and "{" in part.text for part in parts)


def expand(parts: Sequence[Part]) -> _Words:
    """Return the words that one word becomes. Raises TooMany."""
    tokens: list[_Token] = []
    for part in parts:
        if type(part) is Plain:
            tokens += _TOKEN.findall(part.text)
        else:
            tokens.append(part)
    return [_plain(word) for word in _Reader(tokens).sequence(0, len(tokens))]


def _plain(word: list[Part]) -> list[Part]:
    """Join neighbouring plain texts, so that a tilde or a pattern is seen as a whole."""
    out: list[Part] = []
    for part in word:
        last = out[-1] if out else None
        if type(part) is Plain and type(last) is Parameter and last.bare and last.name.isidentifier():
            # $x{a,b} is $xa $xb, but ${x}{a,b} is not.
            end = _NAME.match(part.text).end()  # type: ignore[union-attr]  # it matches any text
            out[-1] = Parameter(last.name + part.text[:end], bare=True)
            if part.text[end:]:
                out.append(Plain(part.text[end:]))
        elif type(part) is Plain and out and type(out[-1]) is Plain:
            out[-1] = Plain(out[-1].text + part.text)
        else:
            out.append(part)
    return out


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.closing = self._pairs()

    def _pairs(self) -> dict[int, int]:
        pairs: dict[int, int] = {}
        opened: list[int] = []
        for at, piece in enumerate(self.tokens):
            if piece == "{":
                opened.append(at)
            elif piece == "}" and opened:
                pairs[opened.pop()] = at
        return pairs

    def sequence(self, at: int, end: int) -> _Words:
        words: _Words = [[]]
        while at < end:
            piece = self.tokens[at]
            if piece == "{" and self.closing.get(at, end) < end:
                close = self.closing[at]
                inside = self.group(at + 1, close)
                if inside is not None:
                    words = [[*word, *piece] for word in words for piece in inside]
                    if len(words) > MAX_WORDS:
                        raise TooMany
                    at = close + 1
                    continue
            part: Part = Plain(piece) if isinstance(piece, str) else piece
            for word in words:
                word.append(part)
            at += 1
        return words

    def group(self, at: int, end: int) -> _Words | None:
        """Return the alternatives between two braces; None if they are not a group."""
        commas: list[int] = []
        scan = at
        while scan < end:
            piece = self.tokens[scan]
            if piece == "{" and self.closing.get(scan, end) < end:
                scan = self.closing[scan]
            elif piece == ",":
                commas.append(scan)
            scan += 1
        if not commas:
            return self.range(at, end)
        out: _Words = []
        for start, stop in zip([at, *(comma + 1 for comma in commas)], [*commas, end], strict=True):
            out += self.sequence(start, stop)
        return out

    def range(self, at: int, end: int) -> _Words | None:
        piece = self.tokens[at] if end - at == 1 else None
        found = _RANGE.fullmatch(piece) if isinstance(piece, str) else None
        if found is None:
            return None
        first, last, step = found[1], found[2], abs(int(found[3] or 1)) or 1
        if first.lstrip("-").isdigit() != last.lstrip("-").isdigit():
            return None
        numbers = first.lstrip("-").isdigit()
        low, high = (int(first), int(last)) if numbers else (ord(first), ord(last))
        if abs(high - low) // step >= MAX_WORDS:  # more than are listed: use both ends, and any number between them
            return [[Plain(first)], [Plain(last)], [Plain(HOLE)]]
        values = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
        padded = any(len(text.lstrip("-")) > 1 and text.lstrip("-")[0] == "0" for text in (first, last))
        width = max(len(first), len(last)) if numbers and padded else 0
        return [[Plain(_number(value, width) if numbers else chr(value))] for value in values]


def _number(value: int, width: int) -> str:
    return f"{value:0{width}d}" if width else str(value)
