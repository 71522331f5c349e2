"""The registry that tools register at, and how hermes modules word their results."""

from __future__ import annotations

import json
from typing import Any

from toolcrib.contract.registry import registry

__all__ = ["registry", "tool_error", "tool_result"]


def tool_error(message: object, **extra: Any) -> str:
    """Word a failure as the JSON text that a handler returns: ``{"error": message, **extra}``."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False)


def tool_result(data: Any = None, **values: Any) -> str:
    """Word a result as the JSON text that a handler returns: ``data``, or an object of ``values``."""
    return json.dumps(values if data is None else data, ensure_ascii=False)
