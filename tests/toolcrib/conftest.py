"""Registries that check schemas as the real one does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest

from toolcrib import ToolRegistry


def _check_schema(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    try:
        jsonschema_rs.meta.validate(dict(parameters))
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        return f"$.parameters{path}", error.message
    return None


def _no_dispatch(name: str, args: Any, **kwargs: Any) -> str:
    raise AssertionError("nothing is dispatched here")


@pytest.fixture
def bare() -> ToolRegistry:
    """Nobody attached a checker or a dispatcher yet."""
    return ToolRegistry()


@pytest.fixture
def attach() -> Any:
    return lambda registry: registry.attach(_no_dispatch, _check_schema)


@pytest.fixture
def reg(attach: Any) -> ToolRegistry:
    registry = ToolRegistry()
    attach(registry)
    return registry
