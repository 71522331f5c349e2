"""Usage in words and columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from agent.cli.stories import ID_CHARS
from agent.usage import By, UsageTotal, total, with_delegates

if TYPE_CHECKING:
    from toolcrib._store import Store

_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NAME = 40


def usage_rows(found: Sequence[UsageTotal], by: By, titles: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the rows of a table, with its heading and a bar behind each; ``titles`` are those of sessions, by id."""
    columns = _TOOL if by == "tool" else _TOKENS
    size: Callable[[UsageTotal], float] = (lambda one: one.calls) if by == "tool" else (lambda one: one.tokens)
    most = max(map(size, found), default=0.0)
    rows = [(by.upper(), *columns, "")]
    for one in found:
        name = one.name[:ID_CHARS] if by == "session" else one_line(one.name, _NAME)
        bar = _bar(size(one), most)
        if by == "session":
            bar = f"{bar:<{_BAR}}  {one_line(titles.get(one.name, ''), 2 * _NAME)}"
        rows.append((name, *(show(one) for show in columns.values()), bar))
    widths = [max(len(row[place]) for row in rows) for place in range(1, len(columns) + 1)]
    return [(row[0], *(cell.rjust(width) for cell, width in zip(row[1:-1], widths, strict=True)), row[-1]) for row in rows]


def spare_of(by: By) -> tuple[int, ...]:
    """Return the columns that are left out where the terminal is narrow, those first that are needed least."""
    return {"tool": (5, 4), "session": (5, 3, 1, 2)}.get(by, (5, 3, 7, 1))


def told(one: UsageTotal) -> str:
    """Return a total in one line of words."""
    cached = f" ({one.cached:,} cached)" if one.cached else ""
    thought = f" ({one.reasoning:,} reasoning)" if one.reasoning else ""
    turns, calls = f"{one.turns} turn{'' if one.turns == 1 else 's'}", f"{one.calls} call{'' if one.calls == 1 else 's'}"
    cost = "no prices are set (model.prices)" if one.cost is None else f"cost {_cost(one)}"
    return f"{turns}, {calls}; {one.input:,} tokens in{cached}, {one.output:,} out{thought}; {cost}"


def told_with(delegates: int, one: UsageTotal) -> str:
    """Return the total of a session with its delegates in a line of its own."""
    return f"with {'its delegate' if delegates == 1 else f'its {delegates} delegates'}: {told(one)}"


async def lines_of(store: Store, session_id: str) -> list[str]:
    """Return what a session took, and where it had delegates what it took with them. Raises StoreFailed."""
    own = total(await store.usage.sums(session_id=session_id))
    delegates, together = await with_delegates(store, session_id)
    return [told(own), *([told_with(delegates, together)] if delegates else [])]


def _cost(one: UsageTotal) -> str:
    """A plus behind it: some of it had no price."""
    return "-" if one.cost is None else f"{one.cost:.4f}{'+' if one.unpriced else ''}"


def _mean(one: UsageTotal) -> str:
    return f"{one.seconds / one.calls:.2f}" if one.calls else "-"


_TOKENS: Mapping[str, Callable[[UsageTotal], str]] = {
    "TURNS": lambda one: f"{one.turns:,}",
    "INPUT": lambda one: f"{one.input:,}",
    "CACHED": lambda one: f"{one.cached:,}",
    "OUTPUT": lambda one: f"{one.output:,}",
    "REASONING": lambda one: f"{one.reasoning:,}",
    "COST": _cost,
}
_TOOL: Mapping[str, Callable[[UsageTotal], str]] = {
    "CALLS": lambda one: f"{one.calls:,}",
    "FAILED": lambda one: f"{one.failed:,}",
    "SECONDS": lambda one: f"{one.seconds:,.1f}",
    "MEAN": _mean,
}


def _bar(size: float, most: float) -> str:
    """Draw a bar, at least one mark wide for anything at all."""
    if not size or not most:
        return ""
    eighths = max(1, round(size / most * _BAR * 8))
    if "utf" not in (sys.stdout.encoding or "").lower():
        return "#" * max(1, round(eighths / 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
