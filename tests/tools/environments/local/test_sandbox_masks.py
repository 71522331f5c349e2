"""Masked paths that appear or are replaced on this machine while the sandbox runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tools.environments.local.holding import sandbox_here

_LATER = """
import asyncio, sys
from pathlib import Path
from toolcrib import ExecRequest
from tools.environments import open_environment

async def main(work):
    (work / "login").write_text("old login\\n")
    (work / "keys").mkdir()
    for name in ("ssh1", "ssh2"):
        (work / name).mkdir()
        (work / name / "key").write_text(name)
    (work / "ssh").symlink_to(work / "ssh1")
    masked = [str(work / name) for name in ("token", "login", "keys", "linked", "ssh")]
    environment = open_environment("local", cwd=str(work), sandbox="workspace", masked=masked)
    try:
        await environment.execute(ExecRequest("kept=state", timeout=60))
        (work / "token").write_text("new token\\n")
        (work / "login.lock").write_text("new login\\n")
        (work / "login.lock").rename(work / "login")
        (work / "keys").rename(work / "before")
        (work / "keys").mkdir()
        (work / "keys" / "key").write_text("new key\\n")
        (work / "elsewhere").mkdir()
        (work / "elsewhere" / "key").write_text("moved key\\n")
        (work / "linked").symlink_to("elsewhere")
        (work / "ssh").unlink()
        (work / "ssh").symlink_to(work / "ssh2")
        command = "echo $kept; cat token login keys/* linked/key ssh/key 2>/dev/null; ls keys"
        shown = await environment.execute(ExecRequest(command, timeout=60))
        print(shown.stdout.head.decode(), (work / "token").read_text(), sep="", end="")
        print(await environment.list_dir(str(work / "keys")))
    finally:
        await environment.close()

asyncio.run(main(Path(sys.argv[1]).resolve()))
"""


@pytest.mark.parametrize("account", ["own", "ordinary"])
def test_masked_paths_that_appear_later_are_empty(account: str) -> None:
    """A program outside replaces a key's file, creates files that did not exist, and replaces links."""
    if sandbox_here("workspace").by != "namespaces":
        pytest.skip("this machine can make no namespaces")
    before = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"] if account == "ordinary" else []
    if before and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("only root with setpriv can become another account")
    everyones = "/tmp"  # the ordinary account can't enter the folder of these tests
    with tempfile.TemporaryDirectory(dir=everyones) as work:
        if before:
            os.chown(work, 1000, 1000)
        environment = {**os.environ, "HOME": work, "TMPDIR": everyones, "PYTHONDONTWRITEBYTECODE": "1"}
        root = Path(__file__).parents[4]
        start = [*before, sys.executable, "-c"]
        again = "import subprocess, sys, toolcrib; subprocess.run([sys.executable, '-c', ''], check=True)"
        if subprocess.run([*start, again], cwd=root, env=environment, capture_output=True, check=False).returncode:
            pytest.skip("an ordinary account can't read this Python or this code")
        argv = [*start, _LATER, work]
        done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "state\nnew token\n[]\n", done.stderr
