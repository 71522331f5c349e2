"""Every descendant of a session's shell has the mark, whatever its parent is, and can't remove it."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolcrib import ExecRequest
from tools.environments.local.environment import LocalEnvironment
from tools.environments.session_mark import is_marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes are read on Linux only")
_IS_UNLIMITED = "grep -q 'Max file locks *unlimited *unlimited' /proc/self/limits"


def test_this_process_and_its_own_children_bear_no_mark() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert is_marked(os.getpid()) is False
    assert is_marked(child.pid) is False
    child.communicate(b"")


def test_what_cannot_be_read_is_not_said_to_be_without_a_mark() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert is_marked(ended.pid) is None


DESCENDANTS = {
    "the shell itself": "@",
    "a subshell": "(@)",
    "a nested shell": "bash -c 'bash -c \"@\"'",
    "a job in the background": "(@) & wait",
    "without variables": "env -i PATH=$PATH bash -c '@'",
    "in a session of its own": "setsid -w bash -c '@'",
    "an orphan": "env -i PATH=$PATH setsid -f bash -c '@'; sleep 0.2",
    "after an attempt to raise the limit": "ulimit -Hx unlimited; ulimit -Sx unlimited; ulimit -x 0; @",
    "with a user namespace": "unshare -Ur bash -c 'ulimit -Hx unlimited; @' || touch marked",
    "in the place of the shell": "exec bash -c '@'",
    "by a server that the session starts": "tmux -S $PWD/t -f /dev/null new -d 'bash -c \"@\"' || touch marked; sleep 0.3",
}


@pytest.mark.parametrize("line", DESCENDANTS.values(), ids=list(DESCENDANTS))
def test_descendants_bear_it(tmp_path: Path, line: str) -> None:
    look = tmp_path / "look"
    look.write_text(f"{_IS_UNLIMITED} && touch free || touch marked\n")
    environment = LocalEnvironment(str(tmp_path))
    asyncio.run(_run(environment, line.replace("@", f". {shlex.quote(str(look))}")))
    give_up = time.monotonic() + 60
    while not (found := {path.name for path in tmp_path.iterdir()} & {"free", "marked"}) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert found == {"marked"}


async def _run(environment: LocalEnvironment, line: str) -> None:
    await environment.execute(ExecRequest(line, timeout=60))
    await environment.close()
