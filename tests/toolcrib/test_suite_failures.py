"""Failures of the suite for chat platforms, as their authors see them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SUITE = """
from contextlib import asynccontextmanager

from toolcrib.chat import Chat
from toolcrib.testing import FakePlatform, PlatformDesk, PlatformSuite


class Desk(PlatformDesk):
    factory = FakePlatform
    direct, gone = Chat("d"), Chat("g")
    user, other = "ann", "bob"

    async def shown(self, chat):
        return []


class TestFake(PlatformSuite):
    @asynccontextmanager
    async def desk(self):
        yield Desk()
"""


def test_a_failure_says_what_was_compared(tmp_path: Path) -> None:
    path = tmp_path / "test_fake.py"
    path.write_text(_SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(path)]
    chosen = ["-k", "can_never_be_shown or shown_once_where"]
    done = subprocess.run([*command, *chosen], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "send() has to raise NotSent: 6 of 4000 characters, to the chat 'g'" in done.stdout
    assert "first = 'm1'" in done.stdout
