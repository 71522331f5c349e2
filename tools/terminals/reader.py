"""The thread that reads all terminals of this process, and types into them, in an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_tasks = 0


def run_beside(work: Coroutine[None, None, _Result]) -> Future[_Result]:
    """Run a coroutine in the readers' thread, which ends with the last of them."""
    global _loop, _tasks
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(_loop,), name="toolcrib-terminals", daemon=True).start()
        _tasks += 1
        done = asyncio.run_coroutine_threadsafe(work, _loop)
    done.add_done_callback(_done)
    return done


async def beside(work: Coroutine[None, None, _Result]) -> _Result:
    """Return the result of a coroutine that runs in the readers' thread."""
    return await asyncio.wrap_future(run_beside(work))


def _done(_: object) -> None:
    global _loop, _tasks
    with _lock:
        _tasks -= 1
        if not _tasks and _loop is not None:
            _loop.call_soon_threadsafe(_loop.stop)
            _loop = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
