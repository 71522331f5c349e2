"""The time limit of the current call. Waits inside the call use it to end before the call does, and to report why."""

from __future__ import annotations

import time
from contextvars import ContextVar
from types import TracebackType

_SHARE = 0.8
"""Part of the remaining time that a wait gets. The rest is for its caller, to report or to try something else."""


class TimeLimit:
    """A context manager that shortens the waits in its block, including those in tasks and nested blocks.

    It cancels nothing: a wait asks ``seconds_left``. A limit that has passed no longer counts, because code that runs after it
    only cleans up. A limit whose block has ended does not count either.
    """

    __slots__ = ("_due", "_is_over", "_outer")

    def __init__(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds
        self._is_over = False

    def __enter__(self) -> None:
        self._outer = _current.get()
        _current.set(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over = True
        _current.set(self._outer)

    def shorten(self, most: float) -> float:
        """Return ``most`` seconds, or less if this limit or one around it ends earlier."""
        if not self._is_over and (left := self._due - time.monotonic()) > 0:
            most = min(most, _SHARE * left)
        return most if self._outer is None else self._outer.shorten(most)


_current: ContextVar[TimeLimit | None] = ContextVar("toolcrib_time_limit", default=None)


def seconds_left(most: float) -> float:
    """Return ``most`` seconds, or less if the current call has less: then a part of its remaining time."""
    limit = _current.get()
    return most if limit is None else limit.shorten(most)
