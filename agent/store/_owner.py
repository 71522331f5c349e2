"""Which process a call belongs to, and whether that process still lives."""

from __future__ import annotations

import functools
import os
from pathlib import Path


def this_process() -> str:
    """``pid:start:boot``. The start time and the boot tell it from a later process with the same number."""
    return _owner(os.getpid())


def is_alive(owner: str) -> bool:
    """Whether the process of ``this_process`` lives. What cannot be read counts as ended."""
    number, _, rest = owner.partition(":")
    start, _, boot = rest.partition(":")
    if not number.isdecimal() or boot != _boot():
        return False
    return (_start(int(number)) == start) if _has_proc() else _answers(int(number))


@functools.lru_cache(maxsize=4)
def _owner(pid: int) -> str:
    return f"{pid}:{_start(pid) or 0}:{_boot()}"


@functools.lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@functools.lru_cache(maxsize=1)
def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()


def _start(pid: int) -> str | None:
    """When a process started, in clock ticks since the boot. None for one that has ended, waited for or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
