"""toolcrib is killed (SIGKILL) during a command over ssh (003-29); test_ssh_faults has the simple case."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CODE = """
import asyncio, sys
from toolcrib import ExecRequest
from tools.environments import open_environment
env = open_environment("ssh", **eval(sys.argv[1]))
async def main():
    await env.execute(ExecRequest("set -m; trap '' TERM; (trap '' TERM; sleep 5006; touch ~/x) & set +m"))
    await env.spawn(ExecRequest("sleep 5006; touch ~/x"))
    await env.execute(ExecRequest("echo; sleep 5006; touch ~/x", on_output=lambda *_: print("ready", flush=True)))
asyncio.run(main())
"""


def test_no_command_goes_on(start_sshd: Callable, eventually: Callable) -> None:
    """003-29: later commands of the same line, processes that ignore SIGTERM, and background processes all end."""
    server = start_sshd()
    with subprocess.Popen([sys.executable, "-c", CODE, repr(server.options)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            eventually(lambda: len(server.pids("sleep")) == 3)
        finally:
            process.kill()
    eventually(lambda: not server.pids())
    assert not (Path(server.folder) / "home" / "x").exists()
