"""A user is asked: the contents of the ledger and the store in the meantime."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from toolcrib import Answer, Suspend, SuspendTicket, ToolCallContext, ToolCallStatus, ToolResult


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


def test_the_time_of_whoever_is_asked_is_not_the_calls(bench: Any) -> None:
    async def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        await asyncio.sleep(1)
        return Answer(ticket.id, payload={"approved": True})

    bench.scope.asker = asker
    bench.tool("t", lambda args, ctx: "done")
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    assert bench.call("t").duration < 1


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"payload": {"approved": True}, "by": "ann"}, "approved"),
        ({"payload": {"approved": False}, "by": "ann"}, "denied"),
        (None, "expired"),
    ],
)
def test_what_becomes_of_the_ticket(bench: Any, given: dict[str, Any] | None, state: str) -> None:
    shown: list[SuspendTicket] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer | None:
        shown.append(ticket)
        return None if given is None else Answer(ticket.id, **given)

    bench.scope.asker = asker
    bench.tool("t", lambda args: "done")
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    assert bench.call("t").result.is_success is (state == "approved")
    record = asyncio.run(bench.store.tickets.get(shown[0].id))
    assert record is not None
    assert record.state == state


def test_of_two_who_agree_the_first_counts(bench: Any) -> None:
    """Another user answers elsewhere while this one is asked."""
    heard: list[str] = []

    async def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        first = Answer(ticket.id, payload={"approved": True}, by="bob", decision_id="bob-1")
        assert await bench.store.tickets.decide_ticket(first, "approved") == "settled"
        return Answer(ticket.id, payload={"approved": True}, by="ann", decision_id="ann-1")

    bench.scope.asker = asker
    bench.tool("t", lambda args: "done")
    bench.plugin(
        tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")),
        on_answer=lambda answer: heard.append(answer.by),
    )
    assert bench.call("t").result.data == "done"
    assert heard == ["bob"]


def test_a_sync_asker_holds_up_no_loop(bench: Any) -> None:
    threads: list[int] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        threads.append(threading.get_ident())
        return Answer(ticket.id, payload={"approved": True})

    bench.scope.asker = asker
    bench.tool("t", lambda args: "done")
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    assert [one.result.data for one in bench.turn(("t", {}))] == ["done"]
    assert threads != [threading.get_ident()]


def test_a_sync_asker_that_a_scope_was_made_with_holds_up_no_loop(bench: Any) -> None:
    threads: list[int] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        threads.append(threading.get_ident())
        return Answer(ticket.id, payload={"approved": True})

    bench.scope = replace(bench.scope, asker=asker)
    bench.tool("t", lambda args: "done")
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    assert [one.result.data for one in bench.turn(("t", {}))] == ["done"]
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


def test_an_asker_may_leave_it_to_a_person_who_is_not_here(bench: Any) -> None:
    """The call waits with the ticket of the question, and a later answer resumes it."""
    asked: list[SuspendTicket] = []
    bench.scope.suspends, bench.scope.asker = True, lambda ticket, ctx: asked.append(ticket)
    bench.tool("t", lambda args: "done")
    bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(SuspendTicket("ask", "may it?", binds="once")))
    parked = bench.call("t", call_id="c")
    assert parked.result.is_pending
    assert parked.result.suspension.id == asked[0].id
    assert bench.record("c").status is ToolCallStatus.SUSPENDED
    assert asyncio.run(bench.store.tickets.get(asked[0].id)).state == "pending"
    answer = Answer(asked[0].id, payload={"approved": True})
    assert asyncio.run(bench.dispatcher.resume(answer, bench.scope)).result.data == "done"


@pytest.mark.parametrize("asks", ["a gate", "a plugin's tool", "the agent loop"])
def test_only_the_agent_loop_s_own_tool_asks_in_place_of_another_ticket(bench: Any, asks: str) -> None:
    shown: list[SuspendTicket] = []
    question = SuspendTicket("ask", "tea?", parameters={"relays": "t1", "more": 1}, resume_mode="pass_to_tool", binds="once")

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        shown.append(ticket)
        return Answer(ticket.id, payload={"approved": True})

    def handle(args: Any, ctx: ToolCallContext) -> Any:
        asked = asks == "a gate" or ctx.resume_input is not None
        return "done" if asked else ToolResult.suspended_with("t", "tea?", question)

    bench.scope = replace(bench.scope, asker=asker, handlers={"t": handle})
    bench.tool("t", None if asks == "the agent loop" else handle)
    if asks == "a gate":
        bench.plugin(tool_gate=lambda ctx: None if ctx.answers else Suspend(question))
    assert bench.call("t").result.is_success
    relays = {"relays": "t1"} if asks == "the agent loop" else {}
    assert [ticket.parameters for ticket in shown] == [{"more": 1, **relays}]
