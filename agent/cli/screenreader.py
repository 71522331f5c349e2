"""Ask questions on the chat's own screen: their text stays in the output above; an input line or choices replace the draft."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import tame
from agent.cli.screen import tty
from agent.cli.screen.cells import Row

if TYPE_CHECKING:
    from agent.cli.livescreen import LiveScreen
    from agent.cli.screen.frame import Board
    from agent.cli.screen.keyboard import Keyboard
    from tools.approval.prompt import PromptRow

_AWAY = 5.0
"""Seconds without a key after which the user may be looking elsewhere."""


_LEAST_COLUMNS, _LEAST_ROWS = 50, 20
"""Minimum size of a screen that lists the choices below each other."""
_STYLES: Mapping[str, str] = {"head": "ask"}
"""Style of a prompt's row -> its style on the screen, if they differ."""


class ScreenReader:
    """Shows questions on the screen and reads the answers: see agent.cli.ask.ChoiceReader."""

    def __init__(
        self, board: Board, screen: LiveScreen, keyboard: Keyboard, bell: str = "auto", notify: Callable[[], None] = lambda: None
    ) -> None:
        self._board = board
        self._screen = screen
        self._keyboard = keyboard
        self._bell = bell
        self._notify = notify
        self._notices: asyncio.TimerHandle | None = None
        self._shown = self._is_new = True
        self.settles = False
        """True while a question waits until the user stops typing."""

    def begin(self) -> None:
        """Begin a prompt. It accepts keys only after a pause in the typing."""
        self._is_new = True

    @property
    def size(self) -> tuple[int, int]:
        """Return the columns and rows that lines must fit."""
        painter = self._board.painter
        return painter.columns, painter.height + 1

    def show(self, text: str) -> None:
        self._shown = True
        self._screen.text(text)

    def show_rows(self, rows: Sequence[PromptRow]) -> None:
        self._shown = True
        self._board.add([_styled(row) for row in rows], "question")

    @property
    def lists_choices(self) -> bool:
        columns, rows = self._board.painter.size
        return columns >= _LEAST_COLUMNS and rows >= _LEAST_ROWS

    @property
    def reads_keys(self) -> bool:
        """Return True: the chat's own screen requires a terminal that can read keys."""
        return True

    async def read_key(self, row: Callable[[int], str], letters: str = "", at_once: str = "") -> str:
        return await self.read_choice(lambda columns: [((row(columns), "strong"),)], str, letters, at_once)

    async def read_choice(
        self, rows: Callable[[int], Sequence[Row]], title: Callable[[], str], letters: str, at_once: str
    ) -> str:
        quiet, self._shown, self._is_new = self._is_new, False, False
        self._begins(quiet)
        try:
            return await self._keyboard.read_key(rows, title, letters, at_once, quiet=quiet, settled=self._settled)
        finally:
            self._ends()

    async def read_line(self, prompt: str, *, stays: bool = True) -> str:
        quiet, self._shown = self._shown, False
        self._begins(quiet)
        try:
            line = await self._keyboard.read_line(prompt, quiet=quiet, settled=self._settled)
        finally:
            self._ends()
        if stays:
            self._screen.text(f"{prompt}{line}")
        return line

    def _begins(self, quiet: bool) -> None:
        """Show that a question waits. If it is new (``quiet``), ring the bell, as configured, and notify an absent user."""
        self.settles = quiet
        self._board.changed()
        if quiet and (self._bell == "always" or (self._bell == "auto" and self._keyboard.pause.idle >= _AWAY)):
            tty.write("\a")
        if quiet:
            self._notify_absent()

    def _notify_absent(self) -> None:
        """Notify the user as soon as no key has been pressed for ``_AWAY`` seconds."""
        left = _AWAY - self._keyboard.pause.idle
        if left > 0:
            self._notices = asyncio.get_running_loop().call_later(left, self._notify_absent)
        else:
            self._notify()

    def _ends(self) -> None:
        self.settles = False
        if self._notices is not None:
            self._notices.cancel()

    def _settled(self) -> None:
        self.settles = False


def _styled(row: PromptRow) -> Row:
    """Return the row with its margin and its text in their styles."""
    text = tame(row)
    parts = ((text[: row.margin], "mark"), (text[row.margin :], _STYLES.get(row.style, row.style)))
    return tuple(part for part in parts if part[0])
