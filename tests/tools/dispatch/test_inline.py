"""Calls without a ledger: driven without a loop if everything is sync, and still resumed only once."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib import Answer, Suspend, SuspendTicket, ToolCallStatus
from tools.dispatch.hooks import new_manager


def loop_runs(args: Any) -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_no_loop_is_made_where_every_hook_is_sync(bench: Any) -> None:
    bench.scope.ledger = bench.scope.tickets = None
    bench.tool("t", loop_runs)
    bench.plugin("sync", tool_gate=lambda call: None)
    assert bench.call("t").result.data is False

    async def later() -> None:
        await asyncio.sleep(0)

    bench.plugin("async", tool_gate=later)
    assert bench.call("t").result.data is True


def test_a_decision_that_comes_twice_runs_the_call_once(bench: Any) -> None:
    """The call runs once even without a ledger that records its outcome."""
    bench.scope.ledger, bench.scope.suspends = None, True
    ran: list[Any] = []
    bench.tool("t", lambda args: ran.append(args))
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    ticket = bench.call("t").result.suspension
    answer = Answer(ticket.id, payload={"approved": True}, by="ann")
    assert asyncio.run(bench.dispatcher.resume(answer, bench.scope)).result.is_success
    again = asyncio.run(bench.dispatcher.resume(answer, bench.scope))
    assert (again.status, again.result.is_pending) == (ToolCallStatus.SUSPENDED, True)
    assert len(ran) == 1


def test_a_plugin_is_registered_by_its_name() -> None:
    manager = new_manager()
    assert manager.register(object(), "mine") == "mine"
    assert manager.has_plugin("mine")
