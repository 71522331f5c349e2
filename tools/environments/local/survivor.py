"""Sandboxes that outlive toolcrib because background processes run in them, and the records of such sandboxes.

A record is a file that no sandbox can write. It exists while background processes run in a session's sandbox. The process that
uses the sandbox holds a lock on the file, so a record without a lock belongs to a process that has ended.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from toolcrib.contract.namedtuple import NamedTuple
from tools import alive
from tools.environments import leftovers
from tools.environments.local.gitguard import GitGuard, about_reverted
from tools.environments.local.sandboxed import is_readable

LOST = "The sandbox with this session's earlier background processes and their logs is gone: {}."
_END_LIMIT = 5.0
_TRIES = 5
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class SandboxSurvivor(NamedTuple):
    """A running sandbox as its record describes it. ``first`` and ``keeper``: numbers and start times of these processes.

    ``leader`` is the number of their session. ``plan`` is a digest of the sandbox's plan. ``root`` and ``private`` are its
    folders, ``inode`` is that of ``root``, and ``blanked`` are the files that it sees without passwords. ``keeps`` is the folder
    of its background processes, as commands see it. ``git`` is the state of the git guard.
    """

    session: str
    boot: str
    first: Sequence[int | str]
    keeper: Sequence[int | str]
    leader: int
    plan: str
    root: str
    inode: int
    private: str
    blanked: Sequence[str]
    keeps: str
    git: Mapping[str, Any]

    def has_its_root(self) -> bool:
        """Return whether the root folder is the one that the sandbox started with."""
        with contextlib.suppress(OSError):
            found = os.lstat(self.root)
            return stat.S_ISDIR(found.st_mode) and found.st_ino == self.inode
        return False

    def pidfds(self) -> tuple[int, int]:
        """Return descriptors of the first process and of the keeper. Raises OSError if one of them has ended."""
        first = self._pidfd(self.first)
        try:
            return first, self._pidfd(self.keeper)
        except OSError:
            os.close(first)
            raise

    def _pidfd(self, process: Sequence[int | str]) -> int:
        pid, start = int(process[0]), process[1]
        pidfd = os.pidfd_open(pid)
        if self.boot == alive.boot() and alive.started(pid) == start:
            return pidfd
        os.close(pidfd)
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def kill(self) -> str:
        """End everything in the sandbox, and revert its changes of git settings. Return a sentence about these, or ""."""
        with contextlib.suppress(OSError):  # it has ended
            first = self._pidfd(self.first)
            try:
                signal.pidfd_send_signal(first, signal.SIGKILL)  # the end of the first process kills all others
                is_readable(first, _END_LIMIT)
            finally:
                os.close(first)
        if not self.git:
            return ""
        guard = GitGuard(self.git["folders"])
        guard.restore(self.git, links=False)
        return about_reverted(guard.put_back(last=True))

    def end(self) -> str:
        """Delete the folders of the sandbox after ``kill``, and return what that returns."""
        said = self.kill()
        for kernels in Path(self.private).glob("*/work/work") if self.private else ():
            with contextlib.suppress(OSError):  # it is gone
                kernels.chmod(0o700)
        for folder in filter(None, (self.root, self.private)):
            leftovers.remove(Path(folder))
        return said


class SandboxRecord:
    """The record of a session's sandbox. With the path "" nothing is recorded. ``session`` "" stands for any session."""

    def __init__(self, path: str = "", session: str = "") -> None:
        self.session = session
        self._path = path
        self._fd = -1

    def __bool__(self) -> bool:
        """Return whether anything can be recorded."""
        return bool(self._path)

    def exists(self) -> bool:
        """Return whether a sandbox is recorded, which may be in use."""
        return bool(self._path) and Path(self._path).exists()

    @classmethod
    def of(cls, folder: str, session: str) -> SandboxRecord:
        """Return the record of a session in the folder of all records; "" for the folder or the session: nothing is recorded."""
        if not (folder and session):
            return cls()
        return cls(f"{folder}/{hashlib.sha256(session.encode()).hexdigest()[:32]}", session)

    def take(self) -> SandboxSurvivor | None:
        """Lock the record and return the sandbox that an ended process left. Return None if there is none, or if a living process
        uses it.
        """
        if self._path and self._fd < 0:
            self._fd = _locked(self._path)
        found = None if self._fd < 0 else _parsed(os.pread(self._fd, os.fstat(self._fd).st_size, 0))
        if found is not None and self.session in ("", found.session):
            return found
        self.drop()
        return None

    def write(self, survivor: SandboxSurvivor) -> bool:
        """Record a sandbox. Return False if that is impossible, for example because another process uses the record."""
        try:
            if self._path and self._fd < 0:
                Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd = _locked(self._path, os.O_CREAT)
            if self._fd < 0:
                return False
            text = f"{json.dumps(survivor._asdict())}\n".encode()
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))  # not before, because this process may be killed in between
        except OSError:
            self.drop()
            return False
        return True

    def drop(self) -> None:
        """Delete the record if this process uses it."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # it is gone
                Path(self._path).unlink()
            self.release()

    def release(self) -> None:
        """Unlock the record, which stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def find(self, plan: str) -> tuple[SandboxSurvivor | None, str]:
        """Return the sandbox that an ended process left if it can be used for the plan with that digest. Otherwise end it, and
        return the reason for the user.
        """
        found, why = self.take(), ""
        if found is None:
            return None, ""
        try:
            for pidfd in found.pidfds():
                os.close(pidfd)
        except OSError:
            why = "they ended while toolcrib did not run"
        if not why and (found.plan != plan or not found.has_its_root()):
            why = "the settings of the sandbox have changed"
        if not why:
            return found, ""
        said = found.end()
        self.drop()
        return None, f"{LOST.format(why)} {said}".strip()

    def end(self) -> bool:
        """End the sandbox that an ended process left. Return False if there is none any more."""
        found = self.take()
        if found is not None:
            found.end()
            self.drop()
        return found is not None


