"""Old name of ``agent.api``, for programs that use it."""

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
