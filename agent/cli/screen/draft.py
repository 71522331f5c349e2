"""A draft: the user's input with large pastes collapsed, and its rows on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.escape import tame
from agent.cli.screen.cells import TEXT_WIDTH, Row, Span, chunks, folded, row_width, shortened, width
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from prompt_toolkit.buffer import CompletionState

MANY_LINES, MANY_CHARACTERS = 8, 1_000
"""A paste with this many lines or characters is shown as a label."""
_LABEL = Regex(r"\[pasted (\d+) lines?(?: #(\d+))?\]")
_MOST_ROWS = 8
"""Maximum number of rows of a long draft that are shown, around the cursor."""
_COMPLETIONS = 6
"""Maximum number of completions that are shown, including the selected one."""


class Pastes:
    """Pasted texts by label. Typed text that looks like a label but belongs to no paste stays as it is."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """Return the text that represents a paste in the draft: a label if the paste is large, else the paste itself."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines < MANY_LINES and len(text) < MANY_CHARACTERS:
            return text
        named = f"pasted {lines} line{'' if lines == 1 else 's'}"
        label, number = f"[{named}]", 1
        while label in self._texts and self._texts[label] != text:
            number += 1
            label = f"[{named} #{number}]"
        self._texts[label] = text
        return label

    def expand(self, draft: str) -> str:
        """Return the draft with labels replaced by the pasted texts."""
        return _LABEL.sub(lambda label: self._texts.get(label[0], label[0]), draft)


class DraftRows:
    """The rows of a draft, and the row and column of its cursor."""

    def __init__(self, rows: list[Row], cursor: tuple[int, int]) -> None:
        self.rows = rows
        self.cursor = cursor


def draft_rows(text: str, cursor: int, columns: int, *, prompt: str = "> ", style: str = "prompt") -> DraftRows:
    """Return the rows of a draft after its prompt, which may take several rows. ``cursor`` is an index in ``text``."""
    if width(prompt) > columns:
        *above, last = folded(((prompt, style),), columns)
        below = draft_rows(text, cursor, columns, prompt="".join(part for part, _ in last), style=style)
        return DraftRows([*above, *below.rows], (below.cursor[0] + len(above), below.cursor[1]))
    if text and width(prompt) * 2 > columns:  # no room beside the prompt
        below = draft_rows(text, cursor, columns, prompt="  ", style=style)
        return DraftRows([((prompt, style),), *below.rows], (below.cursor[0] + 1, below.cursor[1]))
    margin: Row = ((prompt, style),)
    blank: Row = ((" " * width(prompt), ""),)
    room = max(min(columns, TEXT_WIDTH) - width(prompt), 4)
    rows: list[Row] = []
    at = (0, 0)
    place = 0
    for line in text.split("\n"):
        inside = cursor - place
        if 0 <= inside <= len(line):
            before = chunks(_shown(line[:inside]), room)
            column = row_width(before[-1])
            at = (len(rows) + len(before) - 1, column)
        broken = chunks(_shown(line), room)
        if 0 <= inside <= len(line) and at[0] >= len(rows) and at[1] >= room:  # after a full row
            at = (at[0] + 1, 0)
            broken += [()] if at[0] - len(rows) == len(broken) else []
        rows += broken
        place += len(line) + 1
    shown = [(*(margin if number == 0 else blank), *row) for number, row in enumerate(rows)]
    first = max(0, min(at[0] - _MOST_ROWS + 1, len(shown) - _MOST_ROWS))
    window = shown[first : first + _MOST_ROWS]
    if first:
        window[0] = ((shortened(f"… {first} more above", columns), "dim"),) if at[0] > first else window[0]
    return DraftRows(window, (at[0] - first, at[1] + width(prompt)))


def said_rows(text: str, columns: int, sign: str = "> ") -> list[Row]:
    """Return the rows of a sent message after its sign; they stay on the screen."""
    rows: list[Row] = []
    for line in text.split("\n"):
        margin: Span = (sign if not rows else "  ", "prompt")
        broken = folded(_shown(line, "said"), min(columns, TEXT_WIDTH) - 2)
        rows += [(margin if number == 0 else ("  ", ""), *row) for number, row in enumerate(broken)]
    return rows


def _shown(text: str, style: str = "") -> Row:
    """Return the text as one span, with terminal controls escaped."""
    text = tame(text).replace("\t", "    ")
    return ((text, style),) if text else ()


def offered_rows(state: CompletionState, columns: int) -> list[Row]:
    """Return the rows of completions, or [] if there are none."""
    if not state.completions:
        return []
    chosen = state.complete_index or 0
    first = max(0, min(chosen - _COMPLETIONS + 1, len(state.completions) - _COMPLETIONS))
    rows: list[Row] = []
    for number, one in enumerate(state.completions[first : first + _COMPLETIONS], first):
        style = "chosen" if number == state.complete_index else ""
        name, about = one.display_text, one.display_meta_text
        rows.append((("  ", ""), (shortened(name, columns - 2), style), (f"  {about}" if about else "", "dim")))
    if len(state.completions) > _COMPLETIONS:
        rows.append(((f"  {len(state.completions)} in all", "dim"),))
    return rows
