"""A few descriptors that are kept back, for what must be done where no more files can be opened."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

_FEW = 3


class Spare:
    """Spare descriptors. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[int] = []

    def hold(self) -> None:
        """Keep them back from now on, as far as there are any."""
        with self._lock, contextlib.suppress(OSError):  # there are none now
            while len(self._held) < _FEW:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Close the spare descriptors for the length of this context, so that others can open as many."""
        with self._lock:
            held, self._held = self._held, []
        for fd in held:
            os.close(fd)
        try:
            yield
        finally:
            self.hold()
