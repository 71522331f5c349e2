"""The mark of a session's commands: a resource limit that every descendant inherits and no command can raise again.

A command can clear its variables, leave its parents (``env -i setsid --fork``) and outlive its session.
Resource limits stay: a process inherits them over fork and exec, and only root raises a hard limit. Linux has not enforced the
limit of file locks since version 2.6 (see getrlimit(2), RLIMIT_LOCKS), so lowering it changes nothing else. It is unlimited by
default, and any finite limit counts as the mark, because a command may lower it further.
"""

from __future__ import annotations

import logging
import resource
import sys
from pathlib import Path

_log = logging.getLogger(__name__)
_LOCKS = 10
"""RLIMIT_LOCKS, which has no name in Python."""
_LINE = b"Max file locks"
_VALUE = 0x70017C
MOST_LOCKS = 0x700000
"""The highest limit that marks a background process and its descendants: see ``locks`` in tools.processes.process.Process."""


def mark(pid: int) -> None:
    """Mark a process that was just started, before it starts others. If the kernel refuses, the process stays unmarked."""
    if sys.platform != "linux":
        return
    try:
        resource.prlimit(pid, _LOCKS, (_VALUE, _VALUE))
    except ProcessLookupError:
        pass  # it has ended
    except (OSError, ValueError) as error:
        if not is_marked(pid):
            _log.warning("the kernel does not allow commands to be marked as a session's: %s", error)


def is_self_marked() -> bool:
    """Return whether this process is a session's command, or descends from one.

    The kernel answers, because /proc may belong to another process namespace, or be hidden by a mount.
    """
    return sys.platform == "linux" and resource.getrlimit(_LOCKS)[1] != resource.RLIM_INFINITY


def is_marked(pid: int) -> bool | None:
    """Return whether a process is a session's command, or descends from one; None if that is unknown."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_bytes().splitlines()
    except OSError:
        return None
    limits = next((line.removeprefix(_LINE).split() for line in lines if line.startswith(_LINE)), [])
    return limits[1] != b"unlimited" if len(limits) > 1 else None
