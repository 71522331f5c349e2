"""toolcrib in the background of a script: it and its children inherit that SIGINT is ignored."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
from toolcrib import ExecRequest
from tools.environments import open_environment

async def main():
    env = open_environment("local", sandbox=sys.argv[1])
    for command in ("yes | head -n 1; kill -INT $$; sleep 9", "trap 'echo cleaned; exit 0' INT; sleep 9"):
        outcome = await env.execute(ExecRequest(command, timeout=2))
        print(outcome.ended, outcome.exit_code, outcome.stdout.head, outcome.stderr.head)
    await env.close()

asyncio.run(main())
"""


@pytest.mark.full
@pytest.mark.parametrize("kind", ["none", "bubblewrap", "without bash"])
def test_what_it_starts_can_be_interrupted(kind: str, tmp_path: Path) -> None:
    path = None
    if kind == "without bash":
        path = tmp_path / "bin"
        path.mkdir()
        for name in ("sh", "yes", "head", "sleep", "env"):
            (path / name).symlink_to(str(shutil.which(name)))
    sandbox = "bubblewrap" if kind == "bubblewrap" else "none"
    ignoring = "trap '' INT QUIT; exec \"$@\""
    told = subprocess.run(
        ["/bin/sh", "-c", ignoring, "sh", sys.executable, "-c", PROGRAM, sandbox],
        capture_output=True,
        text=True,
        timeout=60,
        env=None if path is None else {"PATH": str(path), "HOME": str(tmp_path)},
        check=False,
    )
    assert (told.stderr, told.stdout) == ("", "exited 130 b'y\\n' b''\ntimeout 0 b'cleaned\\n' b''\n")


LISTS = """
import asyncio
from toolcrib import ExecRequest
from tools.environments import open_environment

async def main():
    env = open_environment("local")
    outcome = await env.execute(ExecRequest("export MADE=x; env | grep ^LC_", timeout=20))
    print(outcome.stdout.head.decode().split(), dict((await env.portable_state()).variables))
    await env.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("given", "told"), [({}, []), ({"LC_CTYPE": "C"}, ["LC_CTYPE=C"]), ({"LC_CTYPE": "C.UTF-8"}, ["LC_CTYPE=C.UTF-8"])]
)
def test_what_it_starts_has_no_variable_more(given: dict[str, str], told: list[str], tmp_path: Path) -> None:
    """A Python process sets LC_CTYPE if the locale is C; commands would inherit it, and a parked run would store it."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONCOERCECLOCALE": "0", **given}
    done = subprocess.run(
        ["/bin/sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh", sys.executable, "-c", LISTS],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        check=True,
    )
    assert done.stdout == f"{told} {{'MADE': 'x'}}\n"


TRAPS = """
import asyncio
from tools.environments import open_environment

async def main():
    env = open_environment("local")
    print((await env.shell_state()).traps)
    await env.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("ignored", ["HUP", "TERM", "INT QUIT HUP TERM"])
def test_a_shell_has_no_traps_that_nobody_set(ignored: str) -> None:
    """nohup makes its command ignore SIGHUP. bash lists that as a trap, which an answer would bind."""
    script = f"trap '' {ignored}; exec \"$@\""
    told = subprocess.run(
        ["/bin/sh", "-c", script, "sh", sys.executable, "-c", TRAPS], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout == "{}\n"
