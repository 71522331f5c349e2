"""A container that a session has in a backend, as people list and end it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OurContainer:
    """A container of toolcrib's. ``since`` is when it was started last, in Unix seconds. ``owner_lives`` is None where that
    can't be known.

    ``in_use``: something runs in it beside what keeps it up.
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
        """True if the process that owned the container is gone and the container is not kept for another session."""
        return self.owner_lives is False and not self.kept

    def idle_for(self, seconds: float) -> bool:
        """Return True if it is kept, nobody works in it, and it was not started within the last ``seconds``."""
        return self.kept and not self.in_use and time.time() - self.since >= seconds
