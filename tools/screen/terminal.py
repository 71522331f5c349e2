"""A terminal's screen that a model can read, and that a person's view can be painted from."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.contract.regex import Regex
from tools.screen import sequences
from tools.screen.grid import MAX_SIDE, Grid, ScreenLine
from tools.screen.highlights import highlights
from tools.screen.replies import TerminalReplies

CURSOR_MARK = "‸"
"""Marks the cursor in text for a model: a caret of proofreaders, which programs do not print; it stands between two cells, so it
hides none."""
HIGHLIGHT_MARKS = "⟦", "⟧"
"""Enclose highlighted text in text for a model."""
_FLOOD, _CHUNK = 4_000_000, 16_000
"""Numbers of bytes after which they are interpreted at the latest: lines, and other output."""
_PROBE = 64
"""Bytes before a chunk that are searched with it, because a sequence may be cut."""
_MAX_STRING, _MAX_TITLE = 4_096, 200
_BODY = r"[\x00-\x17\x19\x1c-?\x7f]{0,256}"
_TOKENS = Regex(
    r"([^\x00-\x1f\x7f-\x9f]+)"  # 1: text
    r"|(\r\n|[\b-\x0f])"  # 2: a control character
    r"|\x1b\[([<-?]{0,2})([0-9;:]{0,240})([ -/]{0,4}[@-~])"  # 3, 4, 5: a control sequence
    r"|\x1b(\][^\x07\x18\x1a\x1b]*|[PX^_][^\x18\x1a\x1b]*)"  # 6: a string; what ends it stays
    rf"|\x1b\[({_BODY})([@-~])"  # 7, 8: a sequence with control characters inside
    rf"|(\x1b(?:[ -/]{{0,4}}|\[{_BODY})\Z)"  # 9: the beginning of a sequence
    rf"|\x1b\[{_BODY}"  # a broken one
    r"|\x1b([ -/]{0,4}[0-~])"  # 10: any other
)
_SEQUENCE = Regex(r"([<-?]{0,2})([0-9;:]{0,240})([ -/]{0,4}[@-~])")
_STRING_REST = {"]": Regex(r"[^\x07\x18\x1a\x1b]*"), "": Regex(r"[^\x18\x1a\x1b]*")}
_QUESTION = Regex(rb"\x1b(?:\[[0-?]*[ -/]*[cnpqt]|\]1[01];\?.*[\x07\x1b]|Z)")
"""Sequences that a program may await an answer to."""
_NOT_LINES = Regex(rb"[\x0e\x0f]|\x1b(?!\[[\d;:]{0,60}[mK]|\]8;[^\x07\x1b]*(?:\x07|\x1b\\)|\\)")
"""Content that changes more than its own line and the style."""
_NOT_LINES_SO_FAR = Regex(rb"[\x0e\x0f]|\x1b(?!\[[\d;:]{0,60}(?:[mK]|\Z)|\](?:\Z|8(?:\Z|;))|\\|\Z)")
_STYLE = Regex(rb"\x1b\[([\d;:]{0,60})m")


class ScreenCursor(NamedTuple):
    """Position of the cursor, counted from 0."""

    row: int
    column: int
    visible: bool


@dataclass(frozen=True)
class ScreenModes:
    """Modes that change what keys and pasted text send."""

    application_cursor: bool
    bracketed_paste: bool


class ScreenMark(NamedTuple):
    """A screen as a reader saw it; ``changes`` compares a later one with it."""

    rows: tuple[str, ...]
    scrolled: int
    alternate: bool


class ScreenChanges(NamedTuple):
    """Differences of a screen from a mark."""

    rows: dict[int, str]
    """Text of the rows that changed, also if only its style did; rows that merely scrolled are left out."""
    scrolled: list[str]
    """Lines that left the screen at the top, and that the mark does not have in this form."""
    lost: int
    """Number of such lines before them that the history no longer has: at least; wrapped lines of a flood count once."""


class TerminalScreen:
    """The screen of a terminal, fed with the output of programs.

    ``feed`` never raises for any bytes, and what it keeps is bounded. It may only store the bytes: questions of a program are
    answered at once, and everything that reads the screen interprets the rest first. ``answer`` gets the bytes that a terminal
    sends back; a flood of questions gets few answers.
    """

    def __init__(
        self,
        columns: int,
        rows: int,
        *,
        history: int = 2000,
        answer: Callable[[bytes], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = Grid(_side(columns), _side(rows), history)
        self._replies = TerminalReplies(clock)
        self._answer = answer
        self._title = ""
        self._string: str | None = None
        """The beginning of a string that the program has not ended."""
        self._waiting: list[bytes] = []
        self._length = 0
        self._probe = b""
        self._only_lines = True

    def feed(self, data: bytes) -> None:
        """Take output of the program, cut anywhere."""
        self._waiting.append(data)
        self._length += len(data)
        probed = self._probe + data
        self._probe = probed[-_PROBE:]
        escapes = b"\x1b" in probed
        if self._only_lines and (escapes or b"\x0e" in data or b"\x0f" in data):
            self._only_lines = not _NOT_LINES_SO_FAR.search(probed)
        if self._length >= (_FLOOD if self._only_lines else _CHUNK) or (escapes and _QUESTION.search(probed)):
            self._interpret()

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of both screens; lines are cut or extended, not wrapped again."""
        self._grid.resize(_side(columns), _side(rows))

    @property
    def lines(self) -> list[str]:
        """Text of each row, without blanks at its end."""
        return [line.text() for line in self._grid.lines]

    @property
    def history(self) -> list[str]:
        """Lines that left the primary screen at its top, the oldest first."""
        return [line.text() for line in self._grid.history]

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._now.columns, self._now.rows

    @property
    def cursor(self) -> ScreenCursor:
        """Position of the cursor."""
        grid = self._grid
        return ScreenCursor(grid.row, grid.column, 25 in grid.modes)

    @property
    def alternate(self) -> bool:
        """True while a full-screen program shows the alternate screen."""
        return self._grid.primary is not None

    @property
    def title(self) -> str:
        """Title of the window, as the program set it."""
        self._interpret()
        return self._title

    @property
    def modes(self) -> ScreenModes:
        """Modes that concern input."""
        on = self._grid.modes
        return ScreenModes(1 in on, 2004 in on)

    def text(self, mark: str = CURSOR_MARK, around: tuple[str, str] = ("", "")) -> str:
        """Return the screen as text, with ``mark`` before the cell of a visible cursor; without empty rows at its end.

        ``around``: marks before and after highlighted text, such as the selected row of a menu.
        """
        grid = self._grid
        found = highlights(grid.lines) if any(around) else [[] for _ in grid.lines]
        rows = list[str]()
        for at, (line, texts) in enumerate(zip(grid.lines, found, strict=True)):
            marks = [(one.end, around[1]) for one in texts]
            if mark and 25 in grid.modes and at == grid.row:
                marks.append((grid.column + grid.wraps, mark))
            rows.append(_with_marks(line, [*marks, *((one.start, around[0]) for one in texts)]))
        return "\n".join(rows).rstrip("\n")

    def mark(self) -> ScreenMark:
        """Return what ``changes`` compares with later."""
        grid = self._grid
        return ScreenMark(tuple(self.rows_as_sgr()), grid.scrolled, grid.primary is not None)

    def changes(self, since: ScreenMark) -> ScreenChanges:
        """Return the rows that changed, and the lines that scrolled away."""
        grid = self._grid
        moved = max(grid.scrolled - since.scrolled, 0)
        before = dict(enumerate(since.rows)) if (grid.primary is not None) == since.alternate else {}
        kept = min(moved, len(grid.history))
        left = [*grid.history][len(grid.history) - kept :]
        # While the alternate screen is shown, only lines from before it are in the history.
        known = {} if since.alternate else before
        scrolled = [line.text() for at, line in enumerate(left, moved - kept) if known.get(at) != _painted(line)]
        by = 0 if grid.primary is not None else moved
        rows = {at: line.text() for at, line in enumerate(grid.lines) if before.get(at + by, "") != _painted(line)}
        return ScreenChanges(rows, scrolled, moved - kept)

    def rows_as_sgr(self) -> list[str]:
        """Return each row with its styles, safe to paint on a person's terminal: printable text and SGR sequences alone."""
        return [_painted(line) for line in self._grid.lines]

    @property
    def _grid(self) -> Grid:
        self._interpret()
        return self._now

    def _interpret(self) -> None:
        """Interpret the bytes that wait."""
        if not self._length:
            return
        data = b"".join(self._waiting)
        text, used = codecs.utf_8_decode(data := data[self._skip(data) :], "replace", False)
        rest = self._parse(text, self._end_string(text)).encode() + data[used:]
        self._waiting, self._length, self._probe, self._only_lines = [rest], len(rest), rest[-_PROBE:], True
        if (replies := self._replies.take()) and self._answer:
            self._answer(replies)

    def _skip(self, data: bytes) -> int:
        """Skip the lines of a flood that leave no trace on the screen or in the history; return where the rest begins."""
        grid = self._now
        keep = grid.rows + (0 if grid.primary is not None else grid.history.maxlen or 0)
        if len(data) < _CHUNK or self._string is not None or (grid.top, grid.bottom) != (0, grid.rows - 1):
            return 0
        end = len(data)
        for _ in range(keep):
            end = data.rfind(b"\n", 0, end)
            if end < 0:
                return 0
        lines = data.count(b"\n", 0, end + 1)
        if (
            lines < grid.rows
            or data[end - 1 : end] != b"\r"
            or (any(byte in data for byte in (b"\x1b", b"\x0e", b"\x0f")) and _NOT_LINES.search(data, 0, end + 1))
        ):
            return 0
        plain = max(data.rfind(b"\x1b[m", 0, end), data.rfind(b"\x1b[0m", 0, end), 0)
        for style in _STYLE.finditer(data, plain, end):
            grid.pen.apply(style[1].decode())
        if grid.primary is None:
            grid.scrolled += lines - (grid.rows - 1 - grid.row)
        grid.move(grid.rows - 1, 0)
        return end + 1

    def _parse(self, text: str, start: int) -> str:
        """Interpret text from ``start``, and return the beginning of a sequence at its end."""
        grid = self._now
        controls, write = sequences.CONTROLS, grid.write
        for token in _TOKENS.finditer(text, start):
            kind = token.lastindex
            if kind == 1:
                write(token[1])
            elif kind == 2:
                controls[token[2]](grid)
            elif kind == 5:
                self._control(token[3], token[4], token[5])
            elif kind == 6:
                self._string = token[6][:_MAX_STRING]
                self._end_string(text, token.end())
            elif kind == 8:
                self._mixed(token[7], token[8])
            elif kind == 9:
                return token[9]
            elif kind == 10:
                sequences.escape(grid, token[10])
                if token[10] == "Z":
                    self._replies.answer(grid, "c", [0])
        return ""

    def _mixed(self, body: str, final: str) -> None:
        """Carry out a sequence with control characters inside: they count at once."""
        for char in body:
            if char in sequences.CONTROLS:
                sequences.CONTROLS[char](self._now)
        if clean := _SEQUENCE.fullmatch("".join(filter(str.isprintable, body)) + final):
            self._control(*clean.groups())

    def _control(self, prefix: str, parameters: str, final: str) -> None:
        """Carry out a control sequence."""
        grid, name = self._now, prefix + final
        if name == "m":
            grid.pen.apply(parameters)
            return
        given = [min(int(number.partition(":")[0] or "0"), 9_999) for number in parameters.split(";")]
        if name in sequences.COUNTED:
            sequences.COUNTED[name](grid, given[0] or 1)
        elif name in sequences.OTHERS:
            sequences.OTHERS[name](grid, given)
        else:
            self._replies.answer(grid, name, given)

    def _end_string(self, text: str, start: int = 0) -> int:
        """Read on in a string, and use it if it ends in ``text``; return where it ends."""
        if self._string is None:
            return start
        rest = _STRING_REST["]" if self._string[0] == "]" else ""].match(text, start)
        end = rest.end() if rest else start
        self._string = (self._string + text[start : min(end, start + _MAX_STRING)])[:_MAX_STRING]
        if end == len(text):
            return end
        string, self._string = self._string, None
        if string[0] == "]" and text[end] in "\x07\x1b":
            number, _, value = string[1:].partition(";")
            if number in ("0", "2"):
                self._title = "".join(filter(str.isprintable, value))[:_MAX_TITLE]
            else:
                self._replies.colour(number, value, bell=text[end] == "\x07")
        return end


def _with_marks(line: ScreenLine, marks: Iterable[tuple[int, str]]) -> str:
    """Return a row's text with marks, each before the cell of a column."""
    parts, done = list[str](), 0
    for column, mark in sorted(marks, key=lambda one: one[0]):
        parts += [*line.chars[done:column], mark]
        done = column
    return "".join(parts) + "".join(line.chars[done:]).rstrip(" ")


def _side(given: int) -> int:
    return max(1, min(given, MAX_SIDE))


def _painted(line: ScreenLine) -> str:
    """Return a row with SGR sequences; plain blanks at its end are left out."""
    parts: list[str] = []
    style = ""
    for char, its in zip(line.chars, line.styles, strict=True):
        if its != style:
            parts.append(f"\x1b[0;{its}m" if its else "\x1b[m")
            style = its
        parts.append(char)
    return "".join(parts) + "\x1b[m" if style else "".join(parts).rstrip(" ")
