"""One call through validation, gates and hooks, without a ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.core import CannotMeasureError, Figure, best_of_each, each, median_of_each
from toolcrib import ToolCall, ToolCallContext, ToolResult, hookimpl, registry

ARGS = {"a": 2, "b": 3}
EXPECTED = {"sum": 5}
SCHEMA = {
    "description": "Add two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


def add(args: dict[str, Any]) -> dict[str, int]:
    return {"sum": args["a"] + args["b"]}


async def add_async(args: dict[str, Any]) -> dict[str, int]:
    return add(args)


class Observer:
    """A plugin with the two most common hooks."""

    @hookimpl
    def pre_tool_call(self, call: ToolCall, ctx: ToolCallContext) -> None:
        """Do nothing."""

    @hookimpl
    def post_tool_call(self, call: ToolCall, result: ToolResult, ctx: ToolCallContext) -> None:
        """Do nothing."""


class Gate:
    """A plugin with a sync gate, which runs in a worker thread."""

    @hookimpl
    def tool_gate(self, call: ToolCall) -> None:
        """Object to nothing."""


def measure(*, quick: bool) -> list[Figure]:
    """Return processor time per call, in us; for ``dispatch.gate`` elapsed time, because it waits for a thread."""
    import model_tools  # noqa: F401 - gives the registry its dispatcher

    registry.register("bench_sync", "bench", SCHEMA, add, kind="read")
    registry.register("bench_async", "bench", SCHEMA, add_async, kind="read")
    try:
        for name in ("bench_sync", "bench_async"):
            answer = json.loads(registry.dispatch(name, ARGS))
            if answer != EXPECTED:
                raise CannotMeasureError(f"{name} answered {answer}")
        number, rounds = (20, 3) if quick else (2000, 15)
        figures = [*_bare(number // 4, 4 * rounds), asyncio.run(_in_loop(number // 10, rounds)), _plugins(number, rounds)]
        return [*figures, *_gate(number // 4, 4 * rounds)]
    finally:
        registry.unregister("bench_sync")
        registry.unregister("bench_async")


def _bare(number: int, rounds: int) -> list[Figure]:
    """Return the best processor times: any excess is other work of the machine."""
    loop = asyncio.new_event_loop()
    runs = {
        "direct": _busy(lambda: json.dumps(add(ARGS)), number),
        "sync": _busy(lambda: registry.dispatch("bench_sync", ARGS), number),
        "direct_async": _busy(lambda: json.dumps(loop.run_until_complete(add_async(ARGS))), number),
        "async": _busy(lambda: registry.dispatch("bench_async", ARGS), number),
    }
    took = {name: seconds * 1e6 for name, seconds in best_of_each(runs, rounds).items()}
    loop.close()
    return [
        Figure("dispatch.sync", took["sync"], "us", took["direct"], 7, "ratio", "json.dumps(handler(args))"),
        Figure("dispatch.async", took["async"], "us", took["direct_async"], 2, "ratio", "run_until_complete on one reused loop"),
    ]


def _busy(function: Callable[[], object], number: int) -> Callable[[], float]:
    return each(function, number, time.process_time)


async def _in_loop(number: int, rounds: int) -> Figure:
    """Time sync dispatch of an async tool from code that runs in a loop."""

    def bare() -> None:
        result: list[str] = []

        def run() -> None:
            result.append(json.dumps(asyncio.run(add_async(ARGS))))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    runs = {"bare": _busy(bare, number), "dispatch": _busy(lambda: registry.dispatch("bench_async", ARGS), number)}
    took = median_of_each(runs, rounds)
    return Figure("dispatch.in_loop", took["dispatch"] * 1e6, "us", took["bare"] * 1e6, 1.3, "ratio", "a thread with asyncio.run")


def _plugins(number: int, rounds: int) -> Figure:
    import model_tools

    hooks = model_tools.dispatcher.hooks
    plugins = [Observer() for _ in range(10)]
    timed = _busy(lambda: registry.dispatch("bench_sync", ARGS), number)

    def hooked() -> float:
        for index, plugin in enumerate(plugins):
            hooks.register(plugin, f"observer{index}")
        try:
            registry.dispatch("bench_sync", ARGS)  # the plan is made at the first call after a change
            return timed()
        finally:
            for plugin in plugins:
                hooks.unregister(plugin)

    def plain() -> float:
        registry.dispatch("bench_sync", ARGS)
        return timed()

    took = median_of_each({"plain": plain, "hooked": hooked}, rounds)
    against = "only the approval plugin; measured: ten more, with pre_tool_call and post_tool_call"
    return Figure("dispatch.plugins", took["hooked"] * 1e6, "us", took["plain"] * 1e6, 4, "ratio", against)


def _gate(number: int, rounds: int) -> list[Figure]:
    """Time a call with one plugin's sync gate: elapsed time against ``dispatch.sync``, and processor time of both threads against
    a call without it and a bare switch to a thread and back. What a switch costs depends on the machine.
    """
    import model_tools

    hooks = model_tools.dispatcher.hooks
    gate = Gate()

    def gated(clock: Callable[[], float]) -> Callable[[], float]:
        timed = each(lambda: registry.dispatch("bench_sync", ARGS), number, clock)

        def run() -> float:
            hooks.register(gate, "gate")
            try:
                registry.dispatch("bench_sync", ARGS)  # makes the plan and starts the thread
                return timed()
            finally:
                hooks.unregister(gate)

        return run

    def plain(clock: Callable[[], float]) -> Callable[[], float]:
        timed = each(lambda: registry.dispatch("bench_sync", ARGS), number, clock)

        def run() -> float:
            registry.dispatch("bench_sync", ARGS)
            return timed()

        return run

    clock, busy = time.perf_counter, time.process_time
    runs = {"plain": plain(clock), "gated": gated(clock), "plain_busy": plain(busy), "gated_busy": gated(busy)}
    with _switches() as switch:
        runs["switch"] = each(switch, number, busy)
        took = {name: seconds * 1e6 for name, seconds in best_of_each(runs, rounds).items()}
    against = "only the approval plugin"
    bare = took["plain_busy"] + took["switch"]
    what = f"{against}, and a bare switch to a thread and back, in processor time"
    return [
        Figure("dispatch.gate", took["gated"], "us", took["plain"], 10, "ratio", f"{against}, elapsed time"),
        Figure("dispatch.gate_cpu", took["gated_busy"], "us", bare, 2, "ratio", what),
    ]


@contextlib.contextmanager
def _switches() -> Iterator[Callable[[], None]]:
    """Yield a function that lets another thread run and returns when that thread has answered."""
    asked: queue.SimpleQueue[threading.Lock | None] = queue.SimpleQueue()

    def answer() -> None:
        while (done := asked.get()) is not None:
            done.release()

    def switch() -> None:
        done = threading.Lock()
        done.acquire()
        asked.put(done)
        done.acquire()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield switch
    finally:
        asked.put(None)
        thread.join()
