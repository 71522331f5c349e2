"""A person is asked: what the ledger and the store know meanwhile."""

from __future__ import annotations

from typing import Any

from toolcrib import Answer, Suspend, SuspendTicket, ToolCallContext, ToolCallStatus


def test_a_call_is_suspended_while_somebody_is_asked(bench: Any) -> None:
    seen: list[Any] = []

    async def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        record = await bench.store.ledger.get("session", ctx.call_id)
        asked = await bench.store.tickets.get(ticket.id)
        seen.extend([record.status, asked.state, asked.ticket.call.id == ctx.call_id])
        return Answer(ticket.id, payload={"approved": True})

    async def handle(args: Any, ctx: ToolCallContext) -> str:
        record = await bench.store.ledger.get("session", ctx.call_id)
        seen.append(record.status)
        return "done"

    bench.scope.asker = asker
    bench.tool("t", handle)
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    assert bench.call("t").result.is_success
    assert seen == [ToolCallStatus.SUSPENDED, "pending", True, ToolCallStatus.RUNNING]
    assert bench.scope.asking == set()
