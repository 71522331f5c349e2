"""Slots for a session's delegates: only so many run at once, the others wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager


class Places:
    """``count`` slots. All their users share one event loop."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._slots: asyncio.Semaphore | None = None
        self._users = 0

    @asynccontextmanager
    async def taken(self, waiting: Callable[[], AbstractContextManager[None]]) -> AsyncIterator[None]:
        """Wait for a slot, and hold it; ``waiting`` is entered if none is free."""
        if not self._users or self._slots is None:
            self._slots = asyncio.Semaphore(self._count)
        self._users += 1
        slots = self._slots
        try:
            with waiting() if slots.locked() else contextlib.nullcontext():
                await slots.acquire()
            try:
                yield
            finally:
                slots.release()
        finally:
            self._users -= 1
