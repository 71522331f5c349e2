"""A few reserved descriptors, for work that must succeed even when no more files can be opened."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

_FEW = 3


class Spare:
    """Reserved descriptors. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[int] = []

    def hold(self) -> None:
        """Reserve the descriptors from now on, or as many as the system gives."""
        with self._lock, contextlib.suppress(OSError):  # the system has none left
            while len(self._held) < _FEW:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Close the reserved descriptors while the context lasts, so that other code can open as many."""
        with self._lock:
            held, self._held = self._held, []
        for fd in held:
            os.close(fd)
        try:
            yield
        finally:
            self.hold()
