"""The mode that this machine can hold, with and without user namespaces, and Landlock without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments.local import landlock
from tools.environments.local.holding import SandboxHolding, sandbox_here

ROOT = Path(__file__).parents[4]
_TRY = """
import asyncio, dataclasses, json, sys
from toolcrib import ExecRequest, TerminalSize
from tools.environments import open_environment
from tools.environments.local.holding import sandbox_here

async def main(folder):
    held = sandbox_here("workspace")
    said = [held.mode, held.by, held.why_not_more, held.fix]
    options = {"masked": [folder + "/own"], "closed": [folder + "/code"]} if held.mode == "own" else {}
    environment = open_environment("local", cwd=folder + "/work", sandbox=held.mode, **options)
    command = "kept=1; cat ../own/a; echo x >../code/a; touch ../code/b; mv ../own ../o; touch in && cat ../code/a"
    command += "; sh -c 'cat ../own/a'"
    outcome = await environment.execute(ExecRequest(command, timeout=100))
    said.append((outcome.stdout.head + outcome.stderr.head).decode())
    said.append((await environment.execute(ExecRequest("echo $kept", timeout=100))).stdout.head.decode())
    said.append([environment.identity, environment.containment().mode])
    terminal, printed = await environment.open_terminal(ExecRequest("stty size; cat ../own/a"), TerminalSize(100, 30)), b""
    while (chunk := await terminal.read()) is not None:
        printed += chunk[1]
    said.append(printed.decode())
    await environment.close()
    print(json.dumps(said))

asyncio.run(main(sys.argv[1]))
"""
_REFUSED = "echo 0 >/proc/sys/user/max_user_namespaces && exec "
_POWERLESS = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "


def _tried(folder: Path, before: str) -> list[str]:
    """Return the program's output in a user namespace that allows no other namespaces."""
    for name in ("work", "own", "code"):
        (folder / name).mkdir()
    (folder / "own" / "a").write_text("secret")
    (folder / "code" / "a").write_text("code\n")
    script = f'{_REFUSED}{before}"$0" -c "$1" "$2"'
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", script, sys.executable, _TRY, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"this account may make no user namespace: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # a list, by the program


def test_root_needs_no_user_namespace(tmp_path: Path) -> None:
    mode, by, why, fix, _, kept, names, in_terminal = _tried(tmp_path, "")
    assert (mode, by, why, fix, kept) == ("workspace", "namespaces", "", "", "1\n")
    assert names == ["local:workspace", "workspace"]
    assert in_terminal == "30 100\r\ncat: ../own/a: No such file or directory\r\n"


def test_without_namespaces_landlock_closes_our_own_files(tmp_path: Path) -> None:
    if landlock.version() == 0:
        pytest.skip("this kernel has no Landlock")
    mode, by, why, fix, said, kept, names, in_terminal = _tried(tmp_path, _POWERLESS)
    assert fix == "allow user namespaces: sudo sysctl user.max_user_namespaces=10000"
    assert (mode, by, kept) == ("own", "landlock", "1\n")
    assert "unshare" in why
    assert said.startswith("code\n")
    assert said.count("Permission denied") == 5  # two reads, two changes of code, and the move
    assert (tmp_path / "work" / "in").exists()
    assert names == ["local:own", "own"]
    assert in_terminal.startswith("30 100\r\n")
    assert "Permission denied" in in_terminal


def test_none_is_no_question() -> None:
    assert sandbox_here("none") == SandboxHolding("none")


def test_what_is_wanted_is_said_with_its_reason() -> None:
    held = sandbox_here("own")
    assert held.mode in ("own", "none")
    assert bool(held.why_not_more) is (held.by != "namespaces")
    assert bool(held.fix) is bool(held.why_not_more)
