"""Format usage as text and as table rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from agent.cli.short_forms import ID_CHARS
from agent.usage import By, SessionUsage, UsageTotal, of_session, sums_of

if TYPE_CHECKING:
    from toolcrib.contract.store import Store

_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NAME = 40


def usage_rows(found: Sequence[UsageTotal], by: By) -> list[tuple[str, ...]]:
    """Return table rows: a heading, then one row for each total, which ends with a bar."""
    return _rows([(one_line(one.name, _NAME), one, "") for one in found], by)


def session_rows(found: Sequence[SessionUsage], titles: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return table rows: a heading, then each session, and below it the share of its delegates. ``titles`` maps ids to titles."""
    rows: list[tuple[str, UsageTotal, str]] = []
    for one in found:
        name = one.whole.name
        rows.append((name[:ID_CHARS], one.whole, one_line(titles.get(name, ""), 2 * _NAME)))
        if one.delegates:
            rows.append((f"  {_part(one)}", one.below, ""))
    return _rows(rows, "session")


def _part(one: SessionUsage) -> str:
    count = len(one.delegates)
    return f"including {count} delegate{'' if count == 1 else 's'}"


def _rows(found: Sequence[tuple[str, UsageTotal, str]], by: By) -> list[tuple[str, ...]]:
    columns = _TOOL if by == "tool" else _TOKENS
    size: Callable[[UsageTotal], float] = (lambda one: one.calls) if by == "tool" else (lambda one: one.tokens)
    most = max((size(one) for _, one, _ in found), default=0.0)
    rows = [(by.upper(), *columns, "")]
    for name, one, title in found:
        bar = _bar(size(one), most)
        if by == "session":
            bar = f"{bar:<{_BAR}}  {title}".rstrip()
        rows.append((name, *(show(one) for show in columns.values()), bar))
    widths = [max(len(row[place]) for row in rows) for place in range(1, len(columns) + 1)]
    return [(row[0], *(cell.rjust(width) for cell, width in zip(row[1:-1], widths, strict=True)), row[-1]) for row in rows]


def spare_of(by: By) -> tuple[int, ...]:
    """Return the columns that a narrow terminal drops, least important first."""
    return {"tool": (5, 4), "session": (5, 3, 1, 2)}.get(by, (5, 3, 7, 1))


def format_total(one: UsageTotal) -> str:
    """Return a total as one line of text."""
    cached = f" ({one.cached:,} cached)" if one.cached else ""
    thought = f" ({one.reasoning:,} reasoning)" if one.reasoning else ""
    turns, calls = f"{one.turns} turn{'' if one.turns == 1 else 's'}", f"{one.calls} call{'' if one.calls == 1 else 's'}"
    cost = "cost unknown: no turn has a price (model.prices)" if one.cost is None else f"cost {_cost(one)}"
    cost += f" (estimated by {one.estimated})" if one.estimated else ""
    return f"{turns}, {calls}; {one.input:,} tokens in{cached}, {one.output:,} out{thought}; {cost}"


def told_parts(one: SessionUsage) -> list[str]:
    """Return a line about a session with its delegates and, if it has delegates, another line about their share."""
    return [format_total(one.whole), *([f"{_part(one)}: {format_total(one.below)}"] if one.delegates else [])]


async def lines_of(store: Store, session_id: str) -> list[str]:
    """Return the lines of ``told_parts`` for the session with this id. Raises StoreFailed."""
    return told_parts(of_session(session_id, await sums_of(store, session_id)))


def _cost(one: UsageTotal) -> str:
    """Return the cost, with ``~`` before an estimate, and ``+`` at the end if part of the usage has no price."""
    return "-" if one.cost is None else f"{'~' if one.estimated else ''}{one.cost:.4f}{'+' if one.unpriced else ''}"


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
    """Return a bar, at least one mark wide unless the size is 0."""
    if not size or not most:
        return ""
    eighths = max(1, round(size / most * _BAR * 8))
    if "utf" not in (sys.stdout.encoding or "").lower():
        return "#" * max(1, round(eighths / 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
