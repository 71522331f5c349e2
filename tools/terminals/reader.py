"""The thread that reads all terminals of this process, and types into them, in an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def run_beside(work: Coroutine[None, None, None]) -> None:
    """Run a coroutine in the readers' thread. Nothing waits for it, so its error is logged."""
    asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())).add_done_callback(_report)


async def beside(work: Coroutine[None, None, _Result]) -> _Result:
    """Return the result of a coroutine that runs in the readers' thread."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())))


def _report(done: Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a task of a terminal failed", exc_info=error)


@functools.cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """Start the thread of the process ``pid``, and return its event loop. A forked process has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="toolcrib-terminals", daemon=True).start()
    return loop
