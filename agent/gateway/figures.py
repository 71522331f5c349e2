"""Figures of one platform: runs and waiting times, since the start and in the last minutes, without any user ids."""

from __future__ import annotations

import bisect
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.events import Event, TextDelta, TurnStarted
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.conversation.state import RunResult

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
"""Upper bounds of a distribution's buckets, in seconds."""
MINUTES = 5
"""Minutes that rates cover."""
_LAST = 200
"""Number of latest durations that the median and the 95th percentile cover."""


class Waits:
    """Distribution of durations in seconds. ``counts`` has a number for each bucket of BOUNDS, and one for longer durations."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0
        self._last: deque[float] = deque(maxlen=_LAST)

    def record(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds
        self._last.append(seconds)

    def within(self, share: float) -> float | None:
        """Return the quantile ``share`` of the latest durations, such as 0.5 for the median; None if there are none."""
        ordered = sorted(self._last)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None

    def to_json(self) -> dict[str, Json]:
        """Return the figures of the latest durations."""
        return {"count": len(self._last), "median": self.within(0.5), "p95": self.within(0.95)}


class Rate:
    """Counts an event over the last minutes."""

    def __init__(self) -> None:
        self._minutes: deque[list[int]] = deque(maxlen=MINUTES + 1)
        self._since = time.monotonic()

    def record(self) -> None:
        """Count an event."""
        minute = int(time.monotonic() // 60)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append([minute, 0])
        self._minutes[-1][1] += 1

    def per_minute(self) -> float:
        """Return the mean number of events per minute."""
        now = time.monotonic()
        first = int(now // 60) - MINUTES + 1
        seconds = max(60.0, min(now - self._since, now - first * 60))
        return sum(count for minute, count in self._minutes if minute >= first) * 60 / seconds


class LineFigures:
    """The figures of one platform.

    A wait begins when a message arrives or, if the session has a run in progress then, when the next run begins.
    """

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        """Numbers of runs, under the names ``begun``, ``ended`` and ``failed``."""
        self.first_text, self.answers = Waits(), Waits()
        self._messages, self._answered = Rate(), Rate()
        self._said: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._silent: set[str] = set()

    def said(self, session_id: str) -> None:
        """Record a message that a session gets."""
        self._messages.record()
        if session_id not in self._begun:
            self._said.setdefault(session_id, time.monotonic())

    def watch(self, session_id: str, event: Event) -> bool:
        """Handle an event of a session, and return whether a run begins or resumes with it."""
        if isinstance(event, TextDelta):
            if session_id in self._silent:
                self._silent.discard(session_id)
                self.first_text.record(time.monotonic() - self._begun[session_id])
            return False
        if not isinstance(event, TurnStarted) or session_id in self._begun:
            return False
        self._begun[session_id] = self._said.pop(session_id, time.monotonic())
        self._silent.add(session_id)
        self.runs["begun"] += event.number == 1
        return True

    def done(self, session_id: str, outcome: RunResult | Exception) -> float:
        """Handle the outcome of a run, and return the seconds since its wait began."""
        now = time.monotonic()
        said = self._said.pop(session_id, now)
        took = now - self._begun.pop(session_id, said)
        self._silent.discard(session_id)
        if isinstance(outcome, Exception):
            self.runs["failed"] += 1
        elif outcome.stopped != "parked":
            self.runs["ended"] += 1
            self.answers.record(took)
            self._answered.record()
        return took

    def to_json(self) -> Mapping[str, Json]:
        """Return the figures for other processes."""
        return {
            "runs": {name: self.runs[name] for name in ("begun", "ended", "failed")},
            "per_minute": {"messages": self._messages.per_minute(), "answers": self._answered.per_minute()},
            "first_text": self.first_text.to_json(),
            "answer": self.answers.to_json(),
        }
