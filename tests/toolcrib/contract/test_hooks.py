"""Hooks are specified, so that a plugin that mistypes one is told at start."""

from __future__ import annotations

import inspect

import pytest

from toolcrib.contract.hooks import ProcessHooks, RunHooks, SetupHooks, ToolHooks
from tools.dispatch.hooks import new_manager

KINDS = (ToolHooks, RunHooks, ProcessHooks, SetupHooks)
NAMED = [name for kind in KINDS for name, _ in inspect.getmembers(kind, inspect.isfunction)]


@pytest.mark.parametrize("name", NAMED)
def test_every_hook_has_its_specification(name: str) -> None:
    caller = getattr(new_manager().hook, name, None)
    assert caller is not None
    assert caller.has_spec()
