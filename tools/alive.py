"""Checks of living processes. Process ids are reused; together with the start time and the boot they are unique."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from toolcrib.contract.passing import raise_passing


@functools.cache
def boot() -> str:
    """Return the id of the machine's current boot; "" if it can't be read, as on systems other than Linux.

    Raises OSError for a temporary fault, such as too many open files.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError as error:
        raise_passing(error)
        return ""


def namespace() -> str:
    """Return the namespace of this process's numbers; "" if unknown."""
    try:
        return "".join(filter(str.isdecimal, str(Path("/proc/self/ns/pid").readlink())))
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """Return a process's start time, in ticks since the boot; None if it has ended, reaped or not.

    On systems other than Linux, return None for every process. Raises OSError for a temporary fault, such as too many open files.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError as error:
        raise_passing(error)  # otherwise a living process would count as ended
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def exists(pid: int) -> bool:
    """Return whether a process with this number exists; an ended process keeps its number until it is reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True
