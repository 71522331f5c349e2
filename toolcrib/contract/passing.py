"""Temporary faults of this machine: a retry may succeed, so they do not prove, for example, that a file is missing."""

from __future__ import annotations

import errno
import os

_NUMBERS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})
"""Too many open files, in this process or on the machine; no memory; too many processes or threads; no buffers."""

_FILES = 5
"""Number of files that a library may open at the same time: SQLite opens a database and its log, and a lookup
of an account opens several files.
"""


SHORTAGE = "this machine is short of file descriptors, memory or threads; close other programs, or raise the limits (ulimit -a)"
"""The sentence that describes such a fault to users and models."""


def is_passing(error: BaseException | None) -> bool:
    """Return whether the error, or one that led to it, means that this machine is now short of file descriptors,
    memory, processes or threads.
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _NUMBERS):
            return True
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return True
        error = error.__cause__ or error.__context__  # a library may raise without ``from``
    return False


def shortage() -> str:
    """Return the system's message if a library can't open its files now, or "". Some libraries hide the error's number."""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_FILES))
    except OSError as error:
        return (error.strerror or "") if is_passing(error) else ""
    finally:
        for handle in opened:
            os.close(handle)
    return ""


def raise_passing(error: BaseException) -> None:
    """Raise the error again if it is temporary, so that no handler mistakes it for a fact, such as a missing file."""
    if is_passing(error):
        raise error
