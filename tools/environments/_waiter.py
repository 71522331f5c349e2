"""Wait for a wake-up or a deadline, whichever is first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Waiter:
    """A wait for a wake-up, for one coroutine and one event loop at a time."""

    def __init__(self) -> None:
        self._told: asyncio.Future[None] | None = None

    async def wait(self, deadline: float | None) -> None:
        """Wait until ``wake`` is called or the deadline (by the loop's clock) passes. A ``wake`` before the wait does not
        count.
        """
        loop = asyncio.get_running_loop()
        self._told = loop.create_future()
        timer = None if deadline is None else loop.call_at(deadline, self.wake)
        try:
            await self._told
        finally:
            self._told = None
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Wake the waiting coroutine. Must be called in its event loop."""
        if self._told is not None and not self._told.done():
            self._told.set_result(None)


class ReadableWaits:
    """Waits of several coroutines, perhaps in different event loops, until a descriptor is readable."""

    def __init__(self) -> None:
        self._waits: dict[asyncio.AbstractEventLoop, set[asyncio.Future[None]]] = {}

    async def wait(self, fd: int, seconds: float | None, consume: Callable[[], None] = lambda: None) -> None:
        """Wait at most ``seconds``. ``consume`` is called when the descriptor is readable.

        Raises ValueError or OSError if the descriptor is closed.
        """
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            consume()
            for each in self._waits.get(loop, ()):
                if not each.done():
                    each.set_result(None)

        loop.add_reader(fd, wake)
        waits = self._waits.setdefault(loop, set())
        waits.add(woken)
        try:
            await asyncio.wait([woken], timeout=seconds)
        finally:
            waits.discard(woken)
            if not waits:
                del self._waits[loop]
                loop.remove_reader(fd)
