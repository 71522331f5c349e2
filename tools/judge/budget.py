"""Limits of how far a command is looked into, by its reader and its interpreter alike."""

from __future__ import annotations

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts, not seconds: a verdict must not depend on how busy the machine is. ``cpu_seconds`` is no part of that: far
    behind the counts it ends what they miss, by the thread's own CPU time."""

    chars: int = 100_000
    depth: int = 64
    """Limit of nesting in the text and of calls (functions, sourced files, ``bash -c``) within calls."""
    steps: int = 10_000
    alternatives: int = 16
    """Different states that are followed at once; more are merged into unknown."""
    cpu_seconds: float = 1.0
