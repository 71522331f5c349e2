"""Launchers of shells: start, watch and end a bash. Only this part of a persistent shell differs between backends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _groups
from tools.environments._census import Sessions
from tools.environments._started import started
from tools.environments.rows import LOCAL
from tools.environments.shell.watchdog import watchdog


class ShellProcess(Protocol):
    """A bash process. ``pid`` and ``session`` are numbers as this machine's kernel knows them."""

    pid: int
    session: int

    def fileno(self) -> int:
        """A pidfd, readable once it has ended; -1 where there is none."""
        ...

    def exit_code(self) -> int | None:
        """Return the exit code, 128 + N for signal N, or None while the shell runs."""
        ...

    def members(self, since: _groups.Moment | None = None) -> list[_groups.Member]:
        """The living processes of its session, itself among them. Never those of a stranger that has its number by now.

        ``since``: those from before may be left out.
        """
        ...

    def among(self, sessions: Sessions) -> list[_groups.Member]:
        """Return the members of the shell's session from one look at all processes."""
        ...

    def send(self, number: int) -> None:
        """A signal to the shell itself; nothing once it is gone."""
        ...

    def close(self) -> None:
        """Close the descriptors by which the shell is watched."""
        ...

    def reap(self) -> None:
        """Release the process number: nothing of its session is left, or will be asked for."""
        ...


class Launcher(Protocol):
    """Starts the shells of one environment."""

    where: str
    """The environment's name in results."""
    root: str
    """The private folder here ..."""
    inner: str
    """... and its path as shells see it."""
    descriptors: int
    """The number of our descriptors that one shell needs."""

    def start(self, inner_folder: str, folder: str) -> ShellProcess:
        """A bash that reads the FIFO ``bash`` in that folder, in a session of its own. Raises EnvironmentFailed."""
        ...

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """The shell said its own process id, as it sees it."""
        ...

    async def release_idle(self) -> bool:
        """Give back what is kept for shells, when none is left. Return False where commands left something there that would be
        lost.
        """
        ...


def is_supported() -> bool:
    """Return True if this machine can keep shells."""
    return sys.platform == "linux" and hasattr(select, "epoll") and os.path.isdir("/proc/self") and bool(shutil.which("bash"))  # noqa: PTH112 - nothing here needs a Path


_ARGV = ["bash", "--noprofile", "--norc", "bash"]
"""Of every shell on this machine. The last is the FIFO that it reads, in a folder of its own."""
_SHELL = "".join(f"{word}\0" for word in _ARGV).encode()
_MOST_ANCESTORS = 1000


def is_below_a_shell(pid: int) -> bool:
    """Return whether the process descends from a session's shell on this machine. One that left it (``setsid --fork``) does not,
    and without /proc none does.
    """
    for _ in range(_MOST_ANCESTORS):
        if is_a_shell(pid):
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
        if pid <= 1:
            return False
    return False


def is_a_shell(pid: int) -> bool:
    """Return whether the process is a session's shell on this machine."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == _SHELL
    except OSError:
        return False


class LocalProcess:
    """A bash on this machine. It stays unreaped until ``reap``: the kernel gives its number, which its session bears, to no
    other process.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = self.session = process.pid
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # an old kernel: whoever waits looks from time to time
            self._pidfd = -1
        self._code: int | None = None
        self._reaped = False

    def fileno(self) -> int:
        return self._pidfd

    def exit_code(self) -> int | None:
        if self._code is None:
            try:
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # somebody else in this process waits for all children: how it ended is not known
                self._reaped, self._code = True, _UNKNOWN
                watchdog.remove(self.session)  # its number may be a stranger's by now
                self._process.poll()
            else:
                if ended is not None:
                    self._code = ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
        return self._code

    def members(self, since: _groups.Moment | None = None) -> list[_groups.Member]:
        return [] if self._reaped else _groups.members(self.session, since)

    def among(self, sessions: Sessions) -> list[_groups.Member]:
        return [] if self._reaped else list(sessions.get(self.session, ()))

    def send(self, number: int) -> None:
        if not self._reaped:
            _groups.send_to(self.pid, number)

    def reap(self) -> None:
        if not self._reaped:
            watchdog.remove(self.session)
            self._reaped = self._process.poll() is not None

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class LocalLauncher:
    """Launcher of shells on this machine, without a sandbox. ``before``: words before bash, of a program that becomes it."""

    descriptors = 7

    def __init__(self, root: str, where: str = LOCAL, before: Sequence[str] = ()) -> None:
        self.root = self.inner = root
        self.where, self._before = where, list(before)
        path = shutil.which("bash")
        if path is None:
            raise EnvironmentFailed("bash is not found on PATH: install bash")
        self._bash = path

    def start(self, inner_folder: str, folder: str) -> LocalProcess:
        try:
            process = started(
                [*self._before, *_ARGV],
                self._before[0] if self._before else self._bash,
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
        """Do nothing: the shell's number is the kernel's."""

    async def release_idle(self) -> bool:
        """Return True: this launcher keeps nothing."""
        return True


_UNKNOWN = 1


def kill_session(process: ShellProcess, patience: float = 2.0) -> None:
    """Kill everything in the shell's session and return when it is dead, so that the caller may rely on it."""
    give_up = time.monotonic() + patience
    while True:
        process.send(signal.SIGKILL)
        left = process.members()
        if not left and process.exit_code() is not None:
            return
        if time.monotonic() > give_up:  # stuck in the kernel: it dies when it gets out
            return
        for one in left:
            _groups.send_to(one.pid, signal.SIGKILL)
        time.sleep(0.001)
