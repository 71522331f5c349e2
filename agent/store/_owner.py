"""Names of the processes that hold leases, and the check whether such a process has ended."""

from __future__ import annotations

import functools
import os
import secrets
from pathlib import Path

from tools import alive


def new_owner() -> str:
    """Return ``pid:start:boot:namespace:random`` for this process, with a new random part for each call.

    Start, boot and the namespace of process numbers distinguish it from every other process with the same number.
    """
    return f"{_this_process(os.getpid())}:{secrets.token_hex(8)}"


@functools.cache
def _this_process(pid: int) -> str:
    return f"{pid}:{alive.started(pid) or ''}:{alive.boot()}:{alive.namespace()}"


def is_ours(owner: str) -> bool:
    """Return whether ``new_owner`` named this process."""
    return owner.rpartition(":")[0] == _this_process(os.getpid())


def is_dead(owner: str) -> bool:
    """Return whether the process that ``new_owner`` named is known to have ended; False for another boot or namespace."""
    number, start, boot, namespace, _ = (*owner.split(":", 4), *[""] * 5)[:5]
    if not number.isdecimal() or not start or not boot or boot != alive.boot() or not namespace or namespace != alive.namespace():
        return False
    now = alive.started(int(number))
    if now is not None:
        return now != start
    # no start time: it has ended and was not waited for, or /proc hides it from us
    return Path(f"/proc/{number}/stat").exists() or not alive.exists(int(number))
