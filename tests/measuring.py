"""Selection of the tests that measure coverage: tracing every line makes Python two to five times as slow.

Every case of a test runs and counts. Of many cases only the first `FIRST` are traced and then every `EVERY`-th, because the rest
runs nearly the same lines; the same holds for the examples of a hypothesis test. Pythons that tests start are measured in one
test of `CHILDREN`: measuring makes a start of toolcrib more than twice as slow, there are thousands, and they all load the same
modules. So the figure is a lower bound, and it is safe to use it for a gate.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import pytest

FIRST, EVERY = 10, 10
"""Traced cases of a test: the number at the beginning, and the step for the rest."""
CHILDREN = 24
"""One test of this many measures the Pythons that it starts. The test's name decides, so that it is the same in each run."""
EXAMPLES = 8
"""Number of traced examples of a hypothesis test."""

_UNTRACED = pytest.StashKey[bool]()
_WITH_CHILDREN = pytest.StashKey[bool]()
_IN_CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""The variable that makes Pythons started by a test measure themselves."""


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
        item.stash[_WITH_CHILDREN] = not item.stash[_UNTRACED] and zlib.crc32(item.nodeid.encode()) % CHILDREN == 0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a test untraced if that was chosen, and the processes that it starts likewise.

    Threads that it starts are traced: they may serve others later.
    """
    in_children = None if item.stash[_WITH_CHILDREN] else os.environ.pop(_IN_CHILDREN, None)
    tracer = sys.gettrace()
    if item.stash[_UNTRACED]:
        sys.settrace(None)
    given = None if item.stash[_UNTRACED] else getattr(getattr(item, "obj", None), "hypothesis", None)
    whole = given and given.inner_test
    if given:
        given.inner_test = _traced_at_first(whole)
    try:
        return (yield)
    finally:
        if given:
            given.inner_test = whole
        sys.settrace(tracer)
        if in_children is not None:
            os.environ[_IN_CHILDREN] = in_children


def _traced_at_first(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that stops tracing after ``EXAMPLES`` examples."""
    left = EXAMPLES

    @wraps(test)
    def once(*args: Any, **named: Any) -> Any:
        nonlocal left
        if left == 0:
            sys.settrace(None)
        left -= 1
        return test(*args, **named)

    return once


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Trace code that runs at import in only one process of a run: it is the same in each."""
    tracer = sys.gettrace()
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Collect the contents of an imported module untraced: no line of ours runs then."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
