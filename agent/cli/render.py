"""Rendering of calls and lists for people. Colours only on a terminal; the renderer is loaded when there is one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO
from unicodedata import category, east_asian_width

from agent.cli.escape import one_line, tame
from agent.cli.live import LiveLine
from toolcrib import ExecutedCall, ToolCall, ToolCallStatus
from tools.dispatch.faces import as_json, images_of

_OUTCOMES = {
    ToolCallStatus.SUCCEEDED: ("ok", "green"),
    ToolCallStatus.FAILED: ("failed", "red"),
    ToolCallStatus.CANCELLED: ("interrupted", "yellow"),
    ToolCallStatus.SUSPENDED: ("waits for an answer", "yellow"),
}


def outcome(executed: ExecutedCall) -> tuple[str, str]:
    """(one word or few, colour). A call whose end is not on record is never shown as one that succeeded."""
    if executed.unrecorded and executed.status is ToolCallStatus.SUCCEEDED:
        return "it ran; its end could not be recorded", "red"
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
    return "\n".join([tame(view).rstrip("\n"), *map(str, images_of(executed))])


def call_line(executed: ExecutedCall, emoji: str) -> str:
    """``💻 terminal  0.12 s  ok``"""
    return f"{emoji or '🔧'} {tame(executed.call.name) or '?'}  {_seconds(executed.duration)}  {outcome(executed)[0]}"


def _seconds(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 0.1 else f"{duration:.1f} s"


def short_args(args: Any, limit: int = 60) -> str:
    """The arguments in a few words: ``ls -la``, or ``path=a.py start=10``."""
    if not isinstance(args, Mapping):
        return one_line(str(args), limit)
    if len(args) == 1 and isinstance(only := next(iter(args.values())), str):
        return one_line(only, limit)
    return one_line(" ".join(f"{name}={_short(value)}" for name, value in args.items()), limit)


def brief_line(executed: ExecutedCall, emoji: str) -> str:
    """Return a line about a model's call: ``💻 terminal  ls -la  0.1 s  ok``, and the reason where it went wrong."""
    call, result = executed.call, executed.result
    parts = [
        f"{emoji or '🔧'} {tame(call.name) or '?'}",
        short_args(call.args),
        _seconds(executed.duration),
        outcome(executed)[0],
    ]
    if isinstance(result.data, dict) and (where := result.data.get("where", "local")) != "local":
        parts.append(one_line(str(where), 60))
    line = "  ".join(part for part in parts if part)
    if result.is_success:
        return " ".join([line, *map(str, result.images)])
    word, why = parts[3], one_line(" · ".join(filter(None, map(str.strip, result_text(executed).splitlines()))), 160)
    return f"{line}{why.removeprefix(word)}" if why.startswith(f"{word};") else f"{line}: {why}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, 40)


class Screen:
    """The output of a chat: results on ``out``; the lines about them there too on a terminal, else on stderr."""

    def __init__(self, *, interactive: bool, color: str = "auto") -> None:
        self.interactive = interactive
        self._color = color
        self._console: Any = None
        self._live = LiveLine(lambda: self.console)
        self._calling = ""

    @property
    def console(self) -> Any:
        """The rich Console, made when it is first needed."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(
                highlight=False,
                markup=False,
                emoji=False,
                soft_wrap=True,
                no_color=True if self._color == "never" else None,
                force_terminal=True if self._color == "always" else None,
            )
        return self._console

    def waits(self, what: str) -> None:
        """Show what a silence is about. The next output replaces the line."""
        if self.interactive:
            self._live.begin(what, stays=False)

    def stop_waiting(self) -> None:
        self._live.stop_waiting()

    def started(self, call: ToolCall, emoji: str) -> None:
        """A call by hand: a line that ``call`` replaces when it has ended, if nothing else was shown meanwhile."""
        self._calls(f"{emoji or '🔧'} {one_line(call.name)}")

    def call(self, executed: ExecutedCall, emoji: str) -> None:
        """The line about it, and its result."""
        self._ended()
        self.line(call_line(executed, emoji), outcome(executed)[1])
        text = result_text(executed)
        if text:
            self.text(text)

    def opened(self, call: ToolCall, emoji: str) -> None:
        """A model's call: a line that ``closed`` replaces, in the same way."""
        self._calls(f"{emoji or '🔧'} {one_line(call.name)}  {short_args(call.args)}".rstrip())

    def closed(self, executed: ExecutedCall, emoji: str) -> None:
        self._ended()
        self.line(brief_line(executed, emoji), outcome(executed)[1])

    def goes_on(self) -> None:
        """The call that was asked about may go on: its line is shown again."""
        if self._calling:
            self._live.begin(self._calling, stays=False)

    def _calls(self, text: str) -> None:
        if self.interactive:
            self._calling = text
            self._live.begin(text, stays=True)

    def _ended(self) -> None:
        self._calling = ""
        self._live.erase()

    def settle(self) -> None:
        """End the line: the next output begins on a new one."""
        self._live.settle()

    def line(self, text: str, style: str) -> None:
        if self.interactive:
            self._styled(text, style)
        else:
            print(text, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print a note about the chat itself, which is no part of a result."""
        self.settle()
        self.line(text, "dim")

    def fault(self, text: str) -> None:
        self.settle()
        self.line(text, "red")

    def text(self, text: str, end: str = "\n") -> None:
        self.settle()
        print(tame(text), end=end, flush=True)

    def _styled(self, text: str, style: str) -> None:
        self.console.print(text, style=style)


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
