"""Calls that are interrupted while a gate decides, or while a user is asked."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from toolcrib import Answer, Suspend, SuspendTicket, ToolCall, ToolCallContext, ToolCallStatus, ToolResult
from tools.dispatch.batch import run_calls


def interrupted(bench: Any, waits: threading.Event) -> Any:
    """Run the call ``c1`` of ``t``, and interrupt it once ``waits`` is set."""
    interrupter = threading.Thread(target=lambda: (waits.wait(30), bench.scope.interrupt()))
    interrupter.start()
    (executed,) = asyncio.run(run_calls(bench.dispatcher, [ToolCall("c1", "t", {})], bench.scope))
    interrupter.join()
    return executed


def test_what_a_person_was_asked_is_withdrawn(bench: Any) -> None:
    """X-1: a later answer runs nothing."""
    waits, shown = threading.Event(), list[SuspendTicket]()

    async def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        shown.append(ticket)
        waits.set()
        await asyncio.sleep(60)
        return Answer(ticket.id, payload={"approved": True})

    bench.scope.asker = asker
    ran: list[Any] = []
    bench.tool("t", ran.append)
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    assert interrupted(bench, waits).status is ToolCallStatus.CANCELLED
    assert asyncio.run(bench.store.tickets.pending("session")) == []
    late = Answer(shown[0].id, payload={"approved": True})
    assert asyncio.run(bench.store.tickets.decide_ticket(late, "approved")) == "refused"
    assert not ran


def test_gates_that_had_no_turn_are_put_away(bench: Any) -> None:
    waits, made = threading.Event(), list[Coroutine[Any, Any, None]]()

    async def hang() -> None:
        waits.set()
        await asyncio.sleep(60)

    def gate() -> Coroutine[Any, Any, None]:
        made.append(hang())
        return made[-1]

    bench.tool("t", lambda args: 1)
    bench.scope.limits = bench.scope.limits.__class__(gate_seconds=30)
    bench.plugin("one", tool_gate=gate)
    bench.plugin("two", tool_gate=gate)
    assert interrupted(bench, waits).status is ToolCallStatus.CANCELLED
    assert [inspect.getcoroutinestate(one) for one in made] == [inspect.CORO_CLOSED] * 2


def test_a_transform_that_is_interrupted_lets_the_call_be_cancelled(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The interrupt is not the transform's fault. The transform then sees the result of a cancelled call."""
    waits, seen = threading.Event(), list[bool]()

    async def hang(result: ToolResult) -> None:
        seen.append(result.is_success)
        if not waits.is_set():
            waits.set()
            await asyncio.sleep(60)

    bench.tool("t", lambda args: 1)
    bench.scope.limits = bench.scope.limits.__class__(gate_seconds=30)
    bench.plugin(transform_tool_result=hang)
    assert interrupted(bench, waits).status is ToolCallStatus.CANCELLED
    assert seen == [True, False]
    assert caplog.text == ""
