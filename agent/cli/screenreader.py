"""The chat's own screen, for questions: rows that stay above, the line that answers where the draft is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.cli.interactive import InteractiveChat


class ScreenReader:
    """The screen, for questions: see agent.cli.ask.LineReader."""

    def __init__(self, chat: InteractiveChat) -> None:
        self._chat = chat
        self._shown = True
        self.settles = False
        """True while a question waits for the person to stop typing."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows that lines are broken for."""
        painter = self._chat.board.painter
        return painter.columns, painter.height + 1

    def show(self, text: str) -> None:
        self._shown = True
        self._chat.view.screen.text(text)

    async def read_line(self, prompt: str) -> str:
        quiet, self._shown = self._shown, False
        self.settles = quiet
        self._chat.board.changed()
        try:
            line = await self._chat.keyboard.read_line(prompt, quiet=quiet, settled=self._settled)
        finally:
            self.settles = False
        self._chat.view.screen.text(f"{prompt}{line}")
        return line

    def _settled(self) -> None:
        self.settles = False
