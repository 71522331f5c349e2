"""The thread that reads all terminals of this process, and types into them, in an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


def run_beside(work: Coroutine[None, None, _Result]) -> Future[_Result]:
    """Run a coroutine in the readers' thread, which starts at first use."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))


async def beside(work: Coroutine[None, None, _Result]) -> _Result:
    """Return the result of a coroutine that runs in the readers' thread."""
    return await asyncio.wrap_future(run_beside(work))


@functools.cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """Start the thread of the process ``pid``, and return its event loop. A forked process has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="toolcrib-terminals", daemon=True).start()
    return loop
