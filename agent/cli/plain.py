"""A chat's screen that only adds lines: each call of the model with its important part, and the full text of a call by its
number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.cli.calls import call_words, finished_rows
from agent.cli.render import Screen, brief_line
from agent.cli.screen.cells import plain
from agent.cli.show_item import diff_of, whole_of
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from toolcrib.contract.display import ToolDisplay
    from toolcrib.contract.session import ExecutedCall
    from toolcrib.contract.types import ToolCall

_KEPT = 200
"""Maximum number of calls whose full text is kept."""
_IN_WORDS: Mapping[str, str] = {"○": "to do:", "▸": "doing:", "✓": "done:", "-": "dropped:", "…": "left out:"}
_OF_DIFF: Mapping[str, str] = {"+": "added:", "-": "removed:"}


class PlainScreen(Screen):
    """Output of a chat for a dumb terminal, or with ``words`` for a screen reader."""

    def __init__(self, *, words: bool) -> None:
        super().__init__(interactive=True, words=words)
        self._number = 0
        self._wholes: dict[int, str] = {}
        self._differs: dict[str, str] = {}
        """Call id -> diff of the file that a running call replaced."""

    def opened(self, call: ToolCall, display: ToolDisplay) -> None:
        self.line(f"{call_words(call, self._sign(display, 'begins:'), self.width)} ...")

    def differs(self, call_id: str, diff: str) -> None:
        self._differs[call_id] = diff

    def closed(self, executed: ExecutedCall, display: ToolDisplay, *, timed: bool = True) -> None:
        self._number += 1
        differs = self._differs.pop(executed.call.id, None)
        diff = diff_of(executed, differs)
        self._wholes[self._number] = f"{whole_of(executed, display)}\n{diff}".rstrip()
        self._wholes.pop(self._number - _KEPT, None)
        sign = self._sign(display, "ended:")
        self.line(f"{brief_line(executed, sign, call_words(executed.call, sign, self.width), timed=timed)}  #{self._number}")
        if executed.result.is_success:
            columns = max(self.width - 1, 20)
            numbered = not self.words
            rows = finished_rows(executed, display, self._number, columns, whole=False, differs=differs, numbered=numbered)[1:]
            is_diff = bool(diff) or display.below == "content"
            for line in map(plain, rows):
                self.line(self._worded(line, is_diff=is_diff))

    def _worded(self, line: str, *, is_diff: bool) -> str:
        if not self.words or not line.startswith("  "):
            return line
        if is_diff and line[2:3] in _OF_DIFF:
            return f"  {_OF_DIFF[line[2:3]]} {line[3:]}"
        sign, blank, rest = line.strip().partition(" ")
        return f"  {_IN_WORDS[sign]}{blank}{rest}" if sign in _IN_WORDS else line

    def whole(self, number: int | None) -> str:
        """Return the full text of the call with this number; None means the last one. Raises ToolcribError if it does not
        exist.
        """
        wanted = max(self._wholes, default=0) if number is None else number
        if wanted not in self._wholes:
            known = f"the items are {min(self._wholes)} to {max(self._wholes)}" if self._wholes else "there are no items yet"
            raise ToolcribError(f"there is no item {wanted}; {known}")
        return self._wholes[wanted].rstrip("\n")
