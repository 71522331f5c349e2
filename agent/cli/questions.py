"""Questions on the chat's own screen: their lines stay, and the answer is typed in the place of the draft."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.cli.liveview import LiveView
    from agent.cli.screen.board import Board
    from agent.cli.screen.keyboard import Keyboard


class QuestionLines:
    """The screen, for questions: see agent.cli.ask.LineReader."""

    def __init__(self, board: Board, view: LiveView, keyboard: Keyboard) -> None:
        self._board = board
        self._view = view
        self._keyboard = keyboard
        self._shown = True
        self.settles = False
        """True while a question waits for the person to stop typing."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows that lines are broken for."""
        painter = self._board.painter
        return painter.columns, painter.height + 1

    def show(self, text: str) -> None:
        self._shown = True
        self._view.screen.text(text)

    async def read_line(self, prompt: str) -> str:
        quiet, self._shown = self._shown, False
        self.settles = quiet
        self._board.changed()
        try:
            line = await self._keyboard.read_line(prompt, quiet=quiet, settled=self._settled)
        finally:
            self.settles = False
        self._view.screen.text(f"{prompt}{line}")
        return line

    def _settled(self) -> None:
        self.settles = False
