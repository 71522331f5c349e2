"""Presses of Ctrl-C, told apart: one that interrupts, one that leaves, and one that only comes twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

STUBBORN = 5.0
"""Seconds after an interrupt from which on a press leaves a turn that has not ended: by then all commands were killed."""
TWICE = 1.5
"""Seconds within which two presses belong together."""


class Presses:
    """Presses in a chat. ``is_interrupted`` is true from an interrupt to the next ``begin``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._interrupted_at = self._asked_at = float("-inf")
        self.is_interrupted = False

    def begin(self) -> None:
        """Begin a turn, which nobody has interrupted."""
        self.is_interrupted = False

    def at_work(self) -> Literal["interrupt", "leave", ""]:
        """Return what a press means while a turn runs; "" while an interrupted one comes to its end."""
        now = self._clock()
        if not self.is_interrupted:
            self.is_interrupted, self._interrupted_at = True, now
            return "interrupt"
        return "leave" if now - self._interrupted_at >= STUBBORN else ""

    def idle(self, discard: Callable[[], bool]) -> Literal["ask", "leave", ""]:
        """Return what a press means while nothing runs; "" for one meant for a turn that just ended, or that ``discard`` took."""
        now = self._clock()
        if self.is_interrupted and now - self._interrupted_at < TWICE:
            return ""
        if discard():
            return ""
        twice, self._asked_at = now - self._asked_at < TWICE, now
        return "leave" if twice else "ask"
