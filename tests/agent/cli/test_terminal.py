"""The person's terminal: one that a command created does not count."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

from toolcrib import ExecRequest
from tools.environments.local.environment import LocalEnvironment
from tools.environments.shell.launcher import is_below_a_shell

ASKS = """
from agent.cli.terminal import controlling_terminal
from toolcrib import ToolcribError
try:
    with controlling_terminal():
        print("a person")
except ToolcribError as error:
    print(error)
"""


def test_a_terminal_that_a_sessions_command_opened_is_not_a_persons(tmp_path: Path, root: Path) -> None:
    code = f"import pty, sys; pty.spawn([sys.executable, '-c', {ASKS!r}])"
    command = f"PYTHONPATH={shlex.quote(str(root))} {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    environment = LocalEnvironment(str(tmp_path))
    try:
        said = asyncio.run(environment.execute(ExecRequest(command, timeout=60))).stdout.head.decode()
    finally:
        asyncio.run(environment.close())
    assert "a terminal that a session's command opened" in said
    assert "a person\r" not in said


def test_who_is_below_no_shell_may_be_a_person() -> None:
    assert not is_below_a_shell(1)
    assert not is_below_a_shell(2**22 + os.getpid())
