"""Which process a call belongs to, and whether that process still lives."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from tools import alive


def this_process() -> str:
    """``pid:start:boot``. The start time and the boot tell it from a later process with the same number."""
    return _owner(os.getpid())


def is_alive(owner: str) -> bool:
    """Whether the process of ``this_process`` lives. What cannot be read counts as ended."""
    number, _, rest = owner.partition(":")
    start, _, boot = rest.partition(":")
    if not number.isdecimal() or boot != alive.boot():
        return False
    return (alive.started(int(number)) == start) if _has_proc() else alive.exists(int(number))


@functools.lru_cache(maxsize=4)
def _owner(pid: int) -> str:
    return f"{pid}:{alive.started(pid) or 0}:{alive.boot()}"


@functools.lru_cache(maxsize=1)
def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()
