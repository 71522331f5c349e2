"""The chat's screen outside of runs, with the methods of agent.cli.render.Screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.calls import diff_rows
from agent.cli.escape import tame
from agent.cli.screen.cells import TEXT_WIDTH, Row, folded, width, words_of
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image

if TYPE_CHECKING:
    from agent.cli.screen.frame import Board


class LiveScreen:
    """Prints notes, faults and results of commands."""

    interactive = True
    words = False

    def __init__(self, board: Board) -> None:
        self._board = board

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self._board.columns

    def print_note(self, text: str) -> None:
        """Print a note about the chat itself."""
        self._words(text, "dim")

    def fault(self, text: str) -> None:
        self._words(text, "bad")

    def text(self, text: str) -> None:
        """Print a text, with terminal controls escaped."""
        rows: list[Row] = []
        for line in tame(text).split("\n"):
            rows += folded(((line.expandtabs(8), ""),) if line else (), self.width)
        self._board.add(rows)

    def diff(self, text: str) -> None:
        """Print a unified diff in colours."""
        self._board.add(diff_rows(text, self.width, named=True))

    def draw(self, image: Image) -> None:
        """Draw an image below the printed rows, if this terminal is known to support it."""
        from agent.cli.picturing import drawn, protocol_of
        from agent.cli.screen import tty

        if self._board.is_painting and (sequence := drawn(image, protocol_of(), self.width)):
            with self._board.aside():
                tty.write(sequence)

    def whole(self, number: int | None) -> str:
        """Raise ToolcribError: LiveView has the chat's items."""
        raise ToolcribError("this screen has no items")

    def _words(self, text: str, style: str) -> None:
        rows: list[Row] = []
        for line in tame(text).expandtabs(8).split("\n"):
            blanks = len(line) - len(line.lstrip(" "))
            if width(line) <= self.width or "  " in line.strip():  # columns stay aligned
                rows += folded(((line, style),) if line else (), self.width)
                continue
            margin: Row = ((line[:blanks], ""),) if blanks else ()
            rows += [(*margin, *row) for row in words_of(line, style, max(min(self.width, TEXT_WIDTH) - blanks, 8))]
        self._board.add(rows)
