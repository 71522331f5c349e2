"""The README is short, and its figures are those of benchmarks/RESULTS.md and of the suite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.snippets import ROOT

README = (ROOT / "README.md").read_text("utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
SEQUENCES = ROOT / "tests" / "tools" / "judge_sequences"
MEASURED: Mapping[str, tuple[str, int]] = {
    r"a typical command takes ([\d.]+) µs": ("judge.median", 0),
    r"10,000 waiting runs take ([\d.]+) MB": ("park.idle", 0),
    r"resumes in ([\d.]+) ms": ("park.resume", 0),
    r"command takes ([\d.]+) ms in a container": ("places.docker", 0),
    r"`docker exec`: ([\d.]+) ms": ("places.docker", 1),
    r"and ([\d.]+) ms over ssh": ("places.ssh", 0),
    r"OpenSSH: ([\d.]+) ms": ("places.ssh", 1),
}
"""Text of the README -> the benchmark's figure, and 0 for its value or 1 for its baseline."""
SLACK = 1.5
"""A figure of a later run may differ by this factor before the README needs a new one."""


def results(name: str) -> tuple[float, float]:
    """Return the value and the baseline of a figure."""
    found = re.search(rf"^\| {re.escape(name)} +\| ([\d.]+) \S+ +\| ([\d.]+) ", RESULTS, re.MULTILINE)
    assert found is not None, f"RESULTS.md has no {name}"
    return float(found[1]), float(found[2])


def quoted(pattern: str) -> float:
    found = re.search(pattern, " ".join(README.split()))
    assert found is not None, pattern
    return float(found[1].replace(",", ""))


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 110


@pytest.mark.parametrize("pattern", MEASURED)
def test_a_figure_was_measured(pattern: str) -> None:
    name, column = MEASURED[pattern]
    measured = results(name)[column]
    assert measured / SLACK <= quoted(pattern) <= measured * SLACK, f"{name} is {measured}"


def test_figures_of_the_judge_and_of_kills_are_zero() -> None:
    for name in ("judge.missed", "judge.false", "gateway.kill", "park.idle_threads"):
        assert results(name)[0] == 0, name
    assert results("gateway.kill")[1] == quoted(r"killed (\d+) times")
    for kind, pattern in (("dangerous", r"of (\d+) dangerous commands"), ("benign", r"of (\d+) harmless ones")):
        listed = re.search(rf"^\*\*{kind}, by category\*\*: (.*)$", RESULTS, re.MULTILINE)
        assert listed is not None
        assert sum(int(number) for number in re.findall(r"/(\d+)", listed[1])) == quoted(pattern)


def test_sequences_of_the_suite_are_counted() -> None:
    known = {line for line in (SEQUENCES / "known.workspace.txt").read_text("utf-8").splitlines() if not line.startswith("#")}
    for kind, total, held in (
        ("hostile", r"([\d,]+) harmful sequences", r"(2,\d+) are stopped"),
        ("ordinary", r"Of (\d+) everyday tasks", r"everyday tasks, (\d+) need no approval"),
    ):
        names = {f"{file.stem}/{row['name']}" for file in (SEQUENCES / kind).glob("*.yaml") for row in _rows(file)}
        assert (quoted(total), quoted(held)) == (len(names), len(names - known)), kind


def _rows(file: Path) -> list[Any]:
    loaded = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
    assert isinstance(loaded, list)
    return loaded
