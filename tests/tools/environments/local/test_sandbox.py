"""The sandbox of bubblewrap: features that only this backend has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MOUNTED_LATE = """
import asyncio, subprocess, sys
from toolcrib import ExecRequest
from tools.environments import open_environment

async def main(folder, work):
    environment = open_environment("local", cwd=work, sandbox="bubblewrap")
    try:
        await environment.execute(ExecRequest("true", timeout=60))
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        subprocess.run(["touch", f"{folder}/outside"], check=True)
        inside = await environment.execute(ExecRequest(f"touch {folder}/inside", timeout=60))
        person = subprocess.run([*environment.person_argv(), "-c", f"touch {folder}/person"], capture_output=True)
        own = await environment.execute(ExecRequest("touch own && echo written", timeout=60))
        print(inside.exit_code, person.returncode, own.stdout.head.decode().strip())
    finally:
        await environment.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_mount_that_appears_later_is_not_writable(folder: Path) -> None:
    place = next((path for path in ("/mnt", "/media", "/srv") if Path(path).is_dir()), None)
    if place is None:
        pytest.skip("no folder outside of /tmp to mount on")
    as_root = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    shared = ["unshare", *as_root, "--propagation", "shared", "--"]
    if subprocess.run([*shared, "true"], check=False).returncode != 0:
        pytest.skip("this account may make no mount namespace")
    root = str(Path(__file__).parents[4])
    argv = [*shared, sys.executable, "-c", _MOUNTED_LATE, place, str(folder)]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("1 1 written\n", 0), done.stderr


_MANY_AT_ONCE = """
import asyncio, resource, sys
from toolcrib import ExecRequest
from tools.environments import open_environment

resource.setrlimit(resource.RLIMIT_NOFILE, (140, 140))  # room for five shells in sandboxes

async def main(work):
    opened = [open_environment("local", cwd=work, sandbox="workspace", hosts=[]) for _ in range(14)]
    try:
        requests = [ExecRequest(f"echo {number}", timeout=60) for number in range(14)]
        done = await asyncio.gather(*map(lambda one, request: one.execute(request), opened, requests))
        print([int(one.stdout.head) for one in done] == list(range(14)))
    finally:
        await asyncio.gather(*(one.close() for one in opened))

asyncio.run(main(*sys.argv[1:]))
"""


def test_calls_in_many_sandboxes_at_once_wait_for_descriptors(folder: Path) -> None:
    root = str(Path(__file__).parents[4])
    argv = [sys.executable, "-c", _MANY_AT_ONCE, str(folder)]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


_NUMBER_LATE = """
import asyncio, sys
from toolcrib import ExecRequest
from tools.environments import open_environment
from tools.environments.local import plan

plan._START = '''
import os, time
fork = os.fork
def fork_and_wait():
    child = fork()
    if child:
        time.sleep(1)  # the first process is ready before its number is printed
    return child
os.fork = fork_and_wait
''' + plan._START

async def main(work):
    environment = open_environment("local", cwd=work, sandbox="bubblewrap")
    done = await environment.execute(ExecRequest("echo started", timeout=60))
    print(done.stdout.head.decode().strip())
    await environment.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_launcher_on_a_busy_machine_may_print_the_number_late(folder: Path) -> None:
    root = str(Path(__file__).parents[4])
    argv = [sys.executable, "-c", _NUMBER_LATE, str(folder)]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.returncode) == ("started\n", 0), done.stderr
