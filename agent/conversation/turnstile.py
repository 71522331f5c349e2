"""Turns at driving a session: one driver at a time, first come, first served, from any thread and event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from contextvars import ContextVar
from types import TracebackType

_admitted: ContextVar[tuple[object, ...]] = ContextVar("toolcrib_admitted", default=())
"""The admissions that the current code runs under; code inside a run's tools, askers and listeners sees them, too."""


class Turnstile:
    """An async context manager. Entering waits for all earlier callers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[Future[None]] = deque()
        self._admission: object = None

    @property
    def is_taken(self) -> bool:
        """True while a caller drives the session."""
        return self._taken

    @property
    def is_entered_here(self) -> bool:
        """True if the current code runs under the caller that drives the session, so that entering would wait for itself."""
        return self._admission is not None and any(one is self._admission for one in _admitted.get())

    async def __aenter__(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return self._admit()
            turn: Future[None] = Future()
            self._waiting.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel() and not turn.cancelled():  # admitted at the same moment
                self._leave()
            raise
        return self._admit()

    def _admit(self) -> None:
        self._admission = object()
        _admitted.set((*_admitted.get(), self._admission))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        admission, self._admission = self._admission, None
        _admitted.set(tuple(one for one in _admitted.get() if one is not admission))
        self._leave()

    def _leave(self) -> None:
        """Admit the next waiting caller."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._taken = False
