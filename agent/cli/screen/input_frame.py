"""The frame of the input: an open bracket at the left of the draft, heavy while a question waits.

A bracket costs a few bytes a row. A box would cost 500 bytes more for each new row of an answer, and a terminal that becomes
narrower would break the long rows of the box.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.screen.cells import Row, shortened, width
from agent.cli.screen.draft import DraftRows

WIDTH = 2
"""Columns that the frame takes beside the draft."""
_LEAST_COLUMNS, _LEAST_ROWS = 24, 12
"""Minimum size of a screen with a frame."""
_LIGHT, _HEAVY = ("╭─", "│ ", "╰ "), ("┏━", "┃ ", "┗ ")


class InputFrame:
    """The frame for a screen of the given size. ``asks``: a question waits. ``title`` is shown in the first row."""

    def __init__(self, columns: int, rows: int, *, asks: bool = False, title: str = "") -> None:
        self._columns = columns
        self._title = title
        self._is_shown = columns >= _LEAST_COLUMNS and rows >= _LEAST_ROWS
        self._signs, self._style = (_HEAVY, "ask") if asks else (_LIGHT, "dim")

    @property
    def room(self) -> int:
        """The columns of a row inside."""
        return self._columns - WIDTH if self._is_shown else self._columns

    def around(self, draft: DraftRows) -> DraftRows:
        """Return the rows of the draft inside of the frame, without the frame's last row."""
        if not self._is_shown:
            return draft
        top, row, column = self._signs[0], *draft.cursor
        first: Row = ((top, self._style),)
        if self._title:
            first = (
                *first,
                (shortened(f" {self._title}", self._columns - width(top)), "ask" if self._style == "ask" else "strong"),
            )
        return DraftRows([first, *self.beside(draft.rows)], (row + 1, column + WIDTH))

    def beside(self, rows: Sequence[Row]) -> list[Row]:
        """Return further rows inside of the frame."""
        return [((self._signs[1], self._style), *row) for row in rows] if self._is_shown else list(rows)

    def last(self, text: str) -> Row:
        """Return the last row, with a text about the chat's state."""
        begin = self._signs[2] if self._is_shown else "  "
        text = shortened(text, self._columns - width(begin))
        return ((f"{begin}{text}", "dim"),) if self._style == "dim" else ((begin, self._style), (text, "dim"))
