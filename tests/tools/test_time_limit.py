"""Waits inside a call end before the call does, so that they can report why (003-29)."""

from __future__ import annotations

import asyncio

from tools.environments.remote.aside import aside
from tools.time_limit import TimeLimit, seconds_left


def test_a_wait_gets_less_than_its_call_has_left() -> None:
    assert seconds_left(20.0) == 20.0
    with TimeLimit(10.0):
        assert 7.0 < seconds_left(20.0) < 9.0
        assert seconds_left(1.0) == 1.0
        with TimeLimit(100.0):
            assert 7.0 < seconds_left(200.0) < 9.0
        with TimeLimit(5.0):
            assert 3.0 < seconds_left(20.0) < 4.5
        assert 7.0 < seconds_left(20.0) < 9.0
    assert seconds_left(20.0) == 20.0


def test_a_limit_that_has_passed_leaves_time_to_clean_up() -> None:
    with TimeLimit(0.0):
        assert seconds_left(20.0) == 20.0
        with TimeLimit(10.0):
            assert seconds_left(20.0) < 9.0


def test_threads_and_tasks_of_a_call_are_limited_and_one_that_outlives_it_is_not() -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def later() -> tuple[float, float]:
            before = seconds_left(20.0)
            await over.wait()
            return before, seconds_left(20.0)

        with TimeLimit(10.0):
            task = asyncio.create_task(later())
            assert await aside(seconds_left, 20.0) < 9.0
        over.set()
        before, after = await task
        assert before < 9.0
        assert after == 20.0

    asyncio.run(main())
