"""Tests of the bridge from sync to async code (003-22)."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from tools.dispatch.bridge import by_hand, close_loop, run_async


async def here() -> tuple[int, int]:
    return id(asyncio.get_running_loop()), threading.get_ident()


def test_no_loop_running_uses_one_persistent_loop(bench: Any) -> None:
    """003-22: cached async clients stay open across calls"""
    client: dict[str, Any] = {}

    async def use(args: Any) -> bool:
        loop = client.setdefault("loop", asyncio.get_running_loop())
        return loop is asyncio.get_running_loop() and not loop.is_closed()

    bench.tool("t", use)
    assert [bench.call("t").result.data for _ in range(3)] == [True, True, True]
    assert threading.get_ident() == run_async(here())[1]


def test_inside_a_running_loop_a_disposable_thread_is_used(bench: Any) -> None:
    """003-22"""
    bench.tool("t", lambda args: "inline")

    async def other(args: Any) -> int:
        return threading.get_ident()

    bench.tool("later", other)

    async def go() -> tuple[Any, Any]:
        return bench.call("later").result.data, bench.call("later").result.data

    first, second = asyncio.run(go())
    assert threading.get_ident() not in (first, second)


def test_a_worker_thread_keeps_a_loop_of_its_own() -> None:
    """003-22"""
    found: list[tuple[int, int]] = []

    def work() -> None:
        found.extend([run_async(here()), run_async(here())])

    main = run_async(here())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] == found[1] != main
    gc.collect()


def test_an_error_comes_through_every_bridge() -> None:
    async def fail() -> None:
        raise ValueError("boom")

    async def nested() -> None:
        run_async(fail())

    with pytest.raises(ValueError, match="boom"):
        run_async(fail())
    with pytest.raises(ValueError, match="boom"):
        asyncio.run(nested())


async def _pressed(*, while_ending: bool) -> None:
    """Wait for a task that Ctrl-C interrupts; with ``while_ending``, wait for another such task afterwards."""

    async def press() -> None:
        raise KeyboardInterrupt

    try:
        await asyncio.create_task(press())
    finally:
        if while_ending:
            await asyncio.wait([asyncio.create_task(press())])


@pytest.mark.parametrize("while_ending", [False, True])
def test_calls_after_ctrl_c_run_to_their_ends(while_ending: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def later() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "done"

    with pytest.raises(KeyboardInterrupt):
        run_async(_pressed(while_ending=while_ending))
    assert [run_async(later()) for _ in range(2)] == ["done", "done"]
    close_loop()
    assert run_async(later()) == "done"
    gc.collect()
    assert not caplog.records, "the caller got the error, so it is not logged too"


def test_a_thread_s_loop_is_closed_with_the_thread_after_an_error_too() -> None:
    """The error refers to its frames, and would keep the loop until a garbage collection in any thread."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def fails() -> None:
        loops.append(asyncio.get_running_loop())
        raise KeyError("no")

    def work() -> None:
        with pytest.raises(KeyError):
            run_async(fails())

    gc.disable()
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert loops[0].is_closed()
    finally:
        gc.enable()


def test_context_variables_are_seen_on_the_other_side() -> None:
    import contextvars

    variable = contextvars.ContextVar("variable", default="unset")

    async def read() -> str:
        return variable.get()

    async def nested() -> str:
        variable.set("inside")
        return run_async(read())

    assert asyncio.run(nested()) == "inside"


def test_closing_ends_what_still_runs_on_the_loop() -> None:
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")

    tasks: list[Any] = []

    async def start() -> None:
        tasks.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    run_async(start())
    close_loop()
    assert ended == ["ended"]
    assert run_async(here())
    close_loop()


def test_the_end_of_the_process_ends_what_runs_on_the_loop_and_closes_it() -> None:
    """A client that a tool keeps has no other moment to close its connection."""
    code = """
import asyncio
from tools.dispatch.bridge import run_async
async def client():
    try:
        await asyncio.sleep(300)
    finally:
        print("goodbye")
async def begin():
    kept.append(asyncio.create_task(client()))
    await asyncio.sleep(0)
kept = []
run_async(begin())
"""
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("goodbye\n", "")


def test_ctrl_c_cancels_the_coroutine_before_it_goes_on() -> None:
    ended: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(_raise_interrupt)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        run_async(work())
    assert ended == ["cleaned up"]
    close_loop()


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_what_is_driven_by_hand_may_not_wait() -> None:
    @types.coroutine
    def suspend() -> Iterator[None]:
        yield

    async def wait() -> None:
        await suspend()

    waiting = wait()
    with pytest.raises(RuntimeError, match="awaited an event loop"):
        by_hand(waiting)
    assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED
