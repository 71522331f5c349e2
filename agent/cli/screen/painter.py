"""Paint frames: finished rows go to the scrollback once and never change again; live rows are below them and are replaced.

A frame is one write between the marks of a synchronized update. Each row is compared with the row on the screen: the same row is
skipped, a longer one gets only its new end, any other is rewritten. The painter assumes only that a terminal keeps what was
written, and breaks rows when it becomes narrower. A broken row keeps its greatest length even if its end was erased, so a
row that gets shorter is erased whole. A terminal may already be smaller than it has reported: then finished rows may break, live
rows are cut, and the cursor moves down by line feeds, which reach the next row wherever the screen ends. It is unknown whether a
row that was just written was broken or cut; it counts as one line, since a leftover live row is better than a lost finished row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from unicodedata import category

from agent.cli.screen.cells import Row, clip, folded, plain, row_width, varies, width
from agent.cli.screen.themes import Theme

BEGIN, END = "\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"
"""Marks of a frame, within which the cursor is hidden. A frame that changes a single row needs none."""
_UNBROKEN, _BROKEN = "\x1b[?7l", "\x1b[?7h"
"""Sequences around live rows: the terminal cuts rows if it is narrower than it has reported."""
_OFF = "\x1b[0m"
_LINE, _BEGIN_LINE, _BELOW = "\x1b[2K", "\r\x1b[2K", "\x1b[999G\x1b[J"
"""Erase the row; move to its first column and erase it; erase all rows below it (and its last column, which is never used)."""
_LEAST = (8, 4)
"""Minimum columns and rows of a screen; smaller ones count as this large."""


class _Painted:
    """A row on the screen."""

    __slots__ = ("cells", "row", "since", "text", "whole")

    def __init__(self, row: Row, text: str, cells: int, since: float, *, whole: bool) -> None:
        self.row = row
        self.text = text
        self.cells = cells
        self.since = since
        self.whole = whole
        """True if the row must be rewritten whole, because terminals differ in its width."""


class Painter:
    """Paints frames. ``write`` receives a frame's characters; ``size`` returns the screen's current columns and rows, ``clock``
    seconds.

    ``told`` is the number of seconds within which output reaches the terminal, and the terminal's new size reaches this program.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        size: Callable[[], tuple[int, int]],
        theme: Theme,
        told: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.theme = theme
        self._write = write
        self._size = size
        self._told = told
        self._clock = clock
        self._columns, self._rows = self._now()
        self._live: list[_Painted | None] = []
        """Live rows; None for a row whose content is unknown."""
        self._at = 0
        """Index in ``_live`` of the cursor's row."""
        self._column = 0

    @property
    def columns(self) -> int:
        """Return the columns of a row: one less than the screen's, because terminals break lines after the last column."""
        return self._now()[0] - 1

    @property
    def height(self) -> int:
        """Return the number of live rows that fit; more rows would scroll away and could not be replaced."""
        return self._now()[1] - 1

    @property
    def size(self) -> tuple[int, int]:
        """Return the current columns and rows of the screen."""
        return self._now()

    def paint(self, final: Sequence[Row], live: Sequence[Row], cursor: tuple[int, int] = (0, 0)) -> bool:
        """Add ``final`` rows, and show ``live`` rows below them. ``cursor`` is (row of ``live``, column).

        A row that is too wide, because it was laid out for a wider screen, is broken if it is final and cut if it is live.
        Return False if the size of the screen changed meanwhile; then nothing was written.
        """
        state = self._columns, self._rows, self._live, self._at, self._column
        now = self._clock()
        before = self._resized(now)
        was = self._at
        if len(live) > self._rows - 1:
            cut = len(live) - (self._rows - 1)
            live, cursor = live[cut:], (max(cursor[0] - cut, 0), cursor[1])
        live = live or ((),)  # the cursor needs a row
        room = self._columns - 1
        stays = [part for row in final for part in ((row,) if row_width(row) <= room else folded(row, room))]
        rows = [self._encoded(row, room, now) for row in (*stays, *live)]
        out = [before]
        self._change(rows, len(stays), out, is_resized=bool(before))
        self._live = list(rows[len(stays) :])
        self._at -= len(stays)
        row, column = min(cursor[0], len(self._live) - 1), min(cursor[1], room)
        if (row, column) != (self._at, self._column):
            self._go_to(row, out)
            out.append(f"\x1b[{column + 1}G" if column else "\r")
        elif not any(out):
            return True
        self._column = column
        if self._now() != (self._columns, self._rows):
            self._columns, self._rows, self._live, self._at, self._column = state
            return False
        frame = "".join(out)
        self._write(frame if self._at == row == was and len(out) <= 5 else f"{BEGIN}{frame}{END}")
        return True

    def leave(self) -> None:
        """Erase the live rows and move to their first row, for other output."""
        self.paint((), ())

    def clear(self) -> None:
        """Clear the screen, but not the scrollback. The next frame begins at the top."""
        self._live, self._at, self._column = [], 0, 0
        self._write("\x1b[H\x1b[2J")

    # -- within a frame ------------------------------------------------------------------------------------------

    def _change(self, rows: Sequence[_Painted], final: int, out: list[str], *, is_resized: bool) -> None:
        """Replace the live rows by ``rows``, beginning with the first one. The first ``final`` rows are final.

        After a resize, the end of a broken live row may be below them.
        """
        old, begun = self._live, len(out)
        for number, row in enumerate(rows):
            if number == final:
                begun = len(out)
            there = old[number] if number < len(old) else None
            if there is not None and row.text == there.text:
                row.since = there.since
                continue
            if there is not None and not row.whole and not there.whole and (part := self._difference(there, row)):
                self._go_to(number, out)
                out.append(part)
                self._column = -1
                continue
            is_at_begin = self._go_to(number, out, len(old))
            # Erase first: a terminal that gets wider would join a broken line with the line below it.
            out.append(row.text if number >= len(old) else f"{_LINE if is_at_begin else _BEGIN_LINE}{row.text}")
            self._column = -1
        if is_resized or len(old) > len(rows):
            self._go_to(len(rows) - 1, out)
            out.append(_BELOW)
            self._column = -1
        if len(out) > begun:
            out[begun:] = (_UNBROKEN, *out[begun:], _BROKEN)

    def _difference(self, old: _Painted, new: _Painted) -> str:
        """Return the sequence that turns one row into the other, or "" if it is better to rewrite the row."""
        if new.cells < old.cells:
            return ""
        if old.text and new.text.startswith(old.text):
            grown = new.text[len(old.text) :]
            return f"\x1b[{old.cells + 1}G{grown}" if _stands_alone(grown) else ""
        same = 0
        while same < min(len(old.row), len(new.row)) and old.row[same] == new.row[same]:
            same += 1
        before, theirs, ours = new.row[:same], old.row[same:], new.row[same:]
        behind = 0
        while behind < min(len(theirs), len(ours)) and theirs[-behind - 1] == ours[-behind - 1]:
            behind += 1
        middle = ours[: len(ours) - behind]
        if not behind or row_width(middle) != row_width(theirs[: len(theirs) - behind]):
            if not before:
                return ""
            middle = ours
        text = self._text(middle)
        if (text and not _stands_alone(middle[0][0])) or (behind and not _stands_alone(new.row[-behind][0])):
            return ""
        return f"\x1b[{row_width(before) + 1}G{text}"

    def _go_to(self, number: int, out: list[str], there: int | None = None) -> bool:
        """Move to a live row; a row from index ``there`` on does not exist yet and begins on a new line of the screen.

        Return True if this moved to the first column.
        """
        is_below = number > self._at
        if there is not None and number >= there and number:
            last = number - 1
            if self._at != last:
                self._go_to(last, out)
            out.append("\r\n")
        elif number < self._at:
            out.append(f"\x1b[{self._at - number}A")
        elif number > self._at:
            out.append("\r" + "\n" * (number - self._at))
        self._at = number
        return is_below

    def _encoded(self, row: Row, room: int, now: float) -> _Painted:
        cells = row_width(row)
        if cells > room:
            row = clip(row, room)
            cells = row_width(row)
        text = self._text(row)
        return _Painted(row, text, cells, now, whole=varies(text))

    def _text(self, row: Row) -> str:
        begin = self.theme.begin
        return "".join([f"{mark}{_inert(text)}{_OFF}" if (mark := begin(style)) else _inert(text) for text, style in row])

    def _resized(self, now: float) -> str:
        """Adopt a new size of the screen. Return the sequence that moves to the top of the live rows, wherever these are now."""
        columns, rows = self._now()
        if (columns, rows) == (self._columns, self._rows):
            return ""
        self._columns, self._rows = columns, rows
        if not self._live:
            return ""
        heights = [1 if row is None or now - row.since < self._told else _lines_of(row, columns) for row in self._live]
        within = min(max(self._column, 0) // columns, heights[self._at] - 1)
        above = min(sum(heights[: self._at]) + within, rows - 1)
        self._live = [None] * sum(heights)
        self._at, self._column = 0, -1
        return f"\x1b[{above}A\r" if above else "\r"

    def _now(self) -> tuple[int, int]:
        columns, rows = self._size()
        return max(columns, _LEAST[0]), max(rows, _LEAST[1])


def _lines_of(row: _Painted, columns: int) -> int:
    """Return the number of lines that a row takes on a terminal of that width; wide characters are never broken."""
    if row.text.isascii():
        return max(1, -(-row.cells // columns))
    lines, used = 1, 0
    for char in plain(row.row):
        cells = width(char)
        if used + cells > columns:
            lines, used = lines + 1, 0
        used += cells
    return lines


def _inert(text: str) -> str:
    """Return the text without characters that control a terminal, even if the caller forgot to escape them."""
    return text if text.isprintable() else "".join("\ufffd" if category(char) in ("Cc", "Cs") else char for char in text)


def _stands_alone(text: str) -> bool:
    """Return False if the text begins with a combining mark, which is drawn onto the character before it."""
    return text[:1] < "\u0300" or width(text[0]) > 0
