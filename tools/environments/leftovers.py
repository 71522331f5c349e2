"""Find and remove what killed processes left: folders ``toolcrib-PID-*``, and processes that use a FIFO in such a folder.

Folders ``toolcrib-kept-*`` are removed after a week.
"""

from __future__ import annotations

import contextlib
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
                if over and about.st_uid == os.geteuid():
                    found.append(folder)
    return found


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
            owner = _OWNED.search(str(each.readlink()))
            if owner is not None and not alive.exists(int(owner[1])) and stat.S_ISFIFO(each.stat().st_mode):
                return True
    return False
