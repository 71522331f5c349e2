"""Text blocks of Markdown: paragraphs and code report which rows are final while they grow; tables wait for their end."""

from __future__ import annotations

from agent.cli.screen.cells import TEXT_WIDTH, Piece, Row, chunks, row_width, width, wrap
from agent.cli.screen.highlight import Highlighter
from agent.cli.screen.inline import parse
from agent.cli.screen.tables import table_rows

_OPEN_ROWS = 2
"""Number of last rows of a paragraph that later text may change."""


class Margin:
    """Spans to the left of a block: ``first`` for its first row, ``rest`` for the others."""

    __slots__ = ("first", "rest", "room")

    def __init__(self, first: Row, rest: Row, columns: int) -> None:
        self.first = first
        self.rest = rest
        self.fit(columns)

    def fit(self, columns: int) -> None:
        """Set the room beside the margin, for rows of at most this width."""
        self.room = max(columns - max(row_width(self.first), row_width(self.rest)), 8)

    def take(self) -> Row:
        """Return the margin of the next row."""
        first, self.first = self.first, self.rest
        return first

    def copy(self) -> Margin:
        """Return a copy of the margin in its current state."""
        other = object.__new__(Margin)
        other.first, other.rest, other.room = self.first, self.rest, self.room
        return other


class Leaf:
    """An open block: ``ready`` returns final rows, ``close`` all remaining ones."""

    def __init__(self, margin: Margin) -> None:
        self.margin = margin

    def ready(self) -> list[Row]:
        """Return the rows that became final, each once."""
        return []

    def close(self) -> list[Row]:
        """Return the rows not returned yet."""
        return []

    def copy(self) -> Leaf:
        """Return an independent copy in the current state."""
        other: Leaf = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.margin = self.margin.copy()
        return other

    def narrow(self, columns: int) -> None:
        """Continue with another width."""
        self.margin.fit(columns)


class Paragraph(Leaf):
    """The text of one paragraph. ``style`` applies to all of it. ``holds``: its first line may be the head of a table."""

    def __init__(self, margin: Margin, columns: int, style: str = "") -> None:
        super().__init__(margin)
        self.narrow(columns)
        self.style = style
        self.lines = 0
        self.holds = False
        self._text = ""
        self._done = 0
        self._given = False

    def narrow(self, columns: int) -> None:
        self.margin.fit(min(columns, TEXT_WIDTH))

    @property
    def text(self) -> str:
        """The paragraph's text. ``_forget`` may have dropped its beginning, whose rows are final."""
        return self._text

    def line(self, text: str) -> None:
        """Begin another line."""
        self._text = f"{self._text}\n{text}" if self.lines else text
        self.lines += 1

    def grow(self, text: str) -> None:
        """Append to the last line."""
        self._text += text

    @property
    def is_short(self) -> bool:
        """True while none of the paragraph is final and it is short: it may still become a heading or the head of a table."""
        return not self._given and len(wrap(parse(self._text)[0], self.margin.room)) <= _OPEN_ROWS

    def ready(self) -> list[Row]:
        if self.holds or len(self._text) - self._done <= self.margin.room * _OPEN_ROWS // 2:
            return []
        pieces, safe = parse(self._text, self.style)
        rows = wrap(_between(pieces, self._done, safe), self.margin.room)
        kept = rows[: max(len(rows) - _OPEN_ROWS, 0)]
        if not kept:
            return []
        self._done, self._given = rows[len(kept)][1], True
        self._forget(pieces)
        return [(*self.margin.take(), *row) for row, _ in kept]

    def close(self) -> list[Row]:
        rows = wrap(_between(parse(self._text, self.style)[0], self._done, len(self._text)), self.margin.room)
        self._text, self._done = "", 0
        return [(*self.margin.take(), *row) for row, _ in rows]

    def _forget(self, pieces: list[Piece]) -> None:
        """Drop the text of final rows if it ends outside of any markup, so that it is not parsed again."""
        for text, style, source in pieces:
            end = source + len(text)
            if style == self.style and source < self._done <= end and self._text[self._done - 1 : self._done] in (" ", "\n"):
                self._text, self._done = self._text[self._done :], 0
                return


def _between(pieces: list[Piece], begin: int, end: int) -> list[Piece]:
    """Return the pieces from ``begin`` to ``end`` of the source."""
    kept = []
    for text, style, source in pieces:
        if source >= end:
            break
        start, stop = max(begin - source, 0), min(end - source, len(text))
        if start < stop or (not text and source >= begin):
            kept.append((text[start:stop], style, source + start))
    return kept


class CodeBlock(Leaf):
    """Lines of code. Each is final when it ends."""

    def __init__(self, margin: Margin, language: str = "") -> None:
        super().__init__(margin)
        self._highlighter = Highlighter(language)
        self._rows: list[Row] = []
        self._blanks = 0

    def line(self, text: str) -> None:
        """Add a whole line. Empty lines are shown when another line follows."""
        if not text.strip():
            self._blanks += 1
            return
        for _ in range(self._blanks):
            self._highlighter.row("")
            self._rows.append(self.margin.take())
        self._blanks = 0
        row = self._highlighter.row(text)
        plain = not any(style for _, style in row)
        spans = tuple((part, "code") for part, _ in row) if plain else row
        for broken in chunks(spans, max(self.margin.room - 2, 8)):
            self._rows.append((*self.margin.take(), ("  ", ""), *broken))

    def ready(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> list[Row]:
        return self.ready()

    def copy(self) -> Leaf:
        other = super().copy()
        assert isinstance(other, CodeBlock)  # noqa: S101 - it is a copy
        other._rows, other._highlighter = [*self._rows], self._highlighter.copy()
        return other


class TableBlock(Leaf):
    """A table. While it is open, its head and last rows are live."""

    def __init__(self, margin: Margin, head: str, aligns: str) -> None:
        super().__init__(margin)
        self._lines = [head]
        self._aligns = aligns

    def line(self, text: str) -> None:
        """Add a row of cells."""
        self._lines.append(text)

    def close(self) -> list[Row]:
        rows = table_rows(self._lines, self._aligns, self.margin.room)
        self._lines = []
        return [(*self.margin.take(), *row) for row in rows]

    def copy(self) -> Leaf:
        other = super().copy()
        assert isinstance(other, TableBlock)  # noqa: S101 - it is a copy
        other._lines = [*self._lines]
        if len(other._lines) > _SHOWN_OF_TABLE:
            other._lines = [other._lines[0], *other._lines[-_SHOWN_OF_TABLE:]]
        return other


_SHOWN_OF_TABLE = 4
"""Number of last rows of a table that are live."""


def bullet_of(marker: str, depth: int) -> str:
    """Return the bullet of a list item: its number as written, or a symbol for its depth."""
    if marker[0].isdigit():
        return f"{marker} "
    return f"{'•◦▪'[min(depth, 2)]} "


def indent_of(bullet: str) -> Row:
    """Return blanks of the bullet's width."""
    return ((" " * width(bullet), ""),)
