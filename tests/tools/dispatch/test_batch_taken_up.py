"""Batches that another process continues, and parked calls that are interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib import Answer, ExecutedCall, Suspend, SuspendTicket, ToolCall, ToolCallContext, ToolCallStatus, WritesFile
from toolcrib.contract.store import Fence, TicketRecord
from tools.dispatch.batch import BatchCall, run_batch

YES = {"approved": True}


@pytest.fixture
def desk(bench: Any) -> Any:
    """A bench whose gate asks about calls with ``ask`` in their arguments. ``bench.ran`` has the calls that ran."""
    bench.ran = []

    def handle(args: Any, ctx: ToolCallContext) -> str:
        bench.ran.append(ctx.call_id)
        return "done"

    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return Suspend(SuspendTicket("ask", "may it?", binds=call.id)) if call.args.get("ask") and not ctx.answers else None

    bench.tool("write", handle, kind="edit", effects=lambda args, ctx: [WritesFile(args["path"])])
    bench.tool("interrupt", lambda args: bench.scope.interrupt(), kind="read")
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


def test_a_call_that_was_parked_is_given_up_at_an_interrupt(desk: Any) -> None:
    """X-1: the parked call gets a result, and a later answer runs nothing."""
    items = batch(("write", {"ask": 1, "path": "/p/a"}), ("interrupt", {}))
    ended: list[str] = []
    assert go(desk, items, on_done=lambda one: ended.append(one.call.id))
    given_up = items[0].executed
    assert given_up is not None
    assert given_up.status is ToolCallStatus.CANCELLED
    assert given_up.result.message is not None
    assert given_up.result.message.startswith("Error executing write: ")  # not as if its handler had failed
    assert sorted(ended) == ["c0", "c1"]
    assert asyncio.run(desk.store.tickets.pending("session")) == []
    assert desk.ran == []


def test_an_answered_call_need_not_wait_for_one_that_does_something_else(desk: Any) -> None:
    """The call does not wait in another process either, which must determine the earlier call's effects again."""
    items = batch(("write", {"ask": 1, "path": "/p/a"}), ("write", {"ask": 1, "path": "/p/b"}))
    assert not go(desk, items)
    answer = Answer(items[1].tickets[-1], payload=YES, by="ann")
    assert asyncio.run(desk.store.tickets.decide_ticket(answer, "approved")) == "settled"
    again = rebuilt(items)
    assert not go(desk, again)
    assert desk.ran == ["c1"]


def test_nobody_is_asked_about_a_call_that_must_wait_for_another(desk: Any) -> None:
    items = batch(("write", {"ask": 1, "path": "/p/a"}), ("write", {"ask": 1, "path": "/p/a"}))
    assert not go(desk, items)
    asked: list[str] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> None:
        asked.append(ctx.call_id)

    desk.scope.asker = asker
    assert not go(desk, rebuilt(items))
    assert asked == ["c0"]


def test_a_call_that_had_ended_is_told_and_not_run_again(desk: Any) -> None:
    assert go(desk, batch(("write", {"path": "/p/a"})), turn="reply")
    told: list[ExecutedCall] = []
    assert go(desk, batch(("write", {"path": "/p/a"})), turn="reply", since=0.0, on_done=told.append)
    assert [one.result.data for one in told] == ["done"]
    assert desk.ran == ["c0"]


def test_a_call_waits_for_one_of_which_nothing_is_known_any_more(desk: Any) -> None:
    """The earlier call's effects can't be determined, so they could be any."""
    disk = {"there": True}

    def effects(args: Any, ctx: ToolCallContext) -> list[WritesFile]:
        if not disk["there"]:
            raise OSError("the disk is gone")
        return [WritesFile("/p/a")]

    desk.tool("once", lambda args: "done", effects=effects)
    items = batch(("once", {"ask": 1}), ("write", {"ask": 1, "path": "/p/b"}))
    assert not go(desk, items)
    assert (
        asyncio.run(desk.store.tickets.decide_ticket(Answer(items[1].tickets[-1], payload=YES, by="ann"), "approved"))
        == "settled"
    )
    disk["there"] = False
    assert not go(desk, rebuilt(items))
    assert desk.ran == []


def test_effects_are_worked_out_once_beside_a_parked_call(desk: Any) -> None:
    asked: list[str] = []

    def effects(args: Any, ctx: ToolCallContext) -> list[WritesFile]:
        asked.append(ctx.call_id)
        return [WritesFile("/p/b")]

    desk.tool("counted", lambda args: "done", effects=effects)
    assert not go(desk, batch(("write", {"ask": 1, "path": "/p/a"}), ("counted", {})))
    assert asked == ["c1"]


def test_two_calls_with_one_id_are_not_taken_for_each_other(desk: Any) -> None:
    desk.tool("count", lambda args: desk.ran.append("count"), parallel_safe=True)
    first, second = (BatchCall(ToolCall("same", "count", {})) for _ in range(2))
    assert go(desk, [first, second])
    assert desk.ran == ["count"]
    assert [one.executed is not None and one.executed.result.is_success for one in (first, second)] == [True, False]


