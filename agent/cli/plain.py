"""A chat's screen that only adds lines: below each call of the model what matters of it, and the whole by its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.cli.calls import call_words, finished_rows, whole_of
from agent.cli.render import Screen, brief_line
from agent.cli.screen.cells import plain
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from toolcrib import ExecutedCall, ToolCall

_KEPT = 200
"""Calls whose wholes are remembered."""
_IN_WORDS: Mapping[str, str] = {"○": "to do:", "▸": "at work:", "✓": "done:", "-": "dropped:", "…": "left out:"}


class PlainScreen(Screen):
    """Output of a chat for a screen reader, with ``words``, or a dumb terminal."""

    def __init__(self, *, words: bool) -> None:
        super().__init__(interactive=True, words=words)
        self._number = 0
        self._wholes: dict[int, str] = {}

    def opened(self, call: ToolCall, emoji: str) -> None:
        self.line(f"{call_words(call, self._sign(emoji, 'begins:'), self.width)} ...")

    def closed(self, executed: ExecutedCall, emoji: str) -> None:
        self._number += 1
        self._wholes[self._number] = whole_of(executed)
        self._wholes.pop(self._number - _KEPT, None)
        self.line(f"{self._ended(executed, emoji)}  #{self._number}")
        if executed.result.is_success:
            rows = finished_rows(executed, emoji, self._number, max(self.width - 1, 20), whole=False)[1:]
            for line in map(plain, rows):
                self.line(self._worded(line))

    def _ended(self, executed: ExecutedCall, emoji: str) -> str:
        line, sign = brief_line(executed, self._sign(emoji, "ended:")), self._sign(emoji, "ended:")
        if executed.call.name != "todo" or not executed.result.is_success:
            return line
        return f"{call_words(executed.call, sign, self.width)}  ok"  # its arguments are the list below

    def _worded(self, line: str) -> str:
        sign, blank, rest = line.strip().partition(" ")
        return f"  {_IN_WORDS[sign]}{blank}{rest}" if self.words and line.startswith("  ") and sign in _IN_WORDS else line

    def whole(self, number: int | None) -> str:
        """Return the whole of a call, the last one for None. Raises ToolcribError where there is none of that number."""
        wanted = max(self._wholes, default=0) if number is None else number
        if wanted not in self._wholes:
            known = f"there are items from {min(self._wholes)} to {max(self._wholes)}" if self._wholes else "none was shown yet"
            raise ToolcribError(f"there is no item {wanted}; {known}")
        return self._wholes[wanted].rstrip("\n")
