"""The thread that reads all terminals of this process, in an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_tasks = 0


def run_beside(work: Coroutine[None, None, None]) -> None:
    """Run a coroutine in the readers' thread, which ends with the last of them."""
    global _loop, _tasks
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(_loop,), name="toolcrib-terminals", daemon=True).start()
        _tasks += 1
        asyncio.run_coroutine_threadsafe(work, _loop).add_done_callback(_done)


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
