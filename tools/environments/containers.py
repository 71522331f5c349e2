"""A session's container in a backend, for commands that list and stop containers."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OurContainer:
    """A container that toolcrib made. ``since``: its last start in Unix seconds. ``owner_lives``: None if unknown.

    ``in_use``: a process runs in it besides the one that keeps it alive.
    """

    name: str
    session: str
    engine: str
    image: str
    status: str
    since: float
    owner_lives: bool | None
    kept: bool
    in_use: bool

    @property
    def left_behind(self) -> bool:
        """True if the process that owned the container is gone and the container is not kept for reuse."""
        return self.owner_lives is False and not self.kept

    def idle_for(self, seconds: float) -> bool:
        """Return True if the container is kept, not in use, and was started at least ``seconds`` ago."""
        return self.kept and not self.in_use and time.time() - self.since >= seconds
