"""The fast run: the first case of each test, without the files in slow.txt.

Files whose tests take long on average are in that list. To write it anew:

    scripts/test -n 4 --dist loadgroup --junitxml=report.xml; python -m tests.fast report.xml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

_ROOT = Path(__file__).parents[1]
_LIST = Path(__file__).with_name("slow.txt")
_LONG = 0.1
"""Seconds that the first cases of a slow file's tests take on average."""


def slow_files() -> frozenset[Path]:
    """Return the test files that the fast run leaves out."""
    return frozenset(_ROOT / name for name in _LIST.read_text().split())


def first_cases(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the first case of each test, and the other cases."""
    seen: set[str] = set()
    first: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        (left if name in seen else first).append(item)
        seen.add(name)
    return first, left


def _times(report: Path) -> Iterator[tuple[str, float]]:
    """Yield the file of each test's first case, and its seconds."""
    seen = set()
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own report
        module, name = case.get("classname", ""), case.get("name", "").partition("[")[0]
        if (module, name) not in seen:
            seen.add((module, name))
            path = Path(*module.split("."))
            while path.parts and not (_ROOT / path).with_suffix(".py").is_file():  # a class follows the module's name
                path = path.parent
            yield str(path.with_suffix(".py")), float(case.get("time", "0"))


def main(report: str) -> None:
    """Write slow.txt from a report of pytest."""
    found: dict[str, list[float]] = {}
    for name, seconds in _times(Path(report)):
        found.setdefault(name, []).append(seconds)
    slow = sorted(name for name, took in found.items() if sum(took) / len(took) > _LONG)
    _LIST.write_text("".join(f"{name}\n" for name in slow))


if __name__ == "__main__":
    main(sys.argv[1])
