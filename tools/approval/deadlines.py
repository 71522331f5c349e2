"""Ends of temporary grants, by the wall clock or a monotonic clock, whichever is first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolcrib.contract.store import Grant

SLACK = 300.0
"""Largest allowed difference, in seconds, between the clocks of machines that share a store."""


class Deadlines:
    """Watches the grants that one process sees. Thread-safe.

    ``wall`` returns Unix seconds, ``ticks`` seconds of a monotonic clock. The caller must revoke an expired grant, so that it
    stays expired in every process, even if a clock is set back later.
    """

    def __init__(
        self, wall: Callable[[], float] = lambda: time.time(), ticks: Callable[[], float] = lambda: time.monotonic()
    ) -> None:
        self._wall = wall
        self._ticks = ticks
        self._ends: dict[str, float] = {}
        self._lock = threading.Lock()

    def watch(self, grant: Grant) -> None:
        """Start counting for a new grant."""
        self.is_over(grant)

    def is_over(self, grant: Grant) -> bool:
        """Return whether the grant has expired by either clock, or begins in the future because the wall clock was set back."""
        if grant.until is None:
            return False
        wall, ticks = self._wall(), self._ticks()
        with self._lock:
            end = self._ends.setdefault(grant.id, ticks + min(grant.until - wall, grant.until - grant.at))
        return wall >= grant.until or ticks >= end or wall < grant.at - SLACK

    def forget(self, grant: Grant) -> None:
        """Stop counting for a revoked grant."""
        with self._lock:
            self._ends.pop(grant.id, None)
