"""Three bridges from sync to async, chosen by the caller's thread and loop (003-22).

- The main thread with no loop running: one persistent loop, so that cached async clients stay alive between calls.
- Inside a running loop: a disposable thread with ``asyncio.run``.
- Any other thread with no loop: that thread's own persistent loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import selectors
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_local = threading.local()


class _Loop:
    """A thread's persistent loop, closed when its thread ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(_report)
        self.pid = os.getpid()
        self.awaited: asyncio.Task[Any] | None = None
        """The task whose end stops the loop. After Ctrl-C, none does: a stop that comes late would end the next call's run."""
        self._closer = weakref.finalize(self, _close, self.loop, self.pid)
        self._closer.atexit = False  # at exit, close_loop closes it in order

    def close(self) -> None:
        if self._closer.detach() is not None:  # calling it does nothing at exit, because weakref's own exit handler runs first
            _close(self.loop, self.pid)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of a task that is not awaited, but not Ctrl-C, which the caller gets."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)


def _close(loop: asyncio.AbstractEventLoop, owner: int) -> None:
    if os.getpid() != owner:  # a fork shares its parent's selector: removing a descriptor there would break the parent's waits
        vars(loop)["_selector"] = selectors.DefaultSelector()
        return
    if loop.is_closed() or loop.is_running():
        return
    if is_loop_running():  # the last reference was dropped inside another loop: none of its tasks can be awaited
        loop.close()
        return
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@atexit.register
def close_loop() -> None:
    """Close the calling thread's persistent loop, and end its tasks. The next call opens another."""
    holder: _Loop | None = getattr(_local, "holder", None)
    if holder is not None:
        del _local.holder
        holder.close()


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result, from any sync code. Ctrl-C cancels it first, and is then raised."""
    return _in_thread(coroutine) if is_loop_running() else _on_own_loop(coroutine)


def by_hand(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, in a thread without a loop. A store's coroutines block there instead of suspending."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a coroutine's StopIteration carries its T
    coroutine.close()
    raise RuntimeError("a coroutine that was driven by hand awaited an event loop")


def is_loop_running() -> bool:
    """Return whether the calling thread has a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _on_own_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    holder: _Loop | None = getattr(_local, "holder", None)
    if holder is not None and holder.pid != os.getpid():
        holder.close()
        holder = None
    if holder is None or holder.loop.is_closed():
        holder = _local.holder = _Loop()
    loop = holder.loop
    task = loop.create_task(_then_stop(loop, coroutine))
    holder.awaited = task
    try:
        loop.run_forever()
    except BaseException:
        holder.awaited = None
        if not task.done():  # Ctrl-C: the coroutine ends its processes before the error propagates
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                loop.run_until_complete(task)
        raise
    try:
        holder.awaited = None
        return task.result()
    finally:
        del task, holder, loop  # an error refers to this frame, and would keep the loop alive after its thread ended


async def _then_stop(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await the coroutine, then stop the loop. ``run_until_complete`` stops it one turn (and one system call) later."""
    try:
        return await coroutine
    finally:
        holder: _Loop | None = getattr(_local, "holder", None)
        if holder is not None and holder.awaited is asyncio.current_task():
            loop.stop()
        del holder  # as in _on_own_loop


def _in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    context = contextvars.copy_context()
    result: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            result.append(context.run(asyncio.run, coroutine))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="toolcrib-bridge")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return result[0]
