"""The manual pages in docs/man, which scripts/man writes from the commands' own parsers."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.cli.app import built_in


@pytest.fixture(scope="module")
def manual(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "scripts" / "manual.py"))


def test_the_pages_are_as_the_commands_say(manual: Any, root: Path) -> None:
    made = manual["pages"]()
    there = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs" / "man").iterdir()}
    assert set(there) == set(made) == {"toolcrib.1", *(f"toolcrib-{name}.1" for name in built_in())}
    assert [name for name in made if there[name] != made[name]] == [], "write them anew: scripts/man"


def test_a_page_has_each_option_and_the_examples(manual: Any) -> None:
    page = manual["pages"]()["toolcrib-tools.1"]
    assert '.TH "TOOLCRIB\\-TOOLS" "1"' in page
    for words in (r"\fB\-\-platform\fR \fIPLATFORM\fR", r"\fB\-v\fR, \fB\-\-verbose\fR", "list, show, enable, disable"):
        assert words in page
    assert ".SH EXAMPLES\n.EX\n" in page
    assert ".SH EXIT STATUS\n0 done" in page


def test_no_text_is_taken_for_a_request(manual: Any) -> None:
    assert manual["_text"](".SH a\\b -c '~^`") == r"\&.SH a\eb \-c \(aq\(ti\(ha\(ga"
    assert manual["_text"]("'quoted'") == r"\&\(aqquoted\(aq"


@pytest.mark.full
@pytest.mark.parametrize("checker", ["man", "mandoc"])
def test_programs_that_read_manuals_find_no_fault(root: Path, checker: str) -> None:
    if shutil.which(checker) is None:
        pytest.skip(f"{checker} not found: apt-get install {'man-db groff' if checker == 'man' else 'mandoc'}")
    command = {
        "man": ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"],
        "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
    }
    for page in sorted((root / "docs" / "man").glob("*.1")):
        env = {**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""}
        done = subprocess.run([*command[checker], str(page)], capture_output=True, text=True, env=env, timeout=30, check=False)
        lines = (done.stderr if checker == "man" else done.stdout).splitlines()
        assert [line for line in lines if "missing date" not in line] == []  # a date would change without the page
