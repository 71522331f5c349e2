"""Old name of ``agent.api``, which works for programs that were written for it."""

from __future__ import annotations

import warnings

from agent.api import (
    Agent,
    Crib,
    RunLimits,
    RunResult,
    Session,
    ToolLine,
    assemble,
)

__all__ = [
    "Agent",
    "Crib",
    "RunLimits",
    "RunResult",
    "Session",
    "ToolLine",
    "assemble",
]
warnings.warn("agent.run is an old name: import agent.api", DeprecationWarning, stacklevel=2)
