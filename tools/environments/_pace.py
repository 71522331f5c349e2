"""Let commands that start at the same time take turns, so that the event loop can do other work in between."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque

_SOME = 10
"""Number of starts in one round of the event loop. Each takes a fraction of a millisecond."""


class _Round:
    """The starts of one event loop, and the callers that wait for their turn there."""

    def __init__(self) -> None:
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._begun == 0:
            loop.call_soon(self._next, loop)
        self._begun += 1
        if self._begun > _SOME:
            self._waiting.append(future := loop.create_future())
            await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < _SOME:
            future = self._waiting.popleft()
            if not future.done():  # a cancelled caller is done already
                future.set_result(None)
                self._begun += 1
        if self._begun:
            loop.call_soon(self._next, loop)


_lock = threading.Lock()
_rounds: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Round] = weakref.WeakKeyDictionary()


async def turn() -> None:
    """Return at once, or some rounds of the event loop later if many callers ask at the same time."""
    loop = asyncio.get_running_loop()
    with _lock:
        mine = _rounds.setdefault(loop, _Round())
    await mine.turn(loop)
