"""Markdown code and quotations in a reply: a mark that stands in them is only spoken of."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LOOKED_AT = 40
"""Characters of a line that decide whether a code block begins or ends with it."""
_QUOTES = frozenset("`\"'\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u300c\u300d")

FENCED = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_SPAN = re.compile(r"(`+)[^`\n]+\1")
_BLOCK_QUOTE = re.compile(r"^[ \t]*>(?!>>)[^\n]*$", re.MULTILINE)


class CodeState:
    """Follows text as it comes: code blocks, and code spans and block quotes of the current line."""

    def __init__(self) -> None:
        self._start = ""
        self._ticks = 0
        self._fence = ""
        self._quoted: tuple[str, ...] | None = None  # the marks that end a quotation of call text; none: the line does
        self._unseen = 0  # characters of the quoted mark that are still to come
        self.last = "\n"
        """The character before what comes next; "" after a call."""

    def feed(self, text: str) -> None:
        if not text:
            return
        if self._unseen:
            self._look_behind_mark(text)
        self.last = text[-1]
        if "\n" not in text:
            self._add(text)
            return
        first, *lines = text.split("\n")
        self._add(first)
        for line in lines:
            self._end_line()
            self._add(line)

    def interrupt(self) -> None:
        """Take note of a call: what comes after it begins a line."""
        self._start, self._ticks, self.last = "", 0, ""

    def passes(self, mark: str, ends: tuple[str, ...]) -> bool:
        """Return whether ``mark``, which comes next, is only spoken of. ``ends`` are the marks that end a call it begins."""
        if self._quoted is not None:
            if mark in self._quoted:
                self._quoted = None
            return True
        if not self.spoken:
            return False
        if self.last in _QUOTES and self.last != "`":
            self._quoted, self._unseen = ends, len(mark) + 1
        return True

    def _look_behind_mark(self, text: str) -> None:
        """End the quotation where it is of the mark alone."""
        if len(text) >= self._unseen:
            if text[self._unseen - 1] in _QUOTES:
                self._quoted = None
            self._unseen = 0
        else:
            self._unseen -= len(text)

    @property
    def begins_line(self) -> bool:
        return not self._start.strip()

    @property
    def spoken(self) -> bool:
        """Return whether a mark that stands here is quoted, not meant."""
        if self._fence or self._ticks % 2 or self.last in _QUOTES:
            return True
        start = self._start.lstrip()
        return start.startswith(("```", "~~~")) or (start[:1] == ">" and not start.startswith(">>>"))

    def _add(self, piece: str) -> None:
        if "`" in piece:
            self._ticks += piece.count("`")
        if len(self._start) < _LOOKED_AT:
            self._start += piece[: _LOOKED_AT - len(self._start)]

    def _end_line(self) -> None:
        if self._quoted == ():
            self._quoted = None
        match = _FENCE.match(self._start)
        if match is not None:
            mark = match[1]
            if not self._fence:
                if mark[0] == "~" or self._ticks == len(mark):
                    self._fence = mark
            elif mark.startswith(self._fence) and not self._start[match.end() :].strip():
                self._fence = ""
        self._start, self._ticks = "", 0


def without_code(text: str) -> str:
    """``text`` with its code and quotations left out."""
    return _BLOCK_QUOTE.sub("", _SPAN.sub("", FENCED.sub("\n", text)))


def end_of_quotation(text: str, start: int, end: int, ends: Iterable[str]) -> int:
    """Return where a quotation ends that begins with the mark from ``start`` to ``end``; -1 where the mark is not quoted.

    ``ends`` are the marks that end a call which the mark begins; where there is none, it ends with the line.
    """
    if not start or text[start - 1] not in _QUOTES:
        return -1
    if text[end : end + 1] in _QUOTES:
        return end
    found = [place for place in (text.find(one, end) for one in ends or ("\n",)) if place >= 0]
    return min(found, default=len(text)) + 1
