"""The cells of a terminal's screen, and the operations that change them."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections import deque
from typing import NamedTuple

from tools.screen.style import Pen

MAX_SIDE = 1_000
"""Maximum number of columns, and of rows."""
_MAX_MARKS = 8
"""Maximum number of characters in a cell: a letter and what is combined with it."""
_JOINERS = "\u200c\u200d"
_GRAPHICS = dict(zip(range(0x5F, 0x7F), " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))


@functools.lru_cache(4096)
def _cells(char: str) -> int:
    """Return the number of cells of a character, 0 if it is combined with the one before, -1 if it is not shown at all.

    Characters that only direct the layout are not shown: they could reorder or hide text.
    """
    if unicodedata.category(char) in ("Cf", "Zl", "Zp"):
        return 0 if char in _JOINERS else -1
    from wcwidth import wcwidth

    return wcwidth(char)


class ScreenLine:
    """A row of cells: their characters, "" for the second cell of a wide one, and their styles."""

    __slots__ = ("chars", "styles")

    def __init__(self, columns: int, style: str = "") -> None:
        self.chars = [" "] * columns
        self.styles = [style] * columns

    def split(self, column: int) -> None:
        """Blank a wide character that stands on both sides of ``column``."""
        if 0 < column < len(self.chars) and not self.chars[column]:
            self.chars[column - 1] = self.chars[column] = " "

    def fill(self, start: int, end: int, style: str, char: str = " ") -> None:
        """Overwrite cells."""
        self.split(start)
        self.split(end)
        self.chars[start:end] = [char] * (end - start)
        self.styles[start:end] = [style] * (end - start)

    def shift(self, start: int, by: int, style: str) -> None:
        """Move the cells from ``start`` to the right, or to the left if ``by`` is negative; blanks fill the gap."""
        columns = len(self.chars)
        by = max(min(by, columns - start), start - columns)
        self.split(start)
        self.split(columns - by if by > 0 else start - by)
        for cells, blank in ((self.chars, " "), (self.styles, style)):
            if by > 0:
                cells[start:] = [blank] * by + cells[start : columns - by]
            else:
                cells[start:] = cells[start - by :] + [blank] * -by

    def fit(self, columns: int) -> None:
        """Cut the row, or extend it with blanks."""
        self.split(columns)
        more = columns - len(self.chars)
        del self.chars[columns:], self.styles[columns:]
        self.chars += [" "] * more
        self.styles += [""] * more

    def text(self) -> str:
        """Return the characters without blanks at the end."""
        return "".join(self.chars).rstrip(" ")


class Position(NamedTuple):
    """The cursor's place, style and modes, which a program saves and restores together."""

    row: int
    column: int
    wraps: bool
    pen: Pen
    origin: bool
    graphics: tuple[bool, bool]
    shifted: bool


