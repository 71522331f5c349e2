"""Launchers of shells: start, watch and end a bash. Only this part of a persistent shell differs between backends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _groups
from tools.environments._census import Sessions
from tools.environments._started import started
from tools.environments.rows import LOCAL
from tools.environments.shell.watchdog import watchdog


class ShellProcess(Protocol):
    """A bash process. ``pid`` and ``session`` are numbers of this machine's kernel. ``root``: its root folder, "" for this
    machine's.
    """

    pid: int
    session: int
    root: str

    def fileno(self) -> int:
        """Return a pidfd, which is readable when the process has ended; -1 if there is none."""
        ...

    def exit_code(self) -> int | None:
        """Return the exit code, 128 + N for signal N, or None while the shell runs."""
        ...

    def members(self, since: _groups.Moment | None = None) -> list[_groups.Member]:
        """Return the living processes of the shell's session, including the shell, but never an unrelated process
        that has the session's number now.

        ``since``: older processes may be left out.
        """
        ...

    def among(self, sessions: Sessions) -> list[_groups.Member]:
        """Return the processes of the shell's session from a scan of all processes."""
        ...

    def send(self, number: int) -> None:
        """Send a signal to the shell itself, if it still exists."""
        ...

    def close(self) -> None:
        """Close the descriptors that watch the shell."""
        ...

    def reap(self) -> None:
        """Release the process number. Call it when no process of the session is left or needed."""
        ...


class Launcher(Protocol):
    """Starts the shells of one environment."""

    where: str
    """The environment's name in results."""
    root: str
    """The private folder on this machine."""
    inner: str
    """The private folder's path as shells see it."""
    descriptors: int
    """Number of descriptors that one shell uses in this process."""
    reserved: list[Callable[[], None]]
    """Room reserved for the next shell before it starts: at most one function, which frees the room."""

    def start(self, inner_folder: str, folder: str) -> ShellProcess:
        """Start a bash that reads the FIFO ``bash`` in that folder, in its own session. Raises EnvironmentFailed."""
        ...

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """Record the shell's process number as the shell itself sees and reports it."""
        ...

    async def release_idle(self) -> bool:
        """Release the resources kept for shells when no shell is left.

        Return False if files or processes of commands would be lost.
        """
        ...


def is_supported() -> bool:
    """Return True if this machine can keep shells."""
    return sys.platform == "linux" and hasattr(select, "epoll") and os.path.isdir("/proc/self") and bool(shutil.which("bash"))  # noqa: PTH112 - nothing here needs a Path


_ARGV = ["bash", "--noprofile", "--norc", "bash"]
"""Arguments of every shell on this machine. The last is the FIFO that it reads, in its own folder."""
_SHELL = "".join(f"{word}\0" for word in _ARGV).encode()
_MOST_ANCESTORS = 1000


def is_below_a_shell(pid: int) -> bool:
    """Return whether the process descends from a session's shell on this machine.

    A process that left it (``setsid --fork``) does not count. Without /proc, no process counts.
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
    """A bash on this machine. It stays unreaped until ``reap``, so that the kernel does not reuse its number."""

    root = ""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = self.session = process.pid
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # an old kernel: the waiter polls
            self._pidfd = -1
        self._code: int | None = None
        self._reaped = False

    def fileno(self) -> int:
        return self._pidfd

    def exit_code(self) -> int | None:
        if self._code is None:
            try:
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # other code in this process reaped all children: its exit code is unknown
                self._reaped, self._code = True, _UNKNOWN
                watchdog.remove(self.session)  # an unrelated process may have its number by now
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
    """Launcher of shells on this machine, without a sandbox. ``before``: a command line that executes bash."""

    descriptors = 7

    def __init__(self, root: str, where: str = LOCAL, before: Sequence[str] = ()) -> None:
        self.root = self.inner = root
        self.where, self._before = where, list(before)
        self.reserved: list[Callable[[], None]] = []
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
        """Do nothing: the shell reports the same number as the kernel."""

    async def release_idle(self) -> bool:
        """Return True: this launcher keeps nothing."""
        return True


_UNKNOWN = 1


def kill_session(process: ShellProcess, patience: float = 2.0) -> None:
    """Kill all processes of the shell's session, and wait until they are dead, at most ``patience`` seconds."""
    give_up = time.monotonic() + patience
    while True:
        process.send(signal.SIGKILL)
        left = process.members()
        if not left and process.exit_code() is not None:
            return
        if time.monotonic() > give_up:  # stuck in the kernel: it dies when it returns from there
            return
        for one in left:
            _groups.send_to(one.pid, signal.SIGKILL)
        time.sleep(0.001)
