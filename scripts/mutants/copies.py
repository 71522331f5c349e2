"""Copies of the project, and pytest in them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

MEMORY = 4 << 30


def copy_project(folder: Path) -> Path:
    """Copy the files of the checkout, as they are now, and nothing that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if Path(name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, folder / name, follow_symlinks=False)
    return folder


class _Durations:
    """A plugin of pytest that notes how long each test took, and which failed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self.failed.add(report.nodeid)


def fork_pytest(copy: Path, output: Path, temporary: Path, options: list[str], times: Path | None = None) -> int:
    """Run pytest in a process that has it imported already, which saves a second for each mutant. Return its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        os.setsid()
        os.chdir(copy)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(written, 1)
        os.dup2(written, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        sys.path[0] = str(copy)
        sys.dont_write_bytecode = times is None
        # Processes that tests start must import the copy too; CI makes hypothesis draw the same examples each time.
        os.environ.update(PYTHONPATH=str(copy), CI="true")
        if times is None:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        noted = _Durations()
        common = [f"--rootdir={copy}", f"--basetemp={temporary}", "-p", "no:cacheprovider"]
        status = int(pytest.main([*common, *options], plugins=[noted]))
        if times is not None:
            passed = {test: seconds for test, seconds in noted.seconds.items() if test not in noted.failed}
            times.write_text(json.dumps(passed), encoding="utf-8")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _strays(folder: Path) -> list[int]:
    """Return the processes that name this folder in their environment or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            traces = (process / "environ").read_bytes() + os.fsencode((process / "cwd").readlink())
            if os.fsencode(str(folder)) in traces and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def clear_away(folder: Path) -> None:
    """End what tests have left running. Servers get a moment: they clean up by themselves once their test is gone."""
    until = time.monotonic() + 5
    while (left := _strays(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
