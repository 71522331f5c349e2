"""What people see of calls and lists. Colours only on a terminal; the renderer is loaded when there is one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO
from unicodedata import category, east_asian_width

from agent.cli.escape import tame
from toolcrib import ExecutedCall, ToolCall, ToolCallStatus
from tools.dispatch.faces import as_json

_OUTCOMES = {
    ToolCallStatus.SUCCEEDED: ("ok", "green"),
    ToolCallStatus.FAILED: ("failed", "red"),
    ToolCallStatus.CANCELLED: ("interrupted", "yellow"),
    ToolCallStatus.SUSPENDED: ("waits for an answer", "yellow"),
}


def outcome(executed: ExecutedCall) -> tuple[str, str]:
    """(one word or few, colour)"""
    if executed.result.failure is not None and executed.result.failure.kind == "Denied":
        return "denied", "red"
    return _OUTCOMES.get(executed.status, (executed.status.value, "red"))


def result_text(executed: ExecutedCall) -> str:
    """The result for a person, safe to print."""
    result = executed.result
    view = result.views.get("person")
    if view is None and (failure := result.failure) is not None and failure.text:
        expected = isinstance(result.data, dict) and "error" in result.data  # a ToolError: its text says all
        view = failure.text if expected else f"{failure.kind}: {failure.text}"
    if view is None and not result.is_success:
        view = result.message or as_json(executed)
    if view is None:
        view = result.data if isinstance(result.data, str) else json.dumps(result.data, ensure_ascii=False, indent=2, default=str)
        view = view if result.message is None else f"{result.message}\n{view}"
    return tame(view).rstrip("\n")


def call_line(executed: ExecutedCall, emoji: str) -> str:
    """``💻 terminal  0.12 s  ok``"""
    return f"{emoji or '🔧'} {tame(executed.call.name) or '?'}  {_seconds(executed.duration)}  {outcome(executed)[0]}"


def _seconds(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 0.1 else f"{duration:.1f} s"


class Screen:
    """Where a chat shows things: results on ``out``; the lines about them there too on a terminal, else on stderr."""

    def __init__(self, *, interactive: bool) -> None:
        self._interactive = interactive
        self._console: Any = None

    def started(self, call: ToolCall, emoji: str) -> None:
        """So that a person sees what a long silence is about."""
        if self._interactive:
            self._styled(f"{emoji or '🔧'} {tame(call.name)} ...", "dim")

    def call(self, executed: ExecutedCall, emoji: str) -> None:
        line = call_line(executed, emoji)
        if not self._interactive:
            print(line, file=sys.stderr)
        else:
            self._styled(line, outcome(executed)[1])
        text = result_text(executed)
        if text:
            self.text(text)

    def note(self, text: str) -> None:
        """About the chat itself, not part of any result."""
        if self._interactive:
            self._styled(text, "dim")
        else:
            print(text, file=sys.stderr)

    def text(self, text: str, end: str = "\n") -> None:
        print(tame(text), end=end, flush=True)

    def _styled(self, text: str, style: str) -> None:
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._console.print(text, style=style)


def table(rows: Sequence[Sequence[str]], *, out: TextIO | None = None) -> None:
    """Columns padded to their widest cell; the last one is cut to the terminal's width, where there is one."""
    if not rows:
        return
    stream = out or sys.stdout
    cells = [[tame(cell) for cell in row] for row in rows]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    room = max(20, shutil.get_terminal_size().columns - sum(widths) - 2 * len(widths)) if stream.isatty() else None
    for row in cells:
        padded = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)]
        last = row[-1] if room is None or _width(row[-1]) <= room else f"{row[-1][: room - 1]}…"
        print("  ".join([*padded, last]).rstrip(), file=stream)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    # U+FE0F asks for the wide, coloured form of the character before it.
    return sum(
        2 if east_asian_width(char) in "WF" else char == "\ufe0f" or category(char) not in ("Mn", "Me", "Cf") for char in text
    )


def first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")
