"""``toolcrib doctor`` on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

DOCTOR = "from agent.cli import main; import sys; sys.exit(main(['doctor', *sys.argv[1:]]))"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn]]:
    """``toolcrib doctor`` on a terminal of its own, with more variables."""
    made: list[pexpect.spawn] = []

    def start(*args: str, **variables: str) -> pexpect.spawn:
        env = {**os.environ, "TERM": "dumb", **variables}
        child = pexpect.spawn(sys.executable, ["-c", DOCTOR, *args], cwd=str(tmp_path), env=env, timeout=60, encoding="utf-8")
        child.setwinsize(40, 400)
        made.append(child)
        return child

    yield start
    for child in made:
        child.close(force=True)
