"""Tool calls in plain text: the protocols, by name and by what a model's name tells."""

from __future__ import annotations

from agent.protocols._dialects import NAMES, find_protocol, protocol_for_model

__all__ = ["NAMES", "find_protocol", "protocol_for_model"]
