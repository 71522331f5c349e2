"""Ends of grants that last until a time: by the wall clock and by one that nobody can set back, whichever comes first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolcrib.contract.store import Grant

SLACK = 300.0
"""Seconds by which the clocks of machines that share a store may differ."""


class Deadlines:
    """Watches the grants that one process sees. Thread-safe.

    ``wall`` gives Unix seconds, ``ticks`` seconds of a clock that never goes back. A grant that is over here is to be revoked,
    so that it stays over in every process, whatever its clock says later.
    """

    def __init__(
        self, wall: Callable[[], float] = lambda: time.time(), ticks: Callable[[], float] = lambda: time.monotonic()
    ) -> None:
        self._wall = wall
        self._ticks = ticks
        self._ends: dict[str, float] = {}
        self._lock = threading.Lock()

    def watch(self, grant: Grant) -> None:
        """Begin to count for a grant that was just given."""
        self.is_over(grant)

    def is_over(self, grant: Grant) -> bool:
        """Return whether the grant's time has passed by either clock, or has yet to begin: the clock was set back behind it."""
        if grant.until is None:
            return False
        wall, ticks = self._wall(), self._ticks()
        with self._lock:
            end = self._ends.setdefault(grant.id, ticks + min(grant.until - wall, grant.until - grant.at))
        return wall >= grant.until or ticks >= end or wall < grant.at - SLACK

    def forget(self, grant: Grant) -> None:
        """Stop counting for a grant that was revoked."""
        with self._lock:
            self._ends.pop(grant.id, None)
