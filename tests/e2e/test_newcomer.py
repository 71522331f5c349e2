"""The first steps of a new user: a fresh clone, and one command for each step. No step requires reading the source."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

pytestmark = pytest.mark.e2e
OFFLINE = re.compile("No matching distribution|Could not find a version|Connection|Temporary failure", re.IGNORECASE)


def test_every_step_works_from_a_fresh_clone(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip downloads all dependencies; `scripts/soak newcomer` runs it."""
    _follow(root, tmp_path, monkeypatch)


def test_every_step_works_from_a_fresh_clone_with_the_packages_here(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _follow(root, tmp_path, monkeypatch, "--offline")


def _follow(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("no git, or no clone")
    monkeypatch.setenv("PYTHON", sys.executable)
    person = pexpect.spawn(
        str(root / "scripts" / "newcomer"), [*options], cwd=str(tmp_path), timeout=800, encoding="utf-8", dimensions=(50, 200)
    )
    met = person.expect(["Type yes or no:", "newcomer: failed at: ", pexpect.EOF])
    shown = str(person.before)
    if met == 0:
        person.sendline("yes")
        met = person.expect([pexpect.TIMEOUT, "newcomer: failed at: ", pexpect.EOF])
        shown += str(person.before)
    if met == 1:
        rest = person.read()
        if rest.startswith("install") and OFFLINE.search(shown):
            pytest.skip("pip can't reach its registry")
        pytest.fail(f"{shown}newcomer: failed at: {rest}")
    person.close()
    assert person.exitstatus == 0, shown
    assert "newcomer: every step worked" in shown
    assert "Traceback" not in shown
    assert not re.search(r"^toolcrib: (error|warning)", shown, re.MULTILINE), shown


def test_it_says_that_it_needs_a_terminal(root: Path) -> None:
    command = [str(root / "scripts" / "newcomer")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, start_new_session=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "this needs a terminal" in done.stderr


def test_the_page_for_newcomers_has_the_same_commands(root: Path) -> None:
    script, page = ((root / name).read_text("utf-8") for name in ("scripts/newcomer", "docs/getting-started.md"))
    calls = (
        "doctor",
        "call read_file",
        "setup",
        "config set model",
        "run",
        "plugins new mine",
        "call mine",
        "plugins enable hello",
    )
    for words in (f"toolcrib {call} " for call in (*calls, "plugins trust")):
        assert words.strip() in script
        assert words.strip() in page
