"""Rows of styled text, measured in the cells of a terminal."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from toolcrib.contract.regex import Regex

Span: TypeAlias = tuple[str, str]
"""(text, style): the style joins names of agent.cli.screen.themes with "+", "" for plain text. No span contains a line break."""
Row: TypeAlias = tuple[Span, ...]
Piece: TypeAlias = tuple[str, str, int]
"""(text, style, index of its first character in the source)."""
TEXT_WIDTH = 100
"""Maximum number of cells of a row of prose, even on a wider screen. Code, tables and output use the whole screen."""

_VARIES = Regex("[\u200d\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""Joiners, emoji selectors, flags and skin tones: terminals differ in the width of texts that contain one."""
_WIDE = "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\uffe0-\uffe6"
_PARTS = Regex(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
"""Pieces between which a row may end: a break, blanks, an ideograph, a word."""


def width(text: str) -> int:
    """Return the number of cells that ``text`` takes; if terminals differ, the largest number."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


@functools.lru_cache(4096)
def _char_width(char: str) -> int:
    if char == "\ufe0f":  # requests the wide form of the character before it
        return 1
    from wcwidth import wcwidth

    return max(wcwidth(char), 0)


def varies(text: str) -> bool:
    """Return True if terminals differ in the width of ``text``."""
    return not text.isascii() and _VARIES.search(text) is not None


def row_width(row: Row) -> int:
    """Return the cells of a row."""
    return sum(width(text) for text, _ in row)


def plain(row: Row) -> str:
    """Return the row's text without styles."""
    return "".join(text for text, _ in row)


def cut(text: str, room: int) -> str:
    """Return the beginning of ``text`` that fits into ``room`` cells."""
    if text.isascii():
        return text[:room]
    used = 0
    for place, char in enumerate(text):
        used += _char_width(char)
        if used > room:
            return text[:place]
    return text


def clip(row: Row, room: int) -> Row:
    """Return the row, cut at ``room`` cells."""
    kept: list[Span] = []
    for text, style in row:
        part = cut(text, room)
        if part:
            kept.append((part, style))
        if len(part) < len(text):
            break
        room -= width(part)
    return tuple(kept)


def shortened(text: str, room: int) -> str:
    """Return ``text``, cut with an ellipsis if it is wider than ``room``."""
    return text if width(text) <= room else f"{cut(text, max(room - 1, 0))}…"


def chunks(row: Iterable[Span], room: int) -> list[Row]:
    """Break a row at exactly ``room`` cells, even within words: code keeps its blanks."""
    rows: list[Row] = []
    now: list[Span] = []
    used = 0
    for text, style in row:
        while text:
            part = cut(text, room - used)
            if not part and not now:
                part = text[0]  # a character wider than the room
            if part:
                now.append((part, style))
                used += width(part)
                text = text[len(part) :]
            if text:
                rows.append(tuple(now))
                now, used = [], 0
    rows.append(tuple(now))
    return rows


def folded(row: Iterable[Span], room: int) -> list[Row]:
    """Break a row at ``room`` cells; if its second half contains a blank, break there and drop the blank."""
    spans = [*row]
    line = "".join(text for text, _ in spans)
    rows: list[Row] = []
    begin = 0
    while (part := cut(line[begin:], room)) != line[begin:]:
        part = part or line[begin]  # a character wider than the room
        end = begin + len(part)
        blank = line.rfind(" ", begin, end + 1)
        if blank > begin and width(line[begin:blank]) * 2 >= room:
            rows.append(_between(spans, begin, blank))
            begin = blank + 1
        else:
            rows.append(_between(spans, begin, end))
            begin = end
    return [*rows, _between(spans, begin, len(line))] if begin < len(line) or not rows else rows


def _between(spans: Iterable[Span], begin: int, end: int) -> Row:
    """Return the part of the spans from ``begin`` to ``end`` of their text."""
    row: list[Span] = []
    place = 0
    for text, style in spans:
        if part := text[max(begin - place, 0) : max(end - place, 0)]:
            row.append((part, style))
        place += len(text)
    return tuple(row)


def wrap(pieces: Iterable[Piece], room: int) -> list[tuple[Row, int]]:
    """Break text between words into rows of at most ``room`` cells, each with its position in the source.

    Later text changes only the last row. Blanks at a break are dropped; several blanks become one.
    """
    room = max(room, 1)
    filling = _Filling(room)
    for text, style, source in pieces:
        for part in _PARTS.finditer(text):
            filling.add(part[0], style, source + part.start())
    return filling.end()


class _Filling:
    """Fills rows with words."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._rows: list[tuple[Row, int]] = []
        self._row: list[Span] = []
        self._used = 0
        self._begin = -1
        self._word: list[tuple[str, str, int]] = []
        self._word_width = 0
        self._blank: Span | None = None

    def add(self, part: str, style: str, source: int) -> None:
        if part == "\n":
            self._place()
            self._break(source)
        elif part.isspace():
            self._place()
            if self._row:
                self._blank = (" ", style)
        else:
            cells = width(part)
            if len(part) == 1 and cells == 2:
                self._place()
            self._word.append((part, style, source))
            self._word_width += cells
            if len(part) == 1 and cells == 2:
                self._place()

    def end(self) -> list[tuple[Row, int]]:
        self._place()
        if self._row:
            self._break(-1)
        return self._rows

    def _place(self) -> None:
        """Add the word to this row, or to a new one if it does not fit."""
        if not self._word:
            return
        blank = 0 if self._blank is None else 1
        if self._row and self._used + blank + self._word_width > self._room:
            self._break(-1)
        elif self._blank is not None:
            self._put(*self._blank, -1)
        for text, style, source in self._word:
            while text:
                part = cut(text, self._room - self._used)
                if not part and self._row:
                    self._break(-1)
                    continue
                part = part or text[0]
                self._put(part, style, source)
                text, source = text[len(part) :], source + len(part)
        self._word, self._word_width, self._blank = [], 0, None

    def _put(self, text: str, style: str, source: int) -> None:
        if not self._row:
            self._begin = source
        if self._row and self._row[-1][1] == style:
            self._row[-1] = (self._row[-1][0] + text, style)
        else:
            self._row.append((text, style))
        self._used += width(text)

    def _break(self, source: int) -> None:
        self._rows.append((tuple(self._row), self._begin if self._row else source))
        self._row, self._used, self._begin, self._blank = [], 0, -1, None


def words_of(text: str, style: str, room: int) -> Iterator[Row]:
    """Yield the rows of plain text, broken between words and at its line breaks."""
    for row, _ in wrap([(text, style, 0)], room):
        yield row
