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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

MEMORY = 4 << 30


def copy_project(folder: Path) -> Path:
    """Copy the files of the checkout, in their present state, except ignored ones, and return the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if Path(name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, folder / name, follow_symlinks=False)
    return folder


class Durations:
    """A plugin of pytest that records the duration of each passed test."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        passed = {test: seconds for test, seconds in self._seconds.items() if test not in self._failed}
        self._file.write_text(json.dumps(passed), encoding="utf-8")


class TimeLimits:
    """A plugin of pytest that ends the process by SIGALRM, hung or not, if a test takes far longer than it did before."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.alarm(int(20 + 10 * self._seconds.get(nodeid, 0.0)))

    def pytest_sessionfinish(self) -> None:
        signal.alarm(20)


def fork_pytest(folder: Path, copy: Path, options: Sequence[str], plugin: object, *, bytecode: bool = False) -> int:
    """Run pytest in a forked process that has it imported already, which saves a second for each mutant. Return its id.

    Its output goes to ``folder``. ``bytecode``: keep compiled files.
    """
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir(copy)
        written = os.open(folder / "out.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(written, 1)
        os.dup2(written, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        sys.path[0] = str(copy)
        sys.dont_write_bytecode = not bytecode
        # Processes that tests start must import the copy too; CI makes hypothesis draw the same examples each time.
        os.environ.update(PYTHONPATH=str(copy), CI="true")
        if not bytecode:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        common = [f"--rootdir={copy}", f"--basetemp={folder / 'tmp'}", "-p", "no:cacheprovider"]
        status = int(pytest.main([*common, *options], plugins=[plugin]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _strays(folder: Path) -> list[int]:
    """Return the processes that name this folder in their environment or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            traces = (process / "environ").read_bytes() + os.fsencode((process / "cwd").readlink()) + b"/"
            if os.fsencode(f"{folder}/") in traces and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def clear_away(folder: Path) -> None:
    """End processes that tests left running. Servers get a moment to clean up by themselves."""
    until = time.monotonic() + 20
    while (left := _strays(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
