"""Blocking functions run in their own threads, and may end after their waiter has gone."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tools.environments.remote.aside import aside


class Made:
    def __init__(self, closed: threading.Event) -> None:
        self.close = closed.set


def test_what_comes_when_the_loop_is_closed_is_closed_too() -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def work() -> Made:
        begun.set()
        go_on.wait(60)
        return Made(closed)

    async def main() -> None:
        waits = asyncio.create_task(aside(work))
        await asyncio.to_thread(begun.wait, 60)
        waits.cancel()

    asyncio.run(main())
    go_on.set()
    assert closed.wait(60)


def test_what_comes_at_the_moment_in_which_the_wait_ends_is_closed_too() -> None:
    closed = threading.Event()

    async def main() -> None:
        waits = asyncio.create_task(aside(Made, closed))
        await asyncio.sleep(0)  # it begins
        for thread in threading.enumerate():
            if thread.name == "remote-aside":
                thread.join()
        asyncio.get_running_loop().call_soon(waits.cancel)  # after the result has arrived, and before the waiter receives it
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(main())
    assert closed.is_set()
