"""Commands that left a process running in the background."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tools.environments.session_mark import is_marked

_MOST = 200
"""Number of calls to remember."""
_SLACK = 0.02
"""Seconds that a process's start may seem earlier than its call: the kernel counts in hundredths of a second."""


class BackgroundWriters:
    """Finds the commands that left a process running in a folder.

    A process belongs to the call during which it started. A child of such a process is not counted separately. Only processes
    with a session's mark count, and not the persistent shell.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._began: dict[int, tuple[float, str]] = {}
        self._ended: list[tuple[float, float, str]] = []

    def begin(self, number: int, command: str) -> None:
        """Record that the call with this number runs a command."""
        self._began[number] = (_now(), command)

    def end(self, number: int) -> None:
        """Record that a call has ended."""
        began, command = self._began.pop(number)
        self._ended = [*self._ended[1 - _MOST :], (began, _now(), command)]

    def names(self) -> list[str]:
        """Return the commands with a running process; [] if this system cannot report it."""
        found = {pid: facts for pid in _numbers() if (facts := self._facts(pid)) is not None}
        commands = [self._command(began) for parent, began in found.values() if parent not in found]
        return list(dict.fromkeys(filter(None, commands)))

    def _facts(self, pid: int) -> tuple[int, float] | None:
        """Return the parent and start time of a session's process whose working folder is in the project, None for others."""
        try:
            folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - compared as a string
            if folder != self._root and not folder.startswith(f"{self._root}/"):
                return None
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it has ended, or belongs to another user
            return None
        is_shell = int(fields[3]) == pid and Path(os.fsdecode(line.partition(b"\0")[0])).name == "bash"
        if is_shell or not is_marked(pid):
            return None
        return int(fields[1]), int(fields[19]) / os.sysconf("SC_CLK_TCK")

    def _command(self, began: float) -> str:
        return next((command for start, end, command in self._ended if start - _SLACK <= began <= end), "")


def _now() -> float:
    """Return the current time on the clock that the start times of processes use."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else 0.0


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only
    except OSError:
        return []
