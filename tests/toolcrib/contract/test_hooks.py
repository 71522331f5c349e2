"""Hooks are specified: a plugin that mistypes one is reported at start."""

from __future__ import annotations

import inspect

import pytest

from toolcrib.contract import hooks
from toolcrib.contract.hooks import GROUPS, declared_in
from tools.dispatch.hooks import new_manager

NAMED = [name for group in GROUPS for name in declared_in(group)]


@pytest.mark.parametrize("name", NAMED)
def test_every_hook_has_its_specification(name: str) -> None:
    caller = getattr(new_manager().hook, name, None)
    assert caller is not None
    assert caller.has_spec()


def test_every_group_of_the_file_is_known() -> None:
    classes = [one for one in vars(hooks).values() if inspect.isclass(one) and one.__module__ == hooks.__name__]
    assert list(GROUPS) == classes
