"""Presses of Ctrl-C: decide whether a press interrupts, leaves, or only repeats the previous press."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

STUBBORN = 5.0
"""Seconds after an interrupt before another press leaves a run that hangs; all commands have been killed by then."""
TWICE = 1.5
"""Seconds within which two presses belong together."""


class Presses:
    """Presses in a chat. ``is_interrupted`` is true from an interrupt until the next ``begin``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._interrupted_at = self._asked_at = float("-inf")
        self.is_interrupted = False

    def begin(self) -> None:
        """Begin a run, which is not interrupted yet."""
        self.is_interrupted = False

    def at_work(self) -> Literal["interrupt", "leave", ""]:
        """Return what a press means during a run; "" while an interrupted run is ending."""
        now = self._clock()
        if not self.is_interrupted:
            self.is_interrupted, self._interrupted_at = True, now
            return "interrupt"
        return "leave" if now - self._interrupted_at >= STUBBORN else ""

    def idle(self, discard: Callable[[], bool]) -> Literal["ask", "leave", ""]:
        """Return what a press means at the prompt; "" if it follows an interrupt within TWICE, or if ``discard`` used it."""
        now = self._clock()
        if self.is_interrupted and now - self._interrupted_at < TWICE:
            return ""
        if discard():
            return ""
        twice, self._asked_at = now - self._asked_at < TWICE, now
        return "leave" if twice else "ask"
