"""Calls that are parked with a ticket, and continue after its answer, in this or another process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib import (
    Answer,
    Block,
    LeaseLost,
    ReadsFile,
    RunsCommand,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolCallStatus,
    ToolResult,
    WritesFile,
)
from tools.dispatch.batch import BatchCall, run_batch
from tools.dispatch.scope import Limits

YES, NO = {"approved": True}, {"approved": False, "reason": "not today"}


@pytest.fixture
def desk(bench: Any) -> Any:
    """A bench whose gate asks about calls with ``ask`` in their arguments. ``bench.ran`` has the calls that ran."""
    bench.ran = []

    def handle(args: Any, ctx: ToolCallContext) -> str:
        bench.ran.append(ctx.call_id)
        return f"did {ctx.call_id}"

    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return Suspend(SuspendTicket("ask", "may it?", binds=call.id)) if call.args.get("ask") and not ctx.answers else None

    bench.tool("run", handle, kind="execute", effects=lambda args, ctx: [RunsCommand("x", "/p")])
    bench.tool("write", handle, kind="edit", effects=lambda args, ctx: [WritesFile(args["path"])])
    bench.tool("look", handle, kind="read", parallel_safe=True)
    bench.tool("read", handle, kind="read", parallel_safe=True, effects=lambda args, ctx: [ReadsFile(args["path"])])
    bench.tool("note", handle)
    bench.plugin(tool_gate=gate)
    bench.scope.suspends = True
    return bench


def batch(*calls: tuple[str, dict[str, Any]]) -> list[BatchCall]:
    return [BatchCall(ToolCall(f"c{number}", name, args)) for number, (name, args) in enumerate(calls)]


def go(desk: Any, items: Sequence[BatchCall], **options: Any) -> bool:
    return asyncio.run(run_batch(desk.dispatcher, items, desk.scope, **options))


def rebuilt(items: Sequence[BatchCall]) -> list[BatchCall]:
    """Return the calls as another process restores them."""
    return [BatchCall(item.call, item.executed, item.tickets) for item in items]


def decide(desk: Any, item: BatchCall, payload: Any = None, **options: Any) -> None:
    answer = Answer(item.tickets[-1], payload=YES if payload is None else payload, by="ann", **options)
    no = answer.denied or answer.action == "cancel"
    assert asyncio.run(desk.store.tickets.decide_ticket(answer, "denied" if no else "approved")) == "settled"


def test_a_parked_call_waits_and_its_siblings_are_gated(desk: Any) -> None:
    items = batch(("run", {"ask": 1}), ("run", {}), ("run", {"ask": 1}), ("look", {}), ("note", {}))
    started: list[str] = []
    assert not go(desk, items, on_start=lambda call: started.append(call.id))
    assert desk.ran == ["c3"]
    assert [bool(item.tickets) for item in items] == [True, False, True, False, False]
    assert started == ["c0", "c2", "c3"]
    assert [record.ticket.call.id for record in asyncio.run(desk.store.tickets.pending("session"))] == ["c0", "c2"]
    assert desk.record("c1") is None, "a call that must wait is not opened"
    assert desk.record("c0").status is ToolCallStatus.SUSPENDED


def test_nothing_overtakes_what_it_overlaps_with(desk: Any) -> None:
    items = batch(
        ("write", {"path": "/p/out", "ask": 1}),
        ("write", {"path": "/p/out/a"}),  # below the parked one
        ("write", {"path": "/p/out/a"}),  # overlaps with the waiting call
        ("write", {"path": "/q"}),
    )
    assert not go(desk, items)
    assert desk.ran == ["c3"]
    decide(desk, items[0])
    assert go(desk, rebuilt(items))
    assert desk.ran == ["c3", "c0", "c1", "c2"]


def test_no_reading_overtakes_what_it_overlaps_with(desk: Any) -> None:
    """A change does not overtake a waiting read either, although reads usually run together."""
    items = batch(
        ("write", {"path": "/p/out", "ask": 1}),
        ("read", {"path": "/p/out/a"}),
        ("read", {"path": "/q"}),
        ("look", {}),
        ("write", {"path": "/p/out/a"}),
        ("read", {"path": "/p", "ask": 1}),
    )
    assert not go(desk, items)
    assert sorted(desk.ran) == ["c2", "c3"]
    decide(desk, items[5])
    again = rebuilt(items)
    assert not go(desk, again)
    assert sorted(desk.ran) == ["c2", "c3"], "one that was agreed to waits too"
    decide(desk, again[0])
    assert go(desk, rebuilt(again))
    assert desk.ran[2:] == ["c0", "c1", "c4", "c5"]


def test_nothing_that_reads_overtakes_a_parked_command(desk: Any) -> None:
    items = batch(("run", {"ask": 1}), ("read", {"path": "/q"}), ("look", {}))
    assert not go(desk, items)
    assert desk.ran == ["c2"]


def test_answers_in_any_order_keep_the_order_of_effects(desk: Any) -> None:
    """`cp x out/` never overtakes a parked `rm -rf out`, even if it is answered first"""
    items = batch(("run", {"ask": 1}), ("run", {"ask": 1}))
    assert not go(desk, items)
    decide(desk, items[1])
    again = rebuilt(items)
    assert not go(desk, again)
    assert desk.ran == []
    decide(desk, again[0])
    assert go(desk, again)
    assert desk.ran == ["c0", "c1"]
    assert [item.executed.result.data for item in again if item.executed] == ["did c0", "did c1"]


@pytest.mark.parametrize(
    ("payload", "options", "status", "words"),
    [
        (NO, {}, ToolCallStatus.FAILED, "not today"),
        (None, {"action": "cancel", "reason": "never mind"}, ToolCallStatus.CANCELLED, "never mind"),
    ],
)
def test_a_refusal_needs_not_wait_for_others(desk: Any, payload: Any, options: Any, status: ToolCallStatus, words: str) -> None:
    items = batch(("run", {"ask": 1}), ("run", {"ask": 1}))
    go(desk, items)
    decide(desk, items[1], payload, **options)
    assert not go(desk, items)
    assert items[1].executed is not None
    assert items[1].executed.status is desk.record("c1").status is status
    assert words in str(items[1].executed.result.message)
    assert desk.ran == []


def test_where_nobody_answers_in_time_it_is_denied(desk: Any) -> None:
    desk.scope.limits = Limits(park_seconds=0)
    items = batch(("run", {"ask": 1}))
    go(desk, items)
    assert go(desk, items)
    assert "not answered in time" in str(items[0].executed and items[0].executed.result.message)
    assert desk.record("c0").status is ToolCallStatus.FAILED


def test_a_terminal_that_takes_it_up_asks_the_same_ticket(desk: Any) -> None:
    items = batch(("run", {"ask": 1}))
    go(desk, items)
    asked: list[str] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        asked.append(ticket.id)
        return Answer(ticket.id, payload=YES)

    desk.scope.asker, parked = asker, items[0].tickets[0]
    assert go(desk, rebuilt(items))
    assert asked == [parked]
    assert desk.ran == ["c0"]
    assert asyncio.run(desk.store.tickets.get(parked)).state == "approved"


def test_an_interrupt_gives_parked_calls_up(desk: Any) -> None:
    items = batch(("run", {"ask": 1}), ("run", {}))
    go(desk, items)
    desk.scope.interrupt()
    assert go(desk, rebuilt(items)) is True
    again = rebuilt(items)
    assert go(desk, again)
    assert [item.executed.status.value for item in again if item.executed] == ["cancelled", "cancelled"]
    record = asyncio.run(desk.store.tickets.get(items[0].tickets[0]))
    assert (record.state, record.answer.by) == ("expired", "nobody")
    assert desk.record("c0").status is ToolCallStatus.CANCELLED


def test_a_call_that_ends_the_run_ends_the_ones_after_it(desk: Any) -> None:
    desk.plugin(
        "stop", tool_gate=lambda call, ctx: Block("over", end_run=True) if call.args.get("stop") and ctx.answers else None
    )
    items = batch(("run", {"ask": 1, "stop": 1}), ("run", {"ask": 1}), ("look", {}))
    go(desk, items)
    decide(desk, items[0])
    assert go(desk, items)
    assert [item.executed.end_run for item in items if item.executed] == [True, False, False]
    assert "an earlier call ended the run" in str(items[1].executed and items[1].executed.result.message)
    assert desk.ran == ["c2"]


def test_a_pending_result_without_a_ticket_gets_one_that_can_be_answered(desk: Any) -> None:
    """002-24: the answer becomes the result"""
    desk.tool("ask", lambda args: ToolResult.suspended("ask", "which colour?"))
    items = batch(("ask", {}))
    assert not go(desk, items)
    record = asyncio.run(desk.store.tickets.get(items[0].tickets[0]))
    assert (record.ticket.action, record.ticket.message) == ("answer", "which colour?")
    decide(desk, items[0], {"colour": "blue"})
    assert go(desk, rebuilt(items))


def test_what_plugins_scheduled_is_done_when_all_results_are_there(desk: Any) -> None:
    """002-26"""
    from toolcrib import After

    seen: list[str] = []
    desk.plugin("later", post_tool_call=lambda call: After(later=[lambda: seen.append(call.id)]))
    items = batch(("note", {"ask": 1}), ("note", {}))
    assert not go(desk, items)
    assert seen == []
    decide(desk, items[0])
    assert go(desk, items)
    assert sorted(seen) == ["c0", "c0", "c1"]


def test_an_id_of_an_earlier_turn_means_a_new_call(desk: Any) -> None:
    """Providers repeat ids, so the ledger is used only with ``since``, and only for calls that began at that time or later."""
    go(desk, batch(("note", {})))
    go(desk, batch(("note", {})))
    known = desk.record("c0")
    items = batch(("note", {}))
    assert go(desk, items, since=known.opened_at + 1)
    assert desk.ran == ["c0"] * 3
    items = batch(("note", {}))
    assert go(desk, items, since=known.opened_at)
    assert desk.ran == ["c0"] * 3
    assert items[0].executed is not None
    assert items[0].executed.result.data == "did c0"


def test_a_call_of_another_turn_is_told_by_name_and_not_by_clocks(desk: Any) -> None:
    """The clock of the ledger does not matter."""
    go(desk, batch(("note", {})), turn="run/1")
    for since in (0.0, 2.0**40):
        items = batch(("note", {}))
        assert go(desk, items, turn="run/1", since=since)
        assert items[0].executed is not None
        assert items[0].executed.result.data == "did c0"
    assert desk.ran == ["c0"]
    assert go(desk, batch(("note", {})), turn="run/2", since=0.0)
    assert desk.ran == ["c0", "c0"]
    assert desk.record("c0").turn == "run/2"


def test_what_a_gate_ended_stays_ended_after_a_crash(desk: Any) -> None:
    desk.plugin("ends", tool_gate=lambda call: Block("enough", end_run=True) if call.args.get("end") else None)
    go(desk, batch(("note", {"end": 1})), turn="run/1")
    items = batch(("note", {"end": 1}), ("note", {}))
    assert go(desk, items, turn="run/1", since=0.0)
    assert desk.ran == []
    assert [item.executed is not None and item.executed.end_run for item in items] == [True, False]
    assert items[1].executed is not None
    assert "an earlier call ended the run" in str(items[1].executed.result.message)


@pytest.mark.parametrize("moment", [0, 1])
def test_an_interrupt_while_a_refusal_is_recorded_is_a_result(desk: Any, moment: int) -> None:
    """The parked call is refused, or its question has expired."""
    items = batch(("note", {"ask": 1}))
    assert not go(desk, items)
    if moment:
        (ticket,) = items[0].tickets
        answer = Answer(ticket, action="cancel", by="nobody")
        asyncio.run(desk.store.tickets.decide_ticket(answer, "expired"))
    else:
        decide(desk, items[0], NO)
    finish = desk.scope.ledger.finish

    async def slow(*args: Any, **options: Any) -> None:
        desk.scope.interrupt()
        await asyncio.sleep(0.01)
        await finish(*args, **options)

    desk.scope.ledger.finish = slow
    assert go(desk, items)
    assert items[0].executed is not None
    assert items[0].executed.result.is_error
    assert desk.record("c0").status.is_terminal
    assert desk.ran == []


def test_a_lost_lease_ends_the_batch(desk: Any) -> None:
    async def lost(*args: Any) -> None:
        raise LeaseLost("another process has taken over the session")

    desk.store.ledger.handler_started = lost
    with pytest.raises(LeaseLost):
        go(desk, batch(("look", {}), ("look", {}), ("note", {})))
    assert desk.ran == []
