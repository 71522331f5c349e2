"""Find and remove what killed processes left: folders ``toolcrib-PID-*``, and processes that use a FIFO in such a folder.

Folders ``toolcrib-kept-*`` are removed after a week.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools import alive

_LOCK = ".in-use"
_OWNED = Regex(r"/toolcrib-(\d+)-[^/]+/")
_MEMORY = "/dev/shm"  # noqa: S108 - only listed; toolcrib's folders in it are private
KEPT_SECONDS = 7 * 86_400.0
"""Seconds that the files of over-long results are kept for the user."""


def left_behind(bases: Sequence[str] | None = None) -> list[Path]:
    """Return private folders of this user's dead processes, in ``bases`` or in all usual places.

    Folders of over-long results, which are kept for the user, are included when they are older than ``KEPT_SECONDS``.
    """
    found = []
    oldest = time.time() - KEPT_SECONDS
    for base in dict.fromkeys(bases or (_MEMORY, tempfile.gettempdir())):
        for folder in sorted(Path(base).glob("toolcrib-*-*")):
            owner = folder.name.split("-")[1]
            with contextlib.suppress(OSError):  # deleted meanwhile, or another user's
                about = folder.lstat()
                over = about.st_mtime < oldest if owner == "kept" else owner.isdigit() and not alive.exists(int(owner))
                if over and about.st_uid == os.geteuid() and not _is_in_use(str(folder)):
                    found.append(folder)
    return found


def lock(folder: str) -> int:
    """Return a descriptor of a file in ``folder``. While a process has it or inherited it, the folder is in use, and so is not
    left behind. Return -1 if that is impossible.
    """
    path = f"{folder}/{_LOCK}"
    try:
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
    except OSError:
        return -1
    return fd


def _is_in_use(folder: str) -> bool:
    try:
        fd = os.open(f"{folder}/{_LOCK}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def remove(folder: Path) -> None:
    """Delete a folder that was left behind."""
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def sweep(base: str) -> None:
    """Remove leftover folders in ``base``, once per process."""
    for folder in left_behind([base]):
        remove(folder)


class LeftProcess(NamedTuple):
    """A process of a command whose toolcrib has ended. ``start``: its start time, from alive.started."""

    pid: int
    start: str
    program: str

    def end(self) -> bool:
        """Kill the process, but not a later one with the same number. Return False if it has ended already."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if alive.started(self.pid) != self.start:
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def processes_left() -> list[LeftProcess]:
    """Return this user's processes that have a FIFO in a dead process's private folder open.

    These are the dead process's shells and their commands. Empty without /proc.
    """
    found = []
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not accessible
            if process.stat().st_uid == os.geteuid() and _is_left(process / "fd"):
                start = alive.started(int(process.name))
                program = os.fsdecode((process / "comm").read_bytes()).strip()
                if start is not None:
                    found.append(LeftProcess(int(process.name), start, program))
    return found


def _is_left(descriptors: Path) -> bool:
    for each in descriptors.iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            path = str(each.readlink())
            owner = _OWNED.search(path)
            if owner is None or alive.exists(int(owner[1])) or not stat.S_ISFIFO(each.stat().st_mode):
                continue
            if not _is_in_use(path[: owner.end()]):
                return True
    return False
