"""Keep other processes of the same user, such as the commands of a session, from reading this one.

On Linux a process can read the memory, the open files and the initial environment of other processes of the same user; the
environment contains the keys of model servers. Other processes can't read a process that is not dumpable. The memory of the
initial environment is also wiped, because root could still read it, and because a process is dumpable when it starts.
``os.environ`` and libc keep their copies.

Only the command line does this. A program that embeds toolcrib decides for itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

OPTION = "--debuggable"
"""The option that allows a debugger to attach to this process, and other processes to read it."""
_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Fields of /proc/self/stat after the command's name: the addresses of the initial environment."""


def hide(words: Sequence[str]) -> None:
    """Make this process unreadable for others, unless its command line ``words`` allows a debugger. Linux only."""
    own = words[: words.index("--")] if "--" in words else words
    if sys.platform != "linux" or OPTION in own:
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        print(f"toolcrib: other processes can read this one: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
    start, end = _block()
    for name, value in os.environb.items():
        os.putenv(name, value)  # libc now has its own copy for libraries and child processes
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)


def _block() -> tuple[int, int]:
    """Return the first and last address of the initial environment, or (0, 0) if the kernel does not report them."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - avoids importing pathlib
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, ValueError, IndexError):
        return 0, 0
