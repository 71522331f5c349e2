"""The registry of tools, and the result helpers that modules written for hermes import."""

from __future__ import annotations

import json
from typing import Any

from toolcrib.contract.registry import registry

__all__ = ["registry", "tool_error", "tool_result"]


def tool_error(message: object, **extra: Any) -> str:
    """Return a failure as the JSON text for a handler to return: ``{"error": message, **extra}``."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False)


def tool_result(data: Any = None, **values: Any) -> str:
    """Return a result as the JSON text for a handler to return: ``data``, or an object of ``values``."""
    return json.dumps(values if data is None else data, ensure_ascii=False)
