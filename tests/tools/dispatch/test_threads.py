"""Sync functions beside a running loop: their number is bounded, and one that hangs does not delay others."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from toolcrib import RunIdentity, ToolCall, ToolRegistry
from toolcrib.testing import FakeEnvironment
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.dispatch.threads import LIMIT, ThreadPool, in_daemon_thread, in_own_thread, shared_pool

SCHEMA = {"description": "A tool.", "parameters": {"type": "object"}}


class Gates:
    """Functions that hang until ``open`` is set; ``begun`` counts the running functions."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Semaphore(0)

    def hang(self) -> int:
        self.begun.release()
        self.open.wait(30)
        return threading.get_ident()

    async def have_begun(self, number: int) -> None:
        for _ in range(number):
            assert await in_own_thread(self.begun.acquire, True, 30)


def test_calls_beyond_the_limit_wait_for_a_thread() -> None:
    async def main() -> None:
        pool, gates = ThreadPool(limit=3), Gates()
        calls = [asyncio.ensure_future(pool.run(gates.hang)) for _ in range(10)]
        await gates.have_begun(3)
        await asyncio.sleep(0)
        assert (pool.threads, pool.waiting) == (3, 7)
        gates.open.set()
        assert len(set(await asyncio.gather(*calls))) <= 3
        assert pool.waiting == 0

    asyncio.run(main())


def test_a_thread_is_used_again() -> None:
    async def main() -> None:
        pool = ThreadPool(limit=3)
        threads = {await pool.run(threading.current_thread) for _ in range(20)}
        assert len(threads) <= 3
        assert pool.threads <= 3

    asyncio.run(main())


def test_threads_without_work_end() -> None:
    async def main() -> None:
        pool, found = ThreadPool(limit=2, idle=0.01), []
        await pool.run(lambda: found.append(threading.current_thread()))
        await in_own_thread(found[0].join, 30)
        assert not found[0].is_alive()
        assert pool.threads == 0
        assert await pool.run(lambda: 5) == 5

    asyncio.run(main())


def test_a_call_given_up_while_it_waits_is_never_begun() -> None:
    async def main() -> None:
        pool, gates, ran = ThreadPool(limit=1), Gates(), []
        first = asyncio.ensure_future(pool.run(gates.hang))
        await gates.have_begun(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pool.run(ran.append, 1)
        assert pool.waiting == 0
        gates.open.set()
        await first
        await pool.run(ran.append, 2)
        assert ran == [2]

    asyncio.run(main())


def test_a_pool_full_of_functions_that_hang_holds_up_neither_loop_nor_nested_calls() -> None:
    """A nested call would wait forever for its own caller."""

    async def main() -> None:
        pool = ThreadPool(limit=2)

        def nested(depth: int) -> int:
            return depth if depth == 0 else asyncio.run(pool.run(nested, depth - 1)) + 1

        assert await asyncio.gather(*(pool.run(nested, 3) for _ in range(4))) == [3, 3, 3, 3]
        assert pool.threads <= 2

    asyncio.run(main())


def test_whoever_waits_for_a_person_takes_no_thread_of_the_pool() -> None:
    async def main() -> None:
        gates, before = Gates(), shared_pool().threads
        asked = asyncio.ensure_future(in_own_thread(gates.hang))
        await gates.have_begun(1)
        assert shared_pool().threads == before
        gates.open.set()
        await asked

    asyncio.run(main())


def test_a_pool_full_of_hung_handlers_times_calls_out_and_goes_on_afterwards() -> None:
    """A call's time limit includes its wait for a thread; after it the handler never runs."""
    registry, hooks, gates, ran = ToolRegistry(), new_manager(), Gates(), []
    registry.register("hang", "t", SCHEMA, lambda args: gates.hang() and None)
    registry.register("note", "t", SCHEMA, lambda args: ran.append(1), timeout=0.5)
    dispatcher = Dispatcher(registry, hooks)
    scope = CallScope(identity=RunIdentity("s"), open_environment=FakeEnvironment)

    async def main() -> None:
        hung = [asyncio.ensure_future(dispatcher.call(ToolCall(str(n), "hang", {}), scope)) for n in range(LIMIT)]
        await gates.have_begun(LIMIT)
        late = await dispatcher.call(ToolCall("late", "note", {}), scope)
        assert "no result within 0.5 s" in (late.result.message or "")
        gates.open.set()
        assert all(one.result.is_success for one in await asyncio.gather(*hung))
        assert (await dispatcher.call(ToolCall("again", "note", {}), scope)).result.is_success
        assert ran == [1]

    asyncio.run(main())


def _stops() -> None:
    raise StopIteration("x")


def _exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(("function", "kind"), [(_stops, RuntimeError), (_exits, SystemExit)])
def test_whatever_a_function_raises_reaches_the_caller(function: Callable[[], None], kind: type[BaseException]) -> None:
    async def main() -> None:
        with pytest.raises(kind):
            await in_daemon_thread(function)

    asyncio.run(main())


def test_context_variables_of_the_caller_are_seen() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def main() -> str:
        variable.set("the caller's")
        return await in_daemon_thread(variable.get)

    assert asyncio.run(main()) == "the caller's"


def test_a_fork_has_threads_of_its_own() -> None:
    code = """
import asyncio, os
from tools.dispatch.threads import in_daemon_thread
assert asyncio.run(in_daemon_thread(lambda: 1)) == 1
pid = os.fork()
if pid == 0:
    os._exit(0 if asyncio.run(in_daemon_thread(lambda: 2)) == 2 else 1)
print(os.waitpid(pid, 0)[1])
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "0"


def test_a_function_that_never_returns_holds_up_no_exit() -> None:
    code = """
import asyncio, threading
from tools.dispatch.threads import in_daemon_thread
async def main():
    try:
        async with asyncio.timeout(0.05):
            await in_daemon_thread(threading.Event().wait)
    except TimeoutError:
        print("stopped")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "stopped"


def test_where_the_system_has_no_thread_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for one of the pool's threads, and fails if the pool has none."""

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        pool, gates = ThreadPool(limit=3), Gates()
        with monkeypatch.context() as patch:
            patch.setattr("threading.Thread.start", no_thread)
            with pytest.raises(RuntimeError, match="can't start"):
                await pool.run(threading.get_ident)
        assert (pool.threads, pool.waiting) == (0, 0)
        first = asyncio.ensure_future(pool.run(gates.hang))
        await gates.have_begun(1)
        with monkeypatch.context() as patch:
            patch.setattr("threading.Thread.start", no_thread)
            second = asyncio.ensure_future(pool.run(threading.get_ident))
            await asyncio.sleep(0)
            assert (pool.threads, pool.waiting) == (1, 1)
        gates.open.set()
        assert await first == await second

    asyncio.run(main())
