"""Long series of tests: the whole run tries a sample of each, and `scripts/soak` all of it.

A sample has at least one case of each test. A test's name decides which, so that it is the same in each run.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest


class Series(NamedTuple):
    """Tests below paths, relative to this folder. A sample has one of ``every`` cases of each test."""

    name: str
    paths: tuple[str, ...]
    every: int


SERIES = (
    Series("environments", ("tools/environments/conformance/",), 4),
    Series("sequences", ("tools/judge_sequences/test_sequences.py", "tools/judge_sequences/test_elsewhere.py"), 5),
)


def sample(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items of a whole run, and the items that only `scripts/soak` runs."""
    folder = f"{Path(__file__).parent}/"
    every = {f"{folder}{path}": series.every for series in SERIES for path in series.paths}
    starts = tuple(every)
    cases: dict[tuple[pytest.Item | pytest.Collector | None, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if str(item.path).startswith(starts):
            cases[item.parent, getattr(item, "originalname", item.name)].append(item)
    left = set[pytest.Item]()
    for (parent, name), all_cases in cases.items():
        assert parent is not None
        step = min(len(all_cases), next(number for start, number in every.items() if str(parent.path).startswith(start)))
        first = zlib.crc32(name.encode()) % step
        left |= {item for number, item in enumerate(all_cases) if number % step != first}
    return [item for item in items if item not in left], [item for item in items if item in left]
