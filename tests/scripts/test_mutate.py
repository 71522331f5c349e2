"""scripts/mutate, on a small project; and the list of survivors of this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = """\
from __future__ import annotations


def is_adult(age: int | None) -> bool:
    return age is not None and age >= 18


def never_called() -> int:
    return 7
"""

TESTS = """\
from people import is_adult


def test_a_child() -> None:
    assert not is_adult(3)


def test_somebody_grown_up() -> None:
    assert is_adult(40)
"""

LISTED = """\
# Known ones.

people.py is_adult
- return age is not None and age >= 18
+ return age is not None and age >= 17
why: it is an example

people.py is_adult
- return age is not None and age >= 18
+ return age is not None and age >= 19
why: it is an example
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one module. Its tests do not check the limit of 18, and the list of survivors has one such mutant."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "scripts" / "mutants").mkdir(parents=True)
    (folder / "people.py").write_text(SOURCE)
    (folder / "tests" / "test_people.py").write_text(TESTS)
    (folder / "scripts" / "mutants" / "survivors.txt").write_text(LISTED)
    (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["full: slow"]\n')
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def mutate(root: Path, project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
        command = [sys.executable, "-m", "mutants", *arguments, "--jobs", "1"]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.full
def test_what_no_test_notices_is_reported_unless_it_is_listed(mutate: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = mutate("people.py", "--sample", "50")
    assert done.returncode == 1, done.stdout + done.stderr
    reported = re.findall(r"^\+ (.*)\nwhy: $", done.stdout, re.MULTILINE)
    assert "return age is not None and age > 18" in reported
    assert {"return 6", "return 8"} & set(reported)  # no test runs this line
    assert "return age is not None and age < 18" not in reported
    assert not [line for line in reported if line.endswith(("17", "19"))]  # listed
    assert "int & None" not in done.stdout  # an annotation has no effect
    total = re.search(r"^\. +(\d+) +(\d+) +0 +1 +(\d+) +(\d+) ", done.stdout, re.MULTILINE)
    assert total is not None, done.stdout
    mutants, killed, survived, untested = map(int, total.groups())
    assert mutants == killed + 1 + survived + untested
    assert (killed, survived, untested) == (3, 3, 0)


@pytest.mark.full
def test_the_checkout_stays_as_it_is_and_a_report_can_be_tried_again(
    mutate: Callable[..., subprocess.CompletedProcess[str]], project: Path
) -> None:
    first = mutate("people.py", "--sample", "50", "--report", "report.txt", "--recording", "recording.json")
    assert (project / "people.py").read_text() == SOURCE
    assert not [path for path in project.rglob("*") if path.name == "__pycache__"]
    (project / "tests" / "test_limit.py").write_text("from people import is_adult\n\ndef test_18():\n    assert is_adult(18)\n")
    again = mutate("--again", "report.txt")
    assert "age > 18" in first.stdout
    assert "age > 18" not in again.stdout
    assert re.search(r"^\+ return [68]$", again.stdout, re.MULTILINE)


@pytest.mark.full
def test_a_seed_draws_the_same_mutants(mutate: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    def drawn(seed: str) -> list[str]:
        return re.findall(r"^\+ .*", mutate("people.py", "--sample", "4", "--seed", seed, "--list").stdout, re.MULTILINE)

    assert len(drawn("1")) == 4
    assert drawn("1") == drawn("1")
    assert len({tuple(drawn(str(seed))) for seed in range(2, 6)}) > 1


def test_an_entry_without_a_reason_is_refused(mutate: Callable[..., subprocess.CompletedProcess[str]], project: Path) -> None:
    list_ = project / "scripts" / "mutants" / "survivors.txt"
    list_.write_text(LISTED.replace("it is an example", "", 1))
    done = mutate("people.py")
    assert done.returncode == 2
    assert "why: reason" in done.stderr


def test_listed_survivors_are_still_in_the_code(root: Path) -> None:
    """An entry whose line has vanished must be deleted."""
    listed = (root / "scripts" / "mutants" / "survivors.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S+) \S+\n- (.*)\n\+ .*\nwhy: \S", listed, re.MULTILINE)
    assert len(entries) == listed.count("\n- ")
    texts = {path: " ".join((root / path).read_text(encoding="utf-8").split()) for path, _ in entries}
    assert [entry for entry in entries if entry[1].strip() not in texts[entry[0]]] == []
