"""In what part of the tests coverage is measured: tracing every line makes Python two to five times as slow.

Every case of a test runs and counts; of many, only the first `FIRST` are traced and every `EVERY`-th after them, as the rest runs
the same lines. So the figure is a lower bound, and a gate that it passes is passed.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

FIRST, EVERY = 5, 10
"""Cases of a test that are traced: so many at the beginning, and one of so many of the rest."""

_UNTRACED = pytest.StashKey[bool]()
_IN_CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""The variable by which Pythons that a test starts know that they are measured."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose the tests that are not traced; each process of a run chooses the same."""
    seen: Counter[tuple[object, str]] = Counter()
    for item in items:
        name = item.originalname if isinstance(item, pytest.Function) else item.name
        number = seen[item.parent, name]
        seen[item.parent, name] += 1
        marked = item.get_closest_marker("untraced") is not None
        item.stash[_UNTRACED] = marked or (number >= FIRST and number % EVERY != 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a test untraced where that was chosen. Threads that it starts are traced: they may serve others later."""
    if not item.stash[_UNTRACED]:
        return (yield)
    tracer, in_children = sys.gettrace(), os.environ.pop(_IN_CHILDREN, None)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        if in_children is not None:
            os.environ[_IN_CHILDREN] = in_children


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Collect untraced what stands in a module that was imported: no line of ours runs in it."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
