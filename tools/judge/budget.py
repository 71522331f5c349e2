"""Limits for analysing a command, shared by its parser and its interpreter."""

from __future__ import annotations

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts instead of seconds, so that a verdict does not depend on the machine's load. ``cpu_seconds`` is a backstop far
    beyond the counts, in the thread's own CPU time.
    """

    chars: int = 100_000
    depth: int = 64
    """Limit of nesting in the text and of calls (functions, sourced files, ``bash -c``) within calls."""
    steps: int = 10_000
    alternatives: int = 16
    """The most states that are followed at once. If there are more, they are merged, and what differs is unknown."""
    cpu_seconds: float = 1.0
