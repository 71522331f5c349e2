"""Answers of a terminal to the questions of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tools.screen import sequences
from tools.screen.grid import Grid

_BURST, _EACH_SECOND = 100, 20
"""Maximum number of answers at once, and how fast the number is restored."""
_CELL = (16, 8)
"""Height and width of a cell in pixels, as reported."""
_COLOURS = {"10": "rgb:d0d0/d0d0/d0d0", "11": "rgb:0000/0000/0000"}
"""Colours of text and background, as reported."""


class TerminalReplies:
    """Collects the answers of a terminal; questions beyond a rate get none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: float = _BURST
        self._at = clock()
        self._collected: list[str] = []

    def take(self) -> bytes:
        """Return the answers since the last call."""
        replies, self._collected = "".join(self._collected), []
        return replies.encode()

    def answer(self, grid: Grid, name: str, given: Sequence[int]) -> None:
        """Answer the sequence ``name``, which has these parameters, if it is a question."""
        first = given[0]
        row = grid.row + 1 - (grid.top if 6 in grid.modes else 0)
        ansi = {4: grid.inserting, 20: grid.newline}
        replies = {
            "n5": "\x1b[0n",
            "n6": f"\x1b[{row};{grid.column + 1}R",
            "?n6": f"\x1b[?{row};{grid.column + 1}R",
            "c0": "\x1b[?62;22c",
            ">c0": "\x1b[>0;10;1c",
            ">q0": "\x1bP>|toolcrib\x1b\\",
            "t14": f"\x1b[4;{grid.rows * _CELL[0]};{grid.columns * _CELL[1]}t",
            "t18": f"\x1b[8;{grid.rows};{grid.columns}t",
            f"$p{first}": f"\x1b[{first};{2 - ansi[first] if first in ansi else 0}$y",
            f"?$p{first}": f"\x1b[?{first};{2 - (first in grid.modes) if first in sequences.MODES else 0}$y",
        }
        if reply := replies.get(f"{name}{first}"):
            self._add(reply)

    def colour(self, number: str, value: str, *, bell: bool) -> None:
        """Answer a question for a colour, ended as the question was."""
        if value == "?" and number in _COLOURS:
            self._add(f"\x1b]{number};{_COLOURS[number]}{chr(7) if bell else chr(27) + chr(92)}")

    def _add(self, reply: str) -> None:
        now = self._clock()
        self._left = min(_BURST, self._left + (now - self._at) * _EACH_SECOND)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            self._collected.append(reply)
