"""Environments on this machine in their own process, as this account and, if that is root, as an ordinary user too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import compiled_code

ROOT = Path(__file__).parents[4]
PROGRAM = """
import asyncio, dataclasses, json, os, sys
from toolcrib import EnvironmentFailed, ExecRequest, TerminalSize
from tools.environments import open_environment

async def main(options, steps):
    environment = open_environment("local", **options)
    said = []
    for kind, value in steps:
        try:
            if kind == "allow":
                said.append(await environment.allow_writing(value))
            elif kind == "contains":
                said.append(dataclasses.asdict(environment.containment()))
            elif kind == "terminal":
                terminal, printed = await environment.open_terminal(ExecRequest(value), TerminalSize(100, 30)), b""
                while (chunk := await terminal.read()) is not None:
                    printed += chunk[1]
                said.append(printed.decode() + str(await terminal.wait()))
            elif kind == "write":
                await environment.write_file(value, b"x")
                said.append("written")
            elif kind == "until":
                command, text = value
                outcome = await environment.execute(ExecRequest(command, timeout=100))
                while text not in outcome.notice:
                    outcome = await environment.execute(ExecRequest("sleep 0.2", timeout=100))
                said.append(outcome.notice)
            else:
                outcome = await environment.execute(ExecRequest(value, timeout=100))
                said.append((outcome.stdout.head + outcome.stderr.head).decode() + outcome.notice)
        except (EnvironmentFailed, OSError) as error:
            said.append(str(error))
    await environment.close()
    print(json.dumps(said))

asyncio.run(main(*json.loads(sys.argv[1])))
"""
Inside = Callable[..., list[Any]]


def _python_for_all() -> str:
    """Return a Python that an ordinary user can start, also from itself, or "" if there is none. setpriv starts whatever root may
    start.
    """
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        argv = [
            "setpriv",
            "--reuid",
            "1000",
            "--regid",
            "1000",
            "--clear-groups",
            path,
            "-c",
            "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True); print(sys.version_info >= (3, 11))",
        ]
        if subprocess.run(argv, capture_output=True, check=False, cwd="/").stdout == b"True\n":
            return path
    return ""


@pytest.fixture(scope="module")
def public_folder() -> Iterator[Path]:
    """A folder outside of the folders that a sandbox replaces."""
    with tempfile.TemporaryDirectory(prefix=".tc-contained-", dir=ROOT) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(params=["this account", "ordinary user"])
def inside(request: pytest.FixtureRequest, public_folder: Path) -> Iterator[Inside]:
    """Return a function that runs steps in an environment, in a process with its own home."""
    before, python, uid = [], sys.executable, os.geteuid()
    if request.param == "ordinary user":
        if uid != 0 or shutil.which("setpriv") is None:
            pytest.skip("this account is an ordinary user, or can't become one")
        python, uid = _python_for_all(), 1000
        if not python or not os.access(ROOT, os.X_OK):
            pytest.skip("no Python of this machine can be started by an ordinary user")
        before = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"]
    home = Path(tempfile.mkdtemp(dir=public_folder))
    for name in ("project/.git/hooks", "sibling/.git/hooks", ".ssh", ".config/toolcrib", "code"):
        (home / name).mkdir(parents=True)
    for name in (".ssh/id", ".config/toolcrib/secrets.env", "code/a.py", "notes"):
        (home / name).write_text("secret")
    for path in (home, *home.rglob("*")):
        os.chown(path, uid, uid)

    def inside(*steps: tuple[str, Any], **options: Any) -> list[Any]:
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{packages}", **compiled_code()}
        given = {"cwd": str(home / "project"), "sandbox": "workspace", **options}
        argv = [*before, python, "-c", PROGRAM, json.dumps([given, steps]).replace("HOME", str(home))]
        done = subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, timeout=200, check=False)
        if "unshare" in done.stdout + done.stderr and before:
            pytest.skip(f"no user namespaces: {done.stdout}")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]  # a list, by the program

    inside.home = home  # type: ignore[attr-defined]  # for tests that inspect it from outside
    yield inside
    shutil.rmtree(home)
