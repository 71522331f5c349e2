"""All calls of one turn (003-31)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from toolcrib import Block, ToolCall, ToolCallStatus


def test_results_keep_the_order_of_the_calls_and_their_ids(bench: Any) -> None:
    """003-31, X-1"""

    async def wait(args: Any) -> int:
        await asyncio.sleep(args["s"])
        return int(args["s"] * 1000)

    bench.tool("t", wait, parallel_safe=True)
    calls = [ToolCall(f"c{number}", "t", {"s": s}) for number, s in enumerate((0.09, 0.06, 0.03))]
    done = bench.turn(*calls)
    assert [one.call.id for one in done] == ["c0", "c1", "c2"]
    assert [one.result.data for one in done] == [90, 60, 30]


@pytest.mark.parametrize("is_async", [True, False])
def test_parallel_safe_calls_run_together(bench: Any, is_async: bool) -> None:
    """003-31"""
    together = threading.Barrier(3, timeout=20)
    gate = asyncio.Event()
    count = 0

    async def meet(args: Any) -> str:
        nonlocal count
        count += 1
        if count == 3:
            gate.set()
        await gate.wait()
        return "met"

    bench.tool("t", meet if is_async else lambda args: together.wait() >= 0 and "met", parallel_safe=True)
    assert [one.result.data for one in bench.turn(("t", {}), ("t", {}), ("t", {}))] == ["met"] * 3


@pytest.mark.parametrize("options", [{"parallel_safe": False}, {"parallel_safe": True, "interactive": True}])
def test_others_run_one_after_another(bench: Any, options: dict[str, bool]) -> None:
    """003-31: interactive calls never run beside others"""
    running = 0

    def alone(args: Any) -> int:
        nonlocal running
        running += 1
        time.sleep(0.01)
        seen, running = running, running - 1
        return seen

    bench.tool("t", alone, **options)
    assert [one.result.data for one in bench.turn(*[("t", {})] * 4)] == [1, 1, 1, 1]


def test_a_call_in_order_is_gated_right_before_it_runs(bench: Any) -> None:
    seen: list[str] = []
    bench.tool("w", lambda args: seen.append("run w"))
    bench.tool("r", lambda args: seen.append("run r"), parallel_safe=True)
    bench.plugin(tool_gate=lambda call: seen.append(f"gate {call.name}"))
    bench.turn(("w", {}), ("r", {}), ("r", {}), ("w", {}))
    assert seen == ["gate w", "run w", "gate r", "gate r", "run r", "run r", "gate w", "run w"]


def test_one_bad_call_does_not_take_the_others_with_it(bench: Any) -> None:
    bench.tool("t", lambda args: 1 // args["n"], parallel_safe=True)
    done = bench.turn(("t", {"n": 1}), ("t", {"n": 0}), ("zzz", {}), ("t", {"n": 1}))
    assert [one.status for one in done] == [
        ToolCallStatus.SUCCEEDED,
        ToolCallStatus.FAILED,
        ToolCallStatus.FAILED,
        ToolCallStatus.SUCCEEDED,
    ]


def test_a_call_that_ends_the_run_ends_it(bench: Any) -> None:
    bench.tool("t", lambda args: 1)
    bench.tool("bad", lambda args: 1)
    bench.plugin(tool_gate=lambda call: Block("over", end_run=True) if call.name == "bad" else None)
    done = bench.turn(("t", {}), ("bad", {}), ("t", {}))
    assert [one.result.is_success for one in done] == [True, False, False]
    assert "an earlier call ended the run" in done[2].result.message


def test_an_interrupt_gives_every_call_its_result(bench: Any) -> None:
    """X-1"""
    started = threading.Event()

    async def wait(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    bench.tool("t", wait, parallel_safe=True)
    bench.tool("u", lambda args: pytest.fail("ran"))
    interrupter = threading.Thread(target=lambda: (started.wait(10), bench.scope.interrupt()))
    interrupter.start()
    done = bench.turn(("t", {}), ("t", {}), ("u", {}))
    interrupter.join()
    assert [one.status for one in done] == [ToolCallStatus.CANCELLED] * 3


def test_starts_and_ends_are_told(bench: Any) -> None:
    seen: list[str] = []
    bench.tool("t", lambda args: 1)
    bench.turn(
        ToolCall("a", "t", {}),
        ToolCall("b", "t", {}),
        on_start=lambda call: seen.append(f"start {call.id}"),
        on_done=lambda one: seen.append(f"done {one.call.id}"),
    )
    assert seen == ["start a", "done a", "start b", "done b"]
