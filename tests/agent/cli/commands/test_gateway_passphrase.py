"""``toolcrib gateway passphrase``: a person types it twice at a terminal, without echo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect

from agent.policy import passphrase

PATIENCE = 60.0
WORDS = "four cranes lift paper"
_CODE = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"


def _typed(folder: Path, first: str, second: str) -> tuple[int, str]:
    """Return the exit code and the terminal's output."""
    person = pexpect.spawn(sys.executable, ["-c", _CODE, "gateway", "passphrase"], cwd=str(folder), timeout=PATIENCE)
    person.expect("New passphrase")
    person.sendline(first)
    person.expect("Repeat it")
    shown = person.before
    person.sendline(second)
    person.expect(pexpect.EOF)
    person.close()
    return int(person.exitstatus or 0), (shown + person.before).decode()


def test_a_person_sets_it_unseen(tmp_path: Path) -> None:
    code, shown = _typed(tmp_path, WORDS, WORDS)
    assert code == 0
    assert "The passphrase is set for" in shown
    assert "cranes" not in shown
    assert passphrase.is_right(WORDS)


def test_two_that_differ_set_nothing(tmp_path: Path) -> None:
    code, shown = _typed(tmp_path, WORDS, f"{WORDS}s")
    assert code != 0
    assert "the two entries differ" in shown
    assert not passphrase.is_set()


def test_what_is_piped_in_is_no_person(tmp_path: Path) -> None:
    words: dict[str, Any] = {"cwd": tmp_path, "input": f"{WORDS}\n{WORDS}\n", "text": True, "start_new_session": True}
    done = subprocess.run(
        [sys.executable, "-c", _CODE, "gateway", "passphrase"], capture_output=True, timeout=60, check=False, **words
    )
    assert done.returncode != 0
    assert "this needs a user at a terminal" in done.stderr
    assert not passphrase.is_set()
