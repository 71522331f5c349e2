"""Keep what this process knows from other processes of the same user: commands that a session runs are such processes.

Linux lets a process read the memory, the open files and the initial variables of another one of the same user, where the keys of
model servers stand. A process that is not dumpable is closed to that. The block of variables that it was started with is wiped
besides: root reads it anyway, and a process is dumpable until it says otherwise. What ``os.environ`` and libc know stays.

Only our own command line does this. A program that embeds toolcrib decides for itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

OPTION = "--debuggable"
"""The person's option by which a debugger may attach to this process, and other processes may read it."""
_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Fields of /proc/self/stat behind the command's name: where the initial variables lie in our memory."""


def hide(words: Sequence[str]) -> None:
    """Close this process to others, unless its command line ``words`` says that a debugger may attach. Linux only."""
    own = words[: words.index("--")] if "--" in words else words
    if sys.platform != "linux" or OPTION in own:
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        print(f"toolcrib: other processes can read this one: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
    start, end = _block()
    for name, value in os.environb.items():
        os.putenv(name, value)  # libc keeps a copy of its own from here on, for whatever we start or load
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)


def _block() -> tuple[int, int]:
    """Return where the initial variables begin and end; (0, 0) where the kernel does not say."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib would be loaded for it
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, ValueError, IndexError):
        return 0, 0
