"""A time limit for frequent waits."""

from __future__ import annotations

import asyncio

import pytest

from agent.deadline import Deadline


def test_a_wait_that_takes_too_long_is_ended() -> None:
    async def go() -> None:
        deadline = Deadline()
        with pytest.raises(TimeoutError), deadline.within(0.02):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    asyncio.run(go())


def test_waits_that_end_in_time_go_on_for_as_long_as_they_like() -> None:
    async def go() -> int:
        deadline, count, loop = Deadline(), 0, asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() < begun + 0.5:  # far longer than one wait's limit
            with deadline.within(0.2):
                await asyncio.sleep(0.01)
            count += 1
        deadline.close()
        return count

    assert asyncio.run(go()) > 2


def test_a_shorter_limit_counts_though_a_longer_one_was_set_before() -> None:
    async def go() -> None:
        deadline = Deadline()
        with deadline.within(60):
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError), deadline.within(0.02):
            await asyncio.Event().wait()
        with deadline.within(60):  # the deadline can be used again
            await asyncio.sleep(0)
        deadline.close()

    asyncio.run(go())


def test_nothing_is_ended_between_two_waits() -> None:
    async def go() -> None:
        deadline = Deadline()
        with deadline.within(0.02):
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        with deadline.within(60):
            await asyncio.sleep(0)
        deadline.close()

    asyncio.run(go())


def test_who_ends_the_task_is_not_taken_for_the_limit() -> None:
    async def go() -> None:
        deadline, begun = Deadline(), asyncio.Event()

        async def work() -> None:
            with deadline.within(60):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.get_running_loop().create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        deadline.close()

    asyncio.run(go())


def test_what_was_awaited_may_raise() -> None:
    async def go() -> None:
        deadline = Deadline()
        with pytest.raises(ValueError, match="its own"), deadline.within(60):
            raise ValueError("its own")
        deadline.close()

    asyncio.run(go())
