"""Ending processes by session and group, so that nothing which a command started is left behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PROC = Path("/proc")


def groups_of(session: int) -> set[int]:
    """The process groups of a session that have a living member. Empty where there is no /proc."""
    found: set[int] = set()
    with contextlib.suppress(OSError):  # no /proc: the caller still knows the session's first group
        for name in os.listdir(_PROC):  # noqa: PTH208 - names only; a Path object each would triple the cost
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):  # it ended while we looked
                # "pid (name) state ppid pgrp session ..."; the name may itself hold spaces and brackets
                fields = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
                    found.add(int(fields[2]))
    return found


def send(groups: set[int], signal_number: int) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or grown out of our reach (setuid)
            os.killpg(group, signal_number)


def living(session: int, groups: set[int]) -> bool:
    """Whether a process of these groups still runs. The session's leader must have been reaped."""
    if not any(_exists(group) for group in groups):
        return False
    # What answers may be dead and waiting for an init that never reaps, as in many containers.
    return bool(groups_of(session)) if (_PROC / "self").exists() else True


def left_behind(session: int) -> bool:
    """Whether the group of a reaped leader still has members.

    A process that has the leader's number now is a stranger: the kernel does not give a number away while a group bears it.
    """
    return _exists(session) and not _number_taken(session)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _number_taken(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
