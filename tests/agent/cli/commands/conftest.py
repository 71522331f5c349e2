"""``toolcrib doctor`` on a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

DOCTOR = "from agent.cli import main; import sys; sys.exit(main(['doctor', *sys.argv[1:]]))"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn]]:
    """Return a function that starts ``toolcrib doctor`` on its own terminal, with extra environment variables."""
    made: list[pexpect.spawn] = []

    def start(*args: str, **variables: str) -> pexpect.spawn:
        env = {**os.environ, "TERM": "dumb", **variables}
        words, size = ["-c", DOCTOR, *args], (40, 400)
        child = pexpect.spawn(sys.executable, words, cwd=str(tmp_path), env=env, timeout=60, encoding="utf-8", dimensions=size)
        made.append(child)
        return child

    yield start
    for child in made:
        child.close(force=True)


@pytest.fixture
def is_asked() -> Callable[[pexpect.spawn, str], str]:
    """Return ``is_asked(child, pattern)``, which waits until doctor offers a repair that matches, and returns the output from
    that line on.

    It denies repairs of leftovers of tests that run at the same time.
    """

    def wait(child: pexpect.spawn, pattern: str) -> str:
        while True:
            child.expect(r"repair: [^\r\n]*")
            repair = child.match[0]
            child.expect_exact("Run this repair? Type yes or no: ")
            if re.search(pattern, repair):
                return str(repair + child.before)
            child.sendline("no")

    return wait


@pytest.fixture
def leave() -> Callable[[pexpect.spawn], tuple[int, str]]:
    """Return ``leave(child)``, which denies the remaining repairs and returns (exit code, remaining output)."""

    def wait(child: pexpect.spawn) -> tuple[int, str]:
        said = ""
        while child.expect([pexpect.EOF, "Run this repair\\? Type yes or no: "]):
            said += child.before + child.after
            child.sendline("no")
        child.close()
        return child.exitstatus, said + child.before

    return wait


@pytest.fixture
def plain(config: Callable[[str], Path]) -> Callable[[str], Path]:
    """Configure no sandbox and no snapshots, for tests of other features. Call it with further configuration."""

    def write(text: str) -> Path:
        return config(f"sandbox: {{mode: none}}\nsnapshots: {{enabled: false}}\n{text}")

    write("")
    return write
