"""Registries that check schemas like the real one."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import ToolRegistry
from tools.arguments import check_schema


def _no_dispatch(name: str, args: Any, **kwargs: Any) -> str:
    raise AssertionError("nothing is dispatched here")


@pytest.fixture
def bare() -> ToolRegistry:
    """A registry without a checker or a dispatcher."""
    return ToolRegistry()


@pytest.fixture
def attach() -> Any:
    return lambda registry: registry.attach(_no_dispatch, check_schema)


@pytest.fixture
def reg(attach: Any) -> ToolRegistry:
    registry = ToolRegistry()
    attach(registry)
    return registry