def left_sandboxes(folder: Path) -> dict[str, SandboxRecord]:
    """Return the records of sandboxes that ended processes left, by session. Delete those of sandboxes that have ended."""
    left: dict[str, SandboxRecord] = {}
    for path in sorted(folder.glob("*")):
        record = SandboxRecord(str(path))
        found = record.take()
        if found is None:
            continue
        try:
            for pidfd in found.pidfds():
                os.close(pidfd)
        except OSError:
            record.end()
            continue
        record.release()
        left[found.session] = record
    return left


def _locked(path: str, create: int = 0) -> int:
    """Return a descriptor of the file after locking it; -1 if it does not exist, or if another process has locked it."""
    try:
        fd = os.open(path, os.O_RDWR | _FLAGS | create, 0o600)
    except OSError:
        return -1
    for _ in range(_TRIES):
        with contextlib.suppress(OSError):  # it is locked, maybe only for a moment: see left_sandboxes
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink:
                return fd
        time.sleep(0.01)
    os.close(fd)
    return -1


def _parsed(text: bytes) -> SandboxSurvivor | None:
    try:
        return SandboxSurvivor(**json.loads(text.partition(b"\n")[0]))
    except (ValueError, TypeError):  # the process was killed while it wrote the first record
        return None


class SurvivorInput:
    """Stands for the launcher of a sandbox that an earlier process started. ``pid`` is the session of the sandbox's processes.

    Raises OSError if the keeper's input can't be opened. The caller checks afterwards that the keeper lives.
    """

    stdout: IO[bytes] | None = None
    stderr: IO[bytes] | None = None

    def __init__(self, survivor: SandboxSurvivor) -> None:
        self.pid = survivor.leader
        path = f"/proc/{survivor.keeper[0]}/fd/0"
        if not stat.S_ISFIFO(Path(path).stat().st_mode):
            raise OSError(errno.EINVAL, "the keeper's input is no pipe")
        self.stdin: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), "wb", buffering=0)
        self.stdin.write(b"\n")  # the keeper now waits for the end of its input again

    def kill(self) -> None:
        """Do nothing: the launcher has ended, or ends with the sandbox."""

    def wait(self, timeout: float | None = None) -> int:
        """Return at once: the launcher is no child of this process."""
        return 0
