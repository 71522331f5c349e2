"""The script that ends a connection's processes, with a slow stand-in for sshd."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.environments.ssh import guard

# sshd answers after its fork; the child creates its own session later.
SERVER = """
import os, signal, subprocess, sys, time
with open("/proc/self/comm", "w") as name:
    name.write("sshd")
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
guard = subprocess.Popen(["bash", "--noprofile", "--norc", "-c", sys.argv[1]], start_new_session=True, **pipes)
ours, theirs = os.pipe()
if not (child := os.fork()):
    for fd in (theirs, guard.stdin.fileno()):
        os.close(fd)
    os.read(ours, 1)
    os.setsid()
    signal.alarm(60)
    signal.pause()
guard.stdin.write(b"\\n")
guard.stdin.flush()
time.sleep(0.2)
os.close(theirs)
assert guard.stdout.readline() == b"\\n"
guard.stdin.close()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
guard.wait()
"""


def test_a_process_that_has_just_been_forked_is_seen_in_the_session_that_it_will_lead() -> None:
    argv = [sys.executable, "-c", SERVER, guard.SCRIPT]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, start_new_session=True, check=False)
    assert (done.stdout, done.stderr) == ("-15\n", "")


# For a connection that ended during its guard's start: the guard's parent has other children.
ORPHAN = """
import contextlib, subprocess, sys
with open("/proc/self/comm", "w") as name:
    name.write(sys.argv[2])
other = subprocess.Popen(["sleep", "60"], start_new_session=True)
guard = subprocess.Popen(["bash", "--noprofile", "--norc", "-c", sys.argv[1]], start_new_session=True, stdin=subprocess.PIPE)
with contextlib.suppress(BrokenPipeError):
    guard.stdin.write(b"\\n")
    guard.stdin.close()
guard.wait()
print(other.poll())
other.kill()
other.wait()
"""


@pytest.mark.parametrize(("name", "space"), [("sshd", ["unshare", "--pid", "--fork", "--mount-proc"]), ("systemd", [])])
def test_an_orphan_ends_nothing(name: str, space: list[str]) -> None:
    """The first process adopts orphans, or a process that asks to. As the first process it runs in a process namespace."""
    if space and subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process namespace can be made here")
    argv = [*space, sys.executable, "-c", ORPHAN, guard.SCRIPT, name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, start_new_session=True, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")
