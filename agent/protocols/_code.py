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
    """Follows text as it comes: code blocks, and code spans and block quotes of the current line.

    Text is looked at only once somebody asks what stands there: most replies have no marks.
    """

    def __init__(self) -> None:
        self._text: list[str] = []  # not looked at yet
        self._start = ""
        self._ticks = 0
        self._fence = ""
        self._quoted: tuple[str, ...] | None = None  # the marks that end a quotation of call text; none: the line does
        self._mark_length = 0  # of the quoted mark, where it is still to come
        self._last = "\n"
        self.feed = self._text.append

    def interrupt(self) -> None:
        """Take note of a call: what comes after it begins a line."""
        self._look()
        self._start, self._ticks, self._last = "", 0, ""

    @property
    def begins_line(self) -> bool:
        self._look()
        return not self._start.strip()

    @property
    def spoken(self) -> bool:
        """Return whether a mark that stands here is quoted, not meant."""
        self._look()
        if self._fence or self._ticks % 2 or self._last in _QUOTES:
            return True
        start = self._start.lstrip()
        return start.startswith(("```", "~~~")) or (start[:1] == ">" and not start.startswith(">>>"))

    def passes(self, mark: str, ends: tuple[str, ...]) -> bool:
        """Return whether ``mark``, which comes next, is only spoken of. ``ends`` are the marks that end a call it begins."""
        self._look()
        if self._quoted is not None:
            if mark in self._quoted:
                self._quoted = None
            return True
        if not self.spoken:
            return False
        if self._last in _QUOTES and self._last != "`":
            self._quoted, self._mark_length = ends, len(mark)
        return True

    def _look(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if not text:
            return
        if self._mark_length:
            if text[self._mark_length : self._mark_length + 1] in _QUOTES:  # the quotation is of the mark alone
                self._quoted = None
            elif len(text) <= self._mark_length:
                self._text.append(text)
                return
            self._mark_length = 0
        self._last = text[-1]
        first, *lines = text.split("\n")
        self._add(first)
        for line in lines:
            self._end_line()
            self._add(line)

    def _add(self, piece: str) -> None:
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
    if "`" in text or "~~~" in text:
        text = _SPAN.sub("", FENCED.sub("\n", text))
    return _BLOCK_QUOTE.sub("", text) if ">" in text else text


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
