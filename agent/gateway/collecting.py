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


@contextlib.asynccontextmanager
async def collecting(is_quiet: Callable[[], bool]) -> AsyncIterator[None]:
    """Collect all garbage when ``is_quiet()``, and at least every ten minutes, until the block ends.

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
        has_news = sum(gc.get_count()[1:]) > 0  # objects have survived a collection since the last full one
        if has_news and (is_quiet() or loop.time() - last >= _LONGEST):
            gc.collect()
            last = loop.time()
