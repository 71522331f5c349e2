"""`scripts/soak` and the samples of its series that `scripts/test` tries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.series import SERIES

ROOT = Path(__file__).parents[2]


def collected(path: str, *, sampled: bool) -> set[str]:
    """Return the names of the cases that a run with this path would try."""
    environment = {name: value for name, value in os.environ.items() if name != "TOOLCRIB_SAMPLE"}
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", path]
    given = environment | ({"TOOLCRIB_SAMPLE": "1"} if sampled else {})
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, check=True)
    return {line.partition("@")[0] for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.full
def test_a_sample_has_a_case_of_each_test_and_without_it_all_are_tried() -> None:
    path = "tests/tools/environments/conformance/test_places.py"
    whole, some = collected(path, sampled=False), collected(path, sampled=True)
    assert some < whole
    assert collected(path, sampled=True) == some
    assert {one.partition("[")[0] for one in some} == {one.partition("[")[0] for one in whole}


def test_each_series_names_files_that_are_there() -> None:
    assert [path for series in SERIES for path in series.paths if not [*ROOT.glob(f"{path.rstrip('/')}*")]] == []
    text = "".join((ROOT / path).read_text("utf-8") for series in SERIES if series.left for path in series.paths)
    assert [name for series in SERIES for name in series.left if f"def {name}(" not in text] == []


def test_the_list_has_a_command_for_each_series() -> None:
    done = subprocess.run(["scripts/soak", "--list"], cwd=ROOT, capture_output=True, text=True, check=True, env={
        **os.environ, "TOOLCRIB_VENV": sys.prefix,
    })  # fmt: skip
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert set(names) > {series.name for series in SERIES}
    for program in re.findall(r"(tests/\S+\.py)", done.stdout):
        assert (ROOT / program).exists()


def test_an_unknown_series_is_refused_with_the_known_ones() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.soak", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "choose from environments, " in done.stderr