class Grid:
    """Two screens, the primary and the alternate one, the cursor, and the lines that left the primary one at the top.

    ``wraps`` is True after a character in the last column: the next one begins a new row.
    """

    def __init__(self, columns: int, rows: int, history: int) -> None:
        self.columns, self.rows = columns, rows
        self.history: deque[ScreenLine] = deque(maxlen=history)
        self.scrolled = 0
        self.reset()

    def reset(self) -> None:
        """Return to the state of a new terminal; the history stays."""
        self.lines = [ScreenLine(self.columns) for _ in range(self.rows)]
        self.primary: list[ScreenLine] | None = None
        """Rows of the primary screen while the alternate one is shown."""
        self.saved: dict[bool, Position] = {}
        self.row = self.column = 0
        self.stops = set(range(8, MAX_SIDE, 8))
        self.modes = {7, 25}
        """Numbers of the private modes that are on."""
        self.newline = False
        self.pen = Pen()
        self.soft_reset()

    def soft_reset(self) -> None:
        """Reset what DECSTR resets: modes of writing, style, margins; the text and the cursor stay."""
        self.top, self.bottom = 0, self.rows - 1
        self.wraps = self.inserting = self.shifted = False
        self.graphics = (False, False)
        self.modes = self.modes - {1, 6, 66} | {7, 25}
        self.pen = Pen()
        self.last = ""
        self.saved.pop(self.primary is not None, None)

    def write(self, text: str) -> None:
        """Write printable characters at the cursor."""
        self.last = text[-1]
        if self.graphics[self.shifted]:
            text = text.translate(_GRAPHICS)
        if text.isascii():
            self._write_narrow(text)
            return
        for cells, group in itertools.groupby(text, _cells):
            if cells == 1:
                self._write_narrow("".join(group))
            elif cells == 2:
                for char in group:
                    self._write_wide(char)
            elif cells == 0:
                for char in group:
                    self._combine(char)

    def _write_narrow(self, text: str) -> None:
        """Write characters of one cell each: as many as fit into the row at once."""
        columns, wrapping, style = self.columns, 7 in self.modes, self.pen.style
        start, size = 0, len(text)
        while start < size:
            if self.wraps and wrapping:
                self.column = 0
                self.line_feed()
            column, line = self.column, self.lines[self.row]
            count = min(size - start, columns - column)
            end, stop = column + count, start + count
            part = text[start:stop]
            if stop < size and not wrapping:  # each further character replaces the last one
                part, stop = part[:-1] + text[-1], size
            if self.inserting:
                line.shift(column, count, self.pen.blank)
            chars = line.chars
            if not chars[column]:
                line.split(column)
            if end < columns and not chars[end]:
                line.split(end)
            chars[column:end] = part
            line.styles[column:end] = [style] * count
            self.wraps = end == columns
            self.column = end - self.wraps
            start = stop

    def _write_wide(self, char: str) -> None:
        if self.wraps or self.column == self.columns - 1:
            if 7 not in self.modes or self.columns < 2:
                return
            self.column = 0
            self.line_feed()
        line, column = self.lines[self.row], self.column
        if self.inserting:
            line.shift(column, 2, self.pen.blank)
        line.fill(column, column + 2, self.pen.style)
        line.chars[column : column + 2] = [char, ""]
        self.wraps = column + 2 == self.columns
        self.column = column + 2 - self.wraps

    def _combine(self, char: str) -> None:
        chars = self.lines[self.row].chars
        column = self.column if self.wraps else self.column - 1
        if column > 0 and not chars[column]:
            column -= 1
        if column >= 0 and len(chars[column]) < _MAX_MARKS:
            chars[column] += char

    def repeat(self, count: int) -> None:
        """Write the last character again."""
        if self.last:
            self.write(self.last * min(count, self.columns * self.rows))

    def line_feed(self) -> None:
        """Move the cursor down, and scroll at the lower margin."""
        self.wraps = False
        if self.row == self.bottom:
            self.scroll_up(1)
        elif self.row < self.rows - 1:
            self.row += 1

    def reverse_line_feed(self) -> None:
        """Move the cursor up, and scroll at the upper margin."""
        self.wraps = False
        if self.row == self.top:
            self.scroll_down(1, self.top)
        elif self.row:
            self.row -= 1

    def scroll_up(self, count: int, top: int | None = None) -> None:
        """Scroll the rows between the margins; rows that leave the primary screen at its top enter the history."""
        first, last = self.top if top is None else top, self.bottom
        count = min(count, last - first + 1)
        if first == 0 and top is None and self.primary is None:
            self.history.extend(self.lines[:count])
            self.scrolled += count
        del self.lines[first : first + count]
        end = last + 1 - count
        self.lines[end:end] = [ScreenLine(self.columns, self.pen.blank) for _ in range(count)]

    def scroll_down(self, count: int, top: int) -> None:
        """Insert blank rows at ``top``; those below it move down to the lower margin."""
        count = min(count, self.bottom - top + 1)
        del self.lines[self.bottom + 1 - count : self.bottom + 1]
        self.lines[top:top] = [ScreenLine(self.columns, self.pen.blank) for _ in range(count)]

    def move(self, row: int, column: int) -> None:
        """Place the cursor inside the screen."""
        self.row = max(0, min(row, self.rows - 1))
        self.column = max(0, min(column, self.columns - 1))
        self.wraps = False

    def move_rows(self, by: int) -> None:
        """Move the cursor up or down, not across a margin."""
        low = self.top if self.row >= self.top else 0
        high = self.bottom if self.row <= self.bottom else self.rows - 1
        self.move(max(low, min(self.row + by, high)), self.column)

    def address(self, row: int, column: int) -> None:
        """Place the cursor; in origin mode rows count from the upper margin and end at the lower one."""
        if 6 in self.modes:
            row = min(row + self.top, self.bottom)
        self.move(row, column)

    def tab(self, by: int) -> None:
        """Move the cursor to a later or earlier tab stop."""
        for _ in range(min(abs(by), self.columns)):
            if by > 0:
                last = self.columns - 1
                self.column = next((column for column in range(self.column + 1, last) if column in self.stops), last)
            else:
                self.column = next((column for column in range(self.column - 1, 0, -1) if column in self.stops), 0)
        self.wraps = self.wraps and by > 0

    def erase(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Blank the cells from ``start`` to before ``end``, as row and column each."""
        for row in range(start[0], end[0] + 1):
            first = start[1] if row == start[0] else 0
            last = end[1] if row == end[0] else self.columns
            self.lines[row].fill(first, last, self.pen.blank)

    def set_margins(self, top: int, bottom: int) -> None:
        """Set the rows that scroll, counted from 1; 0 as ``bottom`` is the last row."""
        top, bottom = max(top, 1) - 1, min(bottom or self.rows, self.rows) - 1
        if top < bottom:
            self.top, self.bottom = top, bottom
            self.address(0, 0)

    def save(self) -> None:
        """Save the cursor, each screen its own."""
        state = (self.row, self.column, self.wraps, self.pen.copy(), 6 in self.modes, self.graphics, self.shifted)
        self.saved[self.primary is not None] = Position(*state)

    def restore(self) -> None:
        """Restore the saved cursor; without one, go to the first cell."""
        saved = self.saved.get(self.primary is not None) or Position(0, 0, False, Pen(), False, (False, False), False)
        self.move(saved.row, saved.column)
        self.wraps = saved.wraps and self.column == self.columns - 1
        self.pen, self.graphics, self.shifted = saved.pen.copy(), saved.graphics, saved.shifted
        self.modes = self.modes | {6} if saved.origin else self.modes - {6}

    def show_alternate(self, shown: bool) -> None:
        """Switch to a blank alternate screen, or back."""
        if shown and self.primary is None:
            self.primary, self.lines = self.lines, [ScreenLine(self.columns) for _ in range(self.rows)]
        elif not shown and self.primary is not None:
            self.lines, self.primary = self.primary, None
            self.saved.pop(True, None)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size: rows are cut at the right; the primary screen takes rows from the history, or gives it some."""
        if self.primary is None:
            self.row += self._resize_primary(self.lines, columns, rows, self.row)
        else:
            saved = self.saved.get(False)
            moved = self._resize_primary(self.primary, columns, rows, saved.row if saved else 0)
            if saved:
                self.saved[False] = saved._replace(row=saved.row + moved)
            surplus = max(0, self.row + 1 - rows)
            self.row -= surplus
            del self.lines[:surplus]
        for lines in (self.lines, self.primary or []):
            del lines[rows:]
            lines += [ScreenLine(columns) for _ in range(rows - len(lines))]
            for line in lines:
                line.fit(columns)
        self.columns, self.rows = columns, rows
        self.top, self.bottom = 0, rows - 1
        self.move(self.row, self.column)

    def _resize_primary(self, lines: list[ScreenLine], columns: int, rows: int, cursor: int) -> int:
        """Exchange rows with the history, and return by how many rows the text moved down."""
        more = min(rows - len(lines), len(self.history))
        if more > 0:
            lines[:0] = [self.history.pop() for _ in range(more)][::-1]
        else:
            more = min(0, rows - 1 - cursor)  # rows below the cursor are cut first
            self.history.extend(lines[:-more] if more else [])
            del lines[: -more if more else 0]
        self.scrolled -= more
        return more
