"""Run blocking work in its own thread, and finish work that must not be cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from toolcrib.contract.errors import EnvironmentFailed
from tools.time_limit import seconds_left

if TYPE_CHECKING:
    from tools.environments.remote.channel import Link

_DIAGNOSIS = 10.0
"""Maximum seconds to find out why channels were lost."""
Given = ParamSpec("Given")
Result = TypeVar("Result")


async def aside(work: Callable[Given, Result], *args: Given.args, **named: Given.kwargs) -> Result:
    """Run ``work`` in its own thread. asyncio.to_thread shares few threads, so short work would wait for slow connections.

    A result that arrives after a cancelled wait is closed, if it has a method ``close``.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    given_up, lock, context = threading.Event(), threading.Lock(), contextvars.copy_context()

    def run() -> None:
        result: Result | None = None
        fault: BaseException | None = None
        try:
            result = context.run(work, *args, **named)
        except BaseException as error:  # noqa: BLE001 - the waiter gets the error
            fault = error
        with lock:
            waited_for = not given_up.is_set()
            if waited_for:
                try:
                    loop.call_soon_threadsafe(deliver, result, fault)
                except RuntimeError:  # the loop is closed
                    waited_for = False
        if not waited_for:
            drop(result)

    def drop(result: Result | None) -> None:
        getattr(result, "close", lambda: None)()

    def deliver(result: Result | None, fault: BaseException | None) -> None:
        if future.done():
            drop(result)
        elif fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # without a fault there is a result

    threading.Thread(target=run, name="remote-aside", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        with lock:  # from now on the loop may end before it calls ``deliver``
            given_up.set()
        if not future.cancelled() and future.done() and future.exception() is None:  # the result arrived just now
            drop(future.result())
        raise


async def aside_within(
    most: float, link: Link, work: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
) -> Result:
    """Run the link's ``work`` in its own thread, at most for ``most`` seconds or the time that the current call has left.

    Raises EnvironmentFailed if the work takes longer.
    """
    seconds = seconds_left(most)
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            return await aside(work, *args, **named)
    except TimeoutError as error:
        if timer.expired():
            raise EnvironmentFailed(
                f"{link.where} did not answer within {seconds:.2g} seconds; nothing was run: call again"
            ) from error
        raise


async def why_lost(link: Link) -> str:
    """Return the result of ``Link.diagnose``; "" if that takes ten seconds, or longer than the current call has left."""
    try:
        return await aside_within(_DIAGNOSIS, link, link.diagnose)
    except EnvironmentFailed:
        return ""


async def in_spite(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` even if the caller is cancelled meanwhile, however often. Raises what ``work`` raises."""
    task = asyncio.get_running_loop().create_task(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()
