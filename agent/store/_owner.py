"""Names of the processes that hold leases, and the check whether such a process is known to have ended."""

from __future__ import annotations

import functools
import os
import secrets
from pathlib import Path

from tools import alive


def new_owner() -> str:
    """Return ``pid:start:boot:namespace:random`` for this process, with another random part at each call.

    Start, boot and the namespace of process numbers tell it from every other process that has the same number.
    """
    return f"{_this_process(os.getpid())}:{secrets.token_hex(8)}"


@functools.cache
def _this_process(pid: int) -> str:
    return f"{pid}:{alive.started(pid) or ''}:{alive.boot()}:{_namespace()}"


def is_dead(owner: str) -> bool:
    """Tell whether the process of ``new_owner`` is known to have ended. Nothing is known of another boot or another namespace."""
    number, start, boot, namespace, _ = (*owner.split(":", 4), *[""] * 5)[:5]
    if not number.isdecimal() or not start or not boot or boot != alive.boot() or not namespace or namespace != _namespace():
        return False
    now = alive.started(int(number))
    if now is not None:
        return now != start
    # none: it has ended and nobody waited for it, or /proc does not show it to us
    return Path(f"/proc/{number}/stat").exists() or not alive.exists(int(number))


def _namespace() -> str:
    """The namespace of our process numbers; "" where that is not told."""
    try:
        return "".join(filter(str.isdecimal, str(Path("/proc/self/ns/pid").readlink())))
    except OSError:
        return ""
