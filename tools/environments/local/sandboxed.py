"""Shell and files in the sandbox, seen from outside."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
from collections.abc import Collection
from pathlib import Path

from tools.environments import _groups
from tools.environments._census import Sessions

_STATUS_LIMIT = 5.0
"""Maximum seconds until a wrapper reports its shell's status, generous because the machine may be under load."""
_NS_GET_PARENT = 0xB702


class SandboxedShell:
    """A shell in the sandbox, and the ``wrapper`` that started it and reports its status. Both started in ``folder``.

    The number of its session may be reused outside the sandbox, so only processes in the sandbox count as its members. Raises
    OSError if the shell is gone, or if ``pid`` is not the shell.
    """

    def __init__(self, pid: int, wrapper: int, folder: str) -> None:
        self.pid = self.session = pid
        self.root = f"/proc/{pid}/root"
        self._status = f"{folder}/status"
        self._code: int | None = None
        self._wrapper = self._pidfd = -1
        try:
            self._wrapper, self._pidfd = os.pidfd_open(wrapper), os.pidfd_open(pid)
            self._space = os.stat(f"/proc/{pid}/ns/pid").st_ino  # noqa: PTH116 - as below
            if not is_in(pid, folder) or os.getsid(pid) != pid:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        except OSError:
            self._drop()
            raise

    def fileno(self) -> int:
        return self._pidfd

    def exit_code(self) -> int | None:
        if self._code is None and self._pidfd >= 0 and is_readable(self._pidfd):
            self._code = self._said()
        return self._code

    def members(self, since: _groups.Moment | None = None) -> list[_groups.Member]:
        return [one for one in _groups.members(self.session, since) if self._is_inside(one.pid)]

    def among(self, sessions: Sessions) -> list[_groups.Member]:
        return [one for one in sessions.get(self.session, ()) if self._is_inside(one.pid)]

    def _is_inside(self, pid: int) -> bool:
        """Return whether the process is in the sandbox, or in a process namespace that was made in it."""
        with contextlib.ExitStack() as opened:
            try:
                space = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, space)
                while os.fstat(space).st_ino != self._space:
                    space = fcntl.ioctl(space, _NS_GET_PARENT)
                    opened.callback(os.close, space)
            except OSError:  # it is gone, or in neither
                return False
        return True

    def send(self, number: int) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def reap(self) -> None:
        """Do nothing: the sandbox reaps the shell."""

    def _said(self) -> int:
        """Return the status that the wrapper wrote before it ended, or that of SIGKILL if it wrote none."""
        is_readable(self._wrapper, _STATUS_LIMIT)
        with contextlib.suppress(OSError, ValueError):  # the file is missing, or has no number
            # Commands can reach the file, so it may contain anything.
            fd = os.open(self._status, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return int(os.read(fd, 8)) & 0xFF
            finally:
                os.close(fd)
        return 128 + signal.SIGKILL

    def close(self) -> None:
        if self._pidfd >= 0:
            self.exit_code()
        self._drop()

    def _drop(self) -> None:
        for fd in (self._pidfd, self._wrapper):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._wrapper = -1


def is_in(pid: int, folder: str) -> bool:
    """Return True if ``folder`` is the process's working folder. The sandbox may see it at another path."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), os.stat(folder))  # noqa: PTH116 - every half millisecond
    except OSError:
        return False


def is_readable(fd: int, wait: float = 0) -> bool:
    """Return True if the descriptor becomes readable within ``wait`` seconds; for a pidfd, if its process has ended."""
    poll = select.poll()  # not ``select``, which supports no descriptor above 1023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait * 1000))


def is_dying(pid: int) -> bool:
    """Return whether the process is gone or dying: it may have received SIGKILL without having had time to die."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # called several times for each command
        try:
            fields = os.read(fd, 1024).rpartition(b")")[2].split()
        finally:
            os.close(fd)
    except OSError:
        return True
    return fields[0] in b"ZX" or bool(int(fields[28]) >> 8 & 1)


def children(pid: int) -> list[int]:
    """Return the process's children as the kernel lists them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:
        return []


def has_files(root: str, folder: str, mounted: Collection[str]) -> bool:
    """Return True if the folder holds anything but ``mounted`` paths and the folders that lead to them."""
    try:
        for entry in os.scandir(root + folder):
            path = f"{folder}/{entry.name}"
            if path in mounted:
                continue
            on_the_way = entry.is_dir(follow_symlinks=False) and any(each.startswith(f"{path}/") for each in mounted)
            if not on_the_way or has_files(root, path, mounted):
                return True
    except FileNotFoundError:
        return False
    except OSError:  # unknown, so assume files
        return True
    return False
