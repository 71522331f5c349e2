"""Calls at work: how far they say they are, and what they show meanwhile, as rows of the chat's screen or in words."""

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
"""Activities of the tools here that are shown in a way of their own."""
MOST_ROWS = 5
_BAR, _SHORT_BAR, _NARROW = 20, 10, 50
_FIRST, _BETWEEN = 2.0, 5.0
"""Seconds of a call until its progress is told in words, and between two times of that."""
_STYLES: Mapping[str, str] = {"done": "ok", "failed": "bad", "cancelled": "warn"}
ENDED = frozenset(_STYLES)
"""States of a call that has nothing more to do."""


def output_lines(content: Json) -> list[str]:
    """Return the last lines of what a command printed."""
    text = content.get("text") if isinstance(content, Mapping) else None
    lines = text.split("\n") if isinstance(text, str) else []
    return [tame(line).expandtabs(4) for line in [one for one in lines if one.strip()][-MOST_ROWS:]]


def progress_row(progress: ToolProgressed, columns: int) -> Row:
    """Return a bar with the share and the message; without a share the message, or how many reports there were."""
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
    """Word how far a call is: ``half of it, 50 %``."""
    share = "" if progress.share is None else _percent(progress.share)
    words = ", ".join(part for part in (_said(progress), share) if part)
    return words or f"{progress.reports:,} report{'' if progress.reports == 1 else 's'} of its work"


def _said(progress: ToolProgressed) -> str:
    state = "" if progress.status == "running" else progress.status
    return ": ".join(part for part in (state, one_line(progress.message)) if part)


def _percent(share: float) -> str:
    return f"{int(share * 100)} %"  # 100 is said at the end only


def activity_rows(activity: str, content: Json, columns: int, most: int = MOST_ROWS) -> list[Row]:
    """Return what a call shows as ``activity``, in ``most`` rows at most: of a text the end, of all else the beginning."""
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
    """Progress of calls in words, for those who read lines: of a call that takes its time, and then every few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[str, tuple[str, float, str]] = {}
        """(its name, when it is next told of, what was told last) of each call at work."""

    def started(self, call_id: str, name: str) -> None:
        """Note that a call begins."""
        self._calls[call_id] = (one_line(name, 40) or "?", self._clock() + _FIRST, "")

    def ended(self, call_id: str) -> None:
        """Forget a call."""
        self._calls.pop(call_id, None)

    def line(self, progress: ToolProgressed) -> str:
        """Return what is to be told of this report: ``build: half of it, 50 %``, or "" where nothing is."""
        name, due, before = self._calls.get(progress.call_id, ("", 0.0, ""))
        words = progress_words(progress)
        if not name or self._clock() < due or words == before:
            return ""
        self._calls[progress.call_id] = (name, self._clock() + _BETWEEN, words)
        return f"{name}: {words}"
