"""Running calls: their progress and activities, as rows of the chat's screen or as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.escape import one_line, tame

if TYPE_CHECKING:
    from agent.cli.screen.cells import Row
    from agent.events import ToolProgressed
    from toolcrib.contract.types import Json

OUTPUT, DIFFERENCE = "terminal-output", "file-difference"
"""Activities with their own display: the output of a command, and the diff of a file."""
MOST_ROWS = 5
_BAR, _SHORT_BAR, _NARROW = 20, 10, 50
_FIRST, _BETWEEN = 2.0, 5.0
"""Seconds before the first note about a call's progress, and between further notes."""
_STYLES: Mapping[str, str] = {"done": "ok", "failed": "bad", "cancelled": "warn"}
ENDED = frozenset(_STYLES)
"""States of a call that has ended."""


def output_lines(content: Json) -> list[str]:
    """Return the last lines of a command's output."""
    text = content.get("text") if isinstance(content, Mapping) else None
    lines = text.split("\n") if isinstance(text, str) else []
    return [tame(line).expandtabs(4) for line in [one for one in lines if one.strip()][-MOST_ROWS:]]


def progress_row(progress: ToolProgressed, columns: int) -> Row:
    """Return a bar with the share and the message; without a share, the message or the number of reports."""
    from agent.cli.screen.cells import shortened

    style = _STYLES.get(progress.status, "bullet")
    if progress.share is None:
        return ((shortened(progress_words(progress), columns), _STYLES.get(progress.status, "dim")),)
    cells = _BAR if columns >= _NARROW else _SHORT_BAR
    full = round(progress.share * cells)
    said = _said(progress)
    tail = f" {_percent(progress.share)}{f' {said}' if said else ''}"
    return (("█" * full, style), ("░" * (cells - full), "dim"), (shortened(tail, max(columns - cells, 0)), "dim"))


def progress_words(progress: ToolProgressed) -> str:
    """Return a call's progress as text, such as ``half of it, 50 %``."""
    share = "" if progress.share is None else _percent(progress.share)
    words = ", ".join(part for part in (_said(progress), share) if part)
    return words or f"{progress.reports:,} report{'' if progress.reports == 1 else 's'} of its work"


def _said(progress: ToolProgressed) -> str:
    state = "" if progress.status == "running" else progress.status
    return ": ".join(part for part in (state, one_line(progress.message)) if part)


def _percent(share: float) -> str:
    return f"{int(share * 100)} %"  # rounded down, so that 100 appears only at the end


def activity_rows(activity: str, content: Json, columns: int, most: int = MOST_ROWS) -> list[Row]:
    """Return an activity of a call in at most ``most`` rows: the end of a text, or the beginning of anything else."""
    from agent.cli.screen.cells import shortened

    name, lines = one_line(activity, 40), _lines(content, most)
    if len(lines) <= 1:
        return [((shortened(": ".join([name, *lines]), columns), "dim"),)]
    return [((shortened(text, columns), "dim"),) for text in (f"{name}:", *(f"  {line}" for line in lines))]


def _lines(content: Json, most: int) -> list[str]:
    if isinstance(content, Mapping) and len(content) == 1 and isinstance(content.get("text"), str):
        content = content["text"]
    if isinstance(content, str):
        said = [one_line(line) for line in content.split("\n") if line.strip()]
        return said if len(said) < most else said[-(most - 1) :]
    if isinstance(content, Mapping):
        return _first([f"{one_line(str(key), 60)}: {_value(one)}" for key, one in content.items()], most - 1)
    if isinstance(content, Sequence):
        return _first([_value(one) for one in content], most - 1)
    return [] if content is None else [_value(content)]


def _first(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], f"… {len(lines) - most + 1:,} more"]


def _value(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


class Spoken:
    """Progress of calls as lines of text: for calls that take a while, every few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[str, tuple[str, float, str]] = {}
        """Call id -> the tool's name, the time of the next line, and the last text, for each running call."""

    def started(self, call_id: str, name: str) -> None:
        """Record that a call begins."""
        self._calls[call_id] = (one_line(name, 40) or "?", self._clock() + _FIRST, "")

    def ended(self, call_id: str) -> None:
        """Forget a call that has ended."""
        self._calls.pop(call_id, None)

    def line(self, progress: ToolProgressed) -> str:
        """Return the line for this report, such as ``build: half of it, 50 %``, or "" if none is due."""
        name, due, before = self._calls.get(progress.call_id, ("", 0.0, ""))
        words = progress_words(progress)
        if not name or self._clock() < due or words == before:
            return ""
        self._calls[progress.call_id] = (name, self._clock() + _BETWEEN, words)
        return f"{name}: {words}"
