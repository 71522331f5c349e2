"""Other processes of the same user can't read the program's secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).with_name("toolcrib"))
KEY = "sk-hidden-4711"
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
"""Options that run a process as an ordinary user if root runs the tests, because root can read everything."""
PROGRAM = f"""
import ctypes, os, subprocess, sys
from agent.cli.hidden import hide
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid({NOBODY}, {NOBODY}, {NOBODY}); os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
    assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0  # as a program that this user started
hide(sys.argv[1:])
child = subprocess.run(["/bin/sh", "-c", 'echo "$THE_API_KEY"; ls /proc/self/fd >/dev/null'], capture_output=True, text=True)
print(os.environ["THE_API_KEY"], child.stdout.strip(), child.stderr, os.readlink("/proc/self/fd/0") != "", flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that hides itself, as an ordinary user, and wait until it is hidden."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        env = {**os.environ, "THE_API_KEY": KEY, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == f"{KEY} {KEY}  True\n"  # it and its children have the key and still work
        return process

    yield start
    for process in running:
        process.communicate()
        assert process.returncode == 0


def read(command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command as the same ordinary user, and return the result."""
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False, cwd="/", **AS_NOBODY)  # type: ignore[call-overload]  # options by name


@pytest.mark.parametrize("file", ["environ", "mem", "maps", "fd/0"])
def test_another_process_of_the_same_user_reads_nothing(started: Callable[..., subprocess.Popen[str]], file: str) -> None:
    seen = read(f"head -c 20 /proc/{started().pid}/{file}")
    assert seen.returncode != 0
    assert b"denied" in seen.stderr


def test_a_child_that_asks_for_its_parents_variables_finds_no_key(started: Callable[..., subprocess.Popen[str]]) -> None:
    pid = started("run", "--", "--debuggable").pid  # a word of the task, not an option
    assert KEY not in read(f"(cd /proc/{pid} && cat environ) | rev").stdout.decode()[::-1]


def test_the_block_of_variables_is_wiped_for_root_too(started: Callable[..., subprocess.Popen[str]]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can read it")
    assert set(Path(f"/proc/{started().pid}/environ").read_bytes()) == {0}


def test_a_person_may_want_to_debug_it(started: Callable[..., subprocess.Popen[str]]) -> None:
    assert KEY.encode() in read(f"cat /proc/{started('--debuggable', 'chat').pid}/environ").stdout


@pytest.mark.parametrize("options", [[], ["--debuggable"]])
def test_the_program_does_it_at_its_start(tmp_path: Path, config: Callable[[str], Path], options: list[str]) -> None:
    config("terminal: {pass_env: [TOPIC]}\n")
    go, ready = tmp_path / "go", tmp_path / "ready"
    os.mkfifo(go)
    call = json.dumps({"command": f"touch {ready}; read x < {go}; echo $TOPIC"})
    process = subprocess.Popen(
        [COMMAND, *options, "call", "terminal", call],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "THE_API_KEY": KEY, "TOPIC": "blue"},
        cwd=tmp_path,
    )
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.01)
    environ = Path(f"/proc/{process.pid}/environ")
    seen = environ.read_bytes() if options or os.geteuid() == 0 else b""
    go.write_text("x\n")
    out, _ = process.communicate()
    assert (KEY.encode() in seen) == bool(options)
    assert b"blue" in out


def test_a_program_that_embeds_toolcrib_is_left_alone() -> None:
    code = """if True:
        from agent.api import assemble
        assemble().close()
        print(open("/proc/self/environ").read())
    """
    env = {**os.environ, "THE_API_KEY": KEY, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert KEY in done.stdout, done.stderr
