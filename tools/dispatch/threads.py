"""Sync handlers beside a running loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Await a sync function in a thread of its own, with the caller's context variables.

    A daemon, not a pool's: a handler that never returns then holds up neither the loop's end nor the process's.
    Cancelling stops the waiting; the function itself can't be stopped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]  # None only beside an error

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(function, *args)
        except StopIteration as stop:  # a future refuses it
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:  # the loop has gone: nobody waits any more
            return

    threading.Thread(target=run, name=f"toolcrib-{getattr(function, '__name__', 'call')}", daemon=True).start()
    return await future
