"""Monitor of running sandboxes: end one that reaches a limit, and report the reason to its user.

The kernel limits the number of processes and the memory of each. An ordinary user cannot limit their total memory, and a fork
bomb keeps trying to fork at the limit.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Protocol
from weakref import WeakSet

_PAUSE = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Limited(Protocol):
    """An object that runs processes within limits."""

    def look_at_limits(self) -> None:
        """End the processes if they are at a limit."""
        ...


class _Watch:
    """A thread that checks all sandboxes of this process once a second while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limited: WeakSet[Limited] = WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, limited: Limited) -> None:
        with self._lock:
            self._limited.add(limited)
            if self._thread is None or not self._thread.is_alive():  # none yet, or this process is a fork
                self._thread = threading.Thread(target=self._run, name="toolcrib-sandbox-limits", daemon=True)
                self._thread.start()

    def remove(self, limited: Limited) -> None:
        with self._lock:
            self._limited.discard(limited)

    def _run(self) -> None:
        while self._looks():
            time.sleep(_PAUSE)

    def _looks(self) -> bool:
        """Check each sandbox once; return False if there are none. Keeps no reference, so a dropped sandbox can be collected."""
        with self._lock:
            found = list(self._limited)
            if not found:
                self._thread = None
        for one in found:
            one.look_at_limits()
        return bool(found)


_watch = _Watch()
watch, forget = _watch.add, _watch.remove


def usage(proc: str) -> tuple[int, int]:
    """Return the number of threads and the bytes of memory of all processes in ``proc``, a /proc folder; 0 if it is gone."""
    threads = pages = 0
    with contextlib.suppress(OSError):  # the sandbox has ended
        for name in os.listdir(proc):  # noqa: PTH208 - only names are needed, once a second
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"{proc}/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    fields = file.read().rpartition(b")")[2].split()
                    threads += int(fields[17])
                    pages += int(fields[21])
    return threads, pages * _PAGE
