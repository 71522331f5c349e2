"""Tests for living processes. A process id is given out again; together with its start and the boot it is unique."""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def boot() -> str:
    """The machine's current boot; "" where that is unknown (not Linux)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; None for one that has ended, waited for or not (or no Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def exists(pid: int) -> bool:
    """Return whether any process has this number; one that has ended keeps it until it is waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another's
        return True
    return True
