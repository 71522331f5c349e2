"""Old name of ``agent.model_choice.models`` and of parts of ``agent.model_choice.connecting``, for programs that use it."""

from __future__ import annotations

import warnings

from agent.model_choice.connecting import connect, open_provider, own_choice
from agent.model_choice.models import ModelChoice, asked_by, choose_provider, environment, find_endpoint, via_of

__all__ = [
    "ModelChoice",
    "asked_by",
    "choose_provider",
    "connect",
    "environment",
    "find_endpoint",
    "open_provider",
    "own_choice",
    "via_of",
]
warnings.warn("agent.models is an old name: import agent.model_choice.models", DeprecationWarning, stacklevel=2)
