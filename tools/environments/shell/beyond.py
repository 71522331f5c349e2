"""Shell state beyond its snapshot: open files, which no other shell can restore, and limits, which another shell can."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import Mapping
from typing import TypeAlias

Limits: TypeAlias = Mapping[int, tuple[int, int]]
"""Soft and hard limit, by resource."""

_STREAMS = frozenset({"0", "1", "2"})
_LOOKS, _PAUSE = 10, 0.003
_KINDS = tuple(sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_")))


async def keeps_files(pid: int, script: int) -> bool:
    """Return True if an idle shell holds files that a command opened in it, or if that is unknown.

    ``script`` is this process's descriptor of the shell's input.
    """
    for _ in range(_LOOKS):
        if not _has_files(pid, script):
            return False
        await asyncio.sleep(_PAUSE)  # right after a command the shell may still restore its own descriptors
    return True


def _has_files(pid: int, script: int) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        others = [name for name in os.listdir(folder) if name not in _STREAMS]  # noqa: PTH208 - names only
        own = os.fstat(script)
        return any(not os.path.samestat(os.stat(f"{folder}/{name}"), own) for name in others)  # noqa: PTH116 - as above
    except OSError:
        return True


def limits_of(pid: int) -> Limits | None:
    """Return the shell's resource limits as ulimit shows them, or None if they cannot be read."""
    try:
        return {kind: resource.prlimit(pid, kind) for kind in _KINDS}
    except (OSError, ValueError, AttributeError):
        return None


def changed(before: Limits, now: Limits) -> Limits:
    """Return the limits that commands have changed."""
    return {kind: pair for kind, pair in now.items() if before.get(kind) != pair}


def give_limits(pid: int, limits: Limits) -> None:
    """Set these limits. Raising a hard limit needs root, but only root's commands can have raised one."""
    for kind, pair in limits.items():
        with contextlib.suppress(OSError, ValueError):  # the shell has ended, which its next command detects
            resource.prlimit(pid, kind, pair)
