"""Files and texts that may be in the repository."""

from __future__ import annotations

import re
import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.untraced  # it reads the sources, and runs none of them

# Written in parts, so that this file does not contain the names that it searches for.
HOSTS = ("py" + "pi.org", "pythonhosted" + ".org", "registry.npmjs" + ".org", "proxy.golang" + ".org")
MACHINE = re.compile(r"(?<![\w.])/wor" + r"k/(main|shared|venv|brief)\b")
NAMED = re.compile(
    r"(?<![\w/.~-])(?:toolcrib|tools|agent|plugins|tests|docs|benchmarks|examples)/[\w./-]*(?:\.(?:py|md|sql)\b|/(?=[`\s,;:)]))"
)
PLACEHOLDER = re.compile(r"/[A-Z]{2,}")
# The build server puts its recorded cases there.
MAY_NAME_THE_MACHINE = {".ci/run"}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_no_path_of_one_machine_and_no_package_registry(root: Path, tracked: Sequence[Path]) -> None:
    """The project must work on any machine, with any mirror."""
    wrong = []
    for path in tracked:
        if str(path.relative_to(root)) in MAY_NAME_THE_MACHINE:
            continue
        text = _text(path)
        wrong += [f"{path.relative_to(root)}: {found[0]}" for found in MACHINE.finditer(text)]
        wrong += [f"{path.relative_to(root)}: {host}" for host in HOSTS if host in text]
    assert not wrong, "\n".join(wrong)


def test_files_that_are_named_are_there(root: Path, tracked: Sequence[Path]) -> None:
    """Documents and comments must not name a file that was moved."""
    wrong = [
        f"{path.relative_to(root)}: {named[0]}"
        for path in tracked
        if path.suffix in (".py", ".md") and path.name != "test_tree.py"
        for named in NAMED.finditer(_text(path))
        if not PLACEHOLDER.search(named[0]) and not (root / named[0]).exists()
    ]
    assert not wrong, "\n".join(wrong)


def test_tests_are_no_packages(root: Path) -> None:
    """tests/tools/__init__.py would hide the real ``tools``."""
    assert sorted((root / "tests").rglob("__init__.py")) == []


def test_cited_rules_exist(root: Path) -> None:
    """The numbers that tests cite are those of the specification's checklist."""
    ids = runpy.run_path(str(root / "tests" / "house" / "ids.py"))
    wrong = [f"{where}: {rule}" for rule, places in ids["cited"](root).items() if not ids["exists"](rule) for where in places]
    assert not wrong, "\n".join(wrong)
