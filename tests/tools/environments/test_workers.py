"""Blocking functions run in a few threads; each runs once, and its result is delivered or dropped."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.environments._census import Census
from tools.environments._workers import Workers


def test_a_result_and_a_fault_reach_whoever_waits() -> None:
    workers = Workers("test", 2)

    def fail() -> int:
        raise LookupError("no")

    async def main() -> int:
        with pytest.raises(LookupError, match="no"):
            await workers.run(fail)
        return await workers.run(lambda: 7)

    assert asyncio.run(main()) == 7


def test_there_are_no_more_threads_than_it_may_have() -> None:
    workers, lock, most = Workers("test", 3), threading.Lock(), [0, 0]
    gate = threading.Event()

    def work() -> None:
        with lock:
            most[0] += 1
            most[1] = max(most)
        gate.wait(0.01)
        with lock:
            most[0] -= 1

    async def main() -> None:
        await asyncio.gather(*(workers.run(work) for _ in range(30)))

    asyncio.run(main())
    assert 1 <= most[1] <= 3


def test_what_comes_after_nobody_waits_is_dropped_once(eventually: Callable[..., None]) -> None:
    workers, begun, go = Workers("test", 1), threading.Event(), threading.Event()
    dropped: list[str] = []

    def work() -> str:
        begun.set()
        go.wait(60)
        return "made"

    async def main() -> None:
        running = asyncio.ensure_future(workers.run(work, drop=dropped.append))
        while not begun.is_set():
            await asyncio.sleep(0.005)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    go.set()  # the loop is closed now
    eventually(lambda: dropped == ["made"])


def test_what_is_cancelled_in_the_moment_it_comes_is_dropped(eventually: Callable[..., None]) -> None:
    workers, dropped, kept = Workers("test", 2), [], []

    async def one(pause: float) -> None:
        running = asyncio.ensure_future(workers.run(object, drop=dropped.append))
        await asyncio.sleep(pause)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            kept.append(await running)

    async def main() -> None:
        for number in range(200):
            await one((number % 20) * 0.00002)

    asyncio.run(main())
    eventually(lambda: len(dropped) + len(kept) == 200)


_FORK = """
import asyncio, os
from tools.environments._census import Census
from tools.environments._workers import Workers
workers = Workers("test", 1)
assert asyncio.run(workers.run(lambda: 1)) == 1
child = os.fork()
if not child:
    os._exit(asyncio.run(workers.run(lambda: 3)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""


def test_a_thread_that_cannot_start_fails_its_work_and_no_later_work(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers("tc-test-short", 1)
    ran: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            asyncio.run(workers.run(lambda: ran.append("lost")))
    asyncio.run(asyncio.wait_for(workers.run(lambda: ran.append("later")), 60))
    assert ran == ["later"]


async def test_a_census_without_a_thread_reports_it_and_the_next_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Census()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="can't start new thread"):
            await asyncio.wait_for(taken.take(), 60)
    assert await asyncio.wait_for(taken.take(), 60)


def test_a_fork_has_threads_of_its_own(python: str, root: Path) -> None:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", _FORK], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
