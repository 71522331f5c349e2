"""Usage summed by day, session, model and tool."""

from __future__ import annotations

from agent.usage import BY, total, totals
from toolcrib.contract.store import UsageSum

SUMS = [
    UsageSum("a", "2026-11-01", "m", "chat", "", 2, 0, 30, 5, 4, 1, 0.75, 0.0),
    UsageSum("a", "2026-11-01", "", "", "terminal", 3, 1, 0, 0, 0, 0, None, 2.0),
    UsageSum("a", "2026-11-02", "big", "anthropic", "", 1, 0, 100, 50, 0, 0, None, 0.0),
    UsageSum("b", "2026-11-02", "m", "chat", "", 1, 0, 10, 1, 0, 0, 0.25, 0.0),
    UsageSum("b", "2026-11-02", "", "", "todo", 5, 0, 0, 0, 0, 0, None, 0.5),
]


def test_every_way_counts_the_same() -> None:
    names = {by: [one.name for one in totals(SUMS, by)] for by in BY}
    assert names == {
        "day": ["2026-11-01", "2026-11-02"], "session": ["a", "b"], "model": ["big (anthropic)", "m (chat)"],
        "tool": ["todo", "terminal"],
    }  # fmt: skip
    for by in ("day", "session", "model"):
        assert sum(one.tokens for one in totals(SUMS, by)) == 196  # type: ignore[arg-type]  # our own names
    assert sum(one.calls for one in totals(SUMS, "tool")) == sum(one.calls for one in totals(SUMS, "session")) == 8


def test_what_had_no_price_is_counted() -> None:
    first, second = totals(SUMS, "day")
    assert (first.turns, first.calls, first.failed, first.seconds, first.cost, first.unpriced) == (2, 3, 1, 2.0, 0.75, 0)
    assert (second.turns, second.cost, second.unpriced) == (2, 0.25, 1)
    assert totals(SUMS, "model")[0].cost is None
    everything = total(SUMS)
    assert (everything.input, everything.output, everything.cached, everything.reasoning, everything.cost) == (140, 56, 4, 1, 1.0)
    assert totals([], "day") == []
