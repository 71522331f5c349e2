"""Collection of garbage in a process that is a gateway's alone.

Python's collector stops all that a process does while it goes through every object: a third of a second beside a thousand open
chats, for each of which something grows just then. Here it goes through all of them when nobody waits for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable

_NEVER = 2**31 - 1
_OBJECTS = (3_000, 100, _NEVER)
"""Thresholds: young objects are collected as they come, in a few ms, what outlived that rarely, all only by ``_collect``."""
_LOOKS_EVERY = 5.0
_LONGEST = 600.0
"""Seconds after which all are gone through though the gateway has work."""


@contextlib.asynccontextmanager
async def collecting(is_quiet: Callable[[], bool]) -> AsyncIterator[None]:
    """Have all garbage collected when ``is_quiet()``, and every ten minutes at the latest, until the end of the block.

    It is for the whole process: for one that does nothing else.
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
        has_news = sum(gc.get_count()[1:]) > 0  # something has outlived a collection since
        if has_news and (is_quiet() or loop.time() - last >= _LONGEST):
            gc.collect()
            last = loop.time()
