"""How a bash is started, watched and ended: the part of a persistent shell that differs from place to place."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Protocol

from toolcrib import EnvironmentFailed
from tools.environments import _groups
from tools.environments.shell.watchdog import watchdog


class ShellProcess(Protocol):
    """One bash. ``pid`` and ``session`` are numbers as this machine's kernel has them."""

    pid: int
    session: int

    def fileno(self) -> int:
        """A pidfd, readable once it has ended; -1 where there is none."""
        ...

    def exit_code(self) -> int | None:
        """128 + N for signal N, None while it runs. Once it has ended it is reaped."""
        ...

    def close(self) -> None: ...


class Place(Protocol):
    where: str
    root: str
    """The private folder here ..."""
    inner: str
    """... and where shells find it."""

    def start(self, inner_folder: str, folder: str) -> ShellProcess:
        """A bash that reads the FIFO ``bash`` in that folder, in a session of its own. Raises EnvironmentFailed."""
        ...

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """The shell said its own process id, as it sees it."""
        ...


def is_supported() -> bool:
    """Whether shells can be kept here at all."""
    return sys.platform == "linux" and hasattr(select, "epoll") and os.path.isdir("/proc/self") and bool(shutil.which("bash"))  # noqa: PTH112 - nothing here needs a Path


class LocalProcess:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = self.session = process.pid
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # an old kernel: whoever waits looks from time to time
            self._pidfd = -1

    def fileno(self) -> int:
        return self._pidfd

    def exit_code(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class LocalPlace:
    """This machine, with nothing between."""

    where = "local"

    def __init__(self, root: str) -> None:
        self.root = self.inner = root
        path = shutil.which("bash")
        if path is None:
            raise EnvironmentFailed("bash is not found on PATH: install bash")
        self._bash = path

    def start(self, inner_folder: str, folder: str) -> LocalProcess:
        try:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "bash"],
                executable=self._bash,
                cwd=folder,
                env={"TERM": "dumb"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentFailed(f"cannot start {self._bash}: {error.strerror or error}") from error
        watchdog.add(process.pid)
        return LocalProcess(process)

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """Its number is ours."""


def kill_session(process: ShellProcess, patience: float = 2.0) -> None:
    """Everything in the shell's session, at once; returns when it is dead, so that a caller may count on it."""
    give_up = time.monotonic() + patience
    while True:
        left = {one.pid for one in _groups.members(process.session)}
        if process.exit_code() is None:
            left.add(process.pid)
        if not left or time.monotonic() > give_up:  # stuck in the kernel: it dies when it gets out
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or grown out of our reach (setuid)
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
