"""Markdown code and quotations in a reply: a mark that stands in them is only spoken of."""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LOOKED_AT = 40
"""Characters of a line that decide whether a code block begins or ends with it."""
_QUOTES = frozenset("`\"'\u201c\u2018\u201e\u00ab\u300c")

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
        self.last = "\n"
        """The character before what comes next; "" after a call."""

    def feed(self, text: str) -> None:
        if not text:
            return
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


def quoted(text: str, at: int) -> bool:
    """Return whether a quotation mark stands before ``at``."""
    return at > 0 and text[at - 1] in _QUOTES
