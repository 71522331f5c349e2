"""Garbage collection in a process that only runs a gateway.

Python's collector pauses the whole process while it visits every object: a third of a second with a thousand busy chats. Here a
full collection happens when no user waits for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable

_NEVER = 2**31 - 1
_OBJECTS = (3_000, 100, _NEVER)
"""Thresholds: young objects are collected often, in a few ms, older ones rarely, and all of them only by ``_collect``."""
_LOOKS_EVERY = 5.0
_LONGEST = 600.0
"""Seconds after which a full collection happens even if the gateway is busy."""
_GROWN = 3
"""Collections of older objects after which a full one happens even if the gateway is busy. Each stands for about 300,000 new
objects. Sessions that were closed are garbage with cycles, so their memory returns only in a full collection.
"""


@contextlib.asynccontextmanager
async def collecting(is_quiet: Callable[[], bool]) -> AsyncIterator[None]:
    """Collect all garbage when ``is_quiet()``, after much was allocated, and at least every ten minutes, until the block ends.

    This changes the whole process: use it only in a process that does nothing else.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_OBJECTS)
    collects = asyncio.create_task(_collect(is_quiet))
    try:
        yield
    finally:
        collects.cancel()
        await asyncio.gather(collects, return_exceptions=True)
        gc.set_threshold(*before)


async def _collect(is_quiet: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    last = loop.time()
    while True:
        await asyncio.sleep(_LOOKS_EVERY)
        _, younger, older = gc.get_count()  # collections since the last full one
        has_news = younger + older > 0
        if has_news and (is_quiet() or older >= _GROWN or loop.time() - last >= _LONGEST):
            gc.collect()
            last = loop.time()
