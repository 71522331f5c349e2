"""The question that is open: a line, a key, or an item of a list answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agent.cli.screen.cells import Row, row_width
from agent.cli.screen.draft import DraftRows, draft_rows
from agent.cli.screen.list_picker import ListPicker
from agent.cli.screen.onekey import OneKey

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer


class OpenQuestion:
    """A question. With ``choosing``, a key answers it, and ``choices`` returns its rows; otherwise a line after ``prompt``
    answers it. With ``picker``, that line searches a list. ``line`` receives the answer, or the class of an exception to raise.
    """

    def __init__(
        self,
        prompt: str = "",
        *,
        choices: Callable[[int], Sequence[Row]] = lambda columns: (),
        title: Callable[[], str] = str,
        choosing: OneKey | None = None,
        picker: ListPicker | None = None,
    ) -> None:
        self._prompt = prompt
        self._choices = choices
        self.title = title
        self.choosing = choosing
        self.picker = picker
        self.line: asyncio.Future[str | type[BaseException]] = asyncio.get_running_loop().create_future()

    @property
    def letters(self) -> str:
        """The letters that answer, "" if a line does."""
        return "" if self.choosing is None else self.choosing.letters

    def rows(self, draft: Buffer, answer: Buffer, columns: int, height: int) -> DraftRows:
        """Return the rows of the question. A draft is shown above choices; ``height`` is the number of the screen's rows."""
        if self.choosing is not None:
            return self._choice_rows(draft, self.choosing, columns)
        line = draft_rows(answer.text, answer.cursor_position, columns, prompt=self._prompt, style="strong")
        items = [] if self.picker is None else self.picker.rows(columns, height)
        return DraftRows([*line.rows, *items], line.cursor)

    def _choice_rows(self, draft: Buffer, choosing: OneKey, columns: int) -> DraftRows:
        choices = self._choices(columns)
        row, column = len(choices) - 1, row_width(choices[-1])
        if not draft.text:
            return DraftRows([*choices], (row, column))
        shown = draft_rows(draft.text, draft.cursor_position, columns)
        at = shown.cursor if choosing.is_typing else (len(shown.rows) + row, column)
        return DraftRows([*shown.rows, *choices], at)