def test_what_runs_is_the_call_that_was_agreed_to(desk: Any) -> None:
    """002-24: a call that is sent with the answer never runs"""
    written: list[str] = []
    desk.tool("keep", lambda args: written.append(args["path"]))
    items = batch(("keep", {"ask": 1, "path": "/p/agreed"}))
    assert not go(desk, items)
    assert (
        asyncio.run(desk.store.tickets.decide_ticket(Answer(items[0].tickets[-1], payload=YES, by="ann"), "approved"))
        == "settled"
    )
    other = BatchCall(ToolCall("c0", "keep", {"ask": 1, "path": "/p/other"}), None, items[0].tickets)
    assert go(desk, [other])
    assert written == ["/p/agreed"]


def test_a_call_whose_question_expired_is_begun_and_refused(desk: Any) -> None:
    items = batch(("write", {"ask": 1, "path": "/p/a"}))
    assert not go(desk, items)
    late = Answer(items[0].tickets[-1], action="cancel", by="nobody")
    assert asyncio.run(desk.store.tickets.decide_ticket(late, "expired")) == "settled"
    started: list[str] = []
    again = rebuilt(items)
    assert go(desk, again, on_start=lambda call: started.append(call.id))
    assert started == ["c0"]
    assert again[0].executed is not None
    assert again[0].executed.result.is_error
    assert desk.ran == []


def test_what_a_process_that_died_had_asked_is_withdrawn(desk: Any) -> None:
    """The call was not parked yet, so it restarts with its own question."""
    call = ToolCall("c0", "write", {"path": "/p/a"})
    ticket = SuspendTicket("ask", "may it?", call=call)
    asyncio.run(desk.store.ledger.open(call, "session", ToolCallStatus.RUNNING, turn="reply"))
    asyncio.run(desk.store.tickets.put(TicketRecord(ticket, "session")))
    next_process = Fence()
    next_process.lease = asyncio.run(desk.store.leases.take("session", "next", 60))
    asyncio.run(desk.store.fenced(next_process).recover("session"))
    assert go(desk, [BatchCall(call)], turn="reply", since=0.0)
    assert desk.ran == ["c0"]
    assert asyncio.run(desk.store.tickets.pending("session")) == []


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_call_that_may_have_run_begins_anew_only_where_its_tool_is_repeatable(desk: Any, repeatable: bool) -> None:
    """The call's process ended while the handler ran."""
    desk.tool("again", lambda args, ctx: desk.ran.append(ctx.call_id), repeatable=repeatable)
    call = ToolCall("c0", "again", {})
    asyncio.run(desk.store.ledger.open(call, "session", ToolCallStatus.RUNNING, turn="reply"))
    asyncio.run(desk.store.ledger.handler_started("session", "c0"))
    next_process = Fence()
    next_process.lease = asyncio.run(desk.store.leases.take("session", "next", 60))
    asyncio.run(desk.store.fenced(next_process).recover("session"))
    items = [BatchCall(call)]
    assert go(desk, items, turn="reply", since=0.0)
    assert items[0].executed is not None
    assert items[0].executed.result.is_success == repeatable
    assert desk.ran == ["c0"] * repeatable


def died(desk: Any, name: str) -> None:
    """Another process takes over, and ends the unfinished work of the one before."""
    process = Fence()
    process.lease = asyncio.run(desk.store.leases.take("session", name, 60))
    asyncio.run(desk.store.fenced(process).recover("session"))
    asyncio.run(desk.store.leases.release(process.lease))


@pytest.mark.parametrize("when", ["before it is taken up", "while it is gated", "as its process ends again"])
def test_a_call_that_begins_anew_may_have_run_whatever_becomes_of_it(desk: Any, when: str) -> None:
    """X-1: the first process ended while the handler ran, so no later process may report that the call did not run."""
    desk.tool("again", lambda args, ctx: desk.ran.append(ctx.call_id), repeatable=True, effects=lambda args, ctx: gated())
    call = ToolCall("c1", "again", {})

    async def gated() -> list[Any]:
        if when == "while it is gated":
            desk.scope.interrupt()
            await asyncio.sleep(10)
        elif when == "as its process ends again":
            raise KeyboardInterrupt
        return []

    asyncio.run(desk.store.ledger.open(call, "session", ToolCallStatus.RUNNING, turn="reply"))
    asyncio.run(desk.store.ledger.handler_started("session", "c1"))
    died(desk, "second")
    first = [BatchCall(ToolCall("c0", "interrupt", {}))] if when == "before it is taken up" else []
    items = [*first, BatchCall(call)]
    if when == "as its process ends again":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tools.dispatch.progress.CallInProgress.finish", lambda *args, **options: asyncio.sleep(0))
            with pytest.raises(KeyboardInterrupt):
                go(desk, items, turn="reply", since=0.0)
        known = asyncio.run(desk.store.ledger.get("session", "c1"))
        assert (known.status, known.result) == (ToolCallStatus.RUNNING, None)
        died(desk, "third")
        known = asyncio.run(desk.store.ledger.get("session", "c1"))
        message = known.result.message
    else:
        assert go(desk, items, turn="reply", since=0.0)
        message = items[-1].executed.result.message
    assert desk.ran == []
    assert "may have" in message
