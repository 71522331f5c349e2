"""Calls behind a call that waits for an answer: only reads, and calls that declare no effects, overtake it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib import (
    Answer,
    DeletesFile,
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

YES, NO = {"approved": True}, {"approved": False, "reason": "not today"}
FIRST = {
    "command": ("run", {}),
    "edit": ("write", {"path": "/p/out"}),
    "undeclared": ("plain", {}),
    "undeclared-edit": ("bare_edit", {}),
    "undeclared-execute": ("bare_execute", {}),
}
"""Calls that wait for a user. Later calls may depend on the user's answer."""


@pytest.fixture
def desk(bench: Any) -> Any:
    """A bench whose gate asks about calls with ``ask`` in their arguments. ``bench.ran`` has the calls that ran."""
    bench.ran = []

    def handle(args: Any, ctx: ToolCallContext) -> str:
        bench.ran.append(ctx.call_id)
        return f"did {ctx.call_id}"

    async def handle_later(args: Any, ctx: ToolCallContext) -> str:
        await asyncio.sleep(0)
        return handle(args, ctx)

    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return Suspend(SuspendTicket("ask", "may it?", binds=call.id)) if call.args.get("ask") and not ctx.answers else None

    def ask(args: Any, ctx: ToolCallContext) -> Any:
        return ctx.resume_input or ToolResult.suspended("ask", "which colour?")

    bench.tool("run", handle, kind="execute", effects=lambda args, ctx: [RunsCommand("x", "/p")])
    bench.tool("write", handle, kind="edit", effects=lambda args, ctx: [WritesFile(args["path"])])
    bench.tool("remove", handle, kind="edit", effects=lambda args, ctx: [DeletesFile(args["path"])])
    bench.tool("plain", handle)
    bench.tool("other", handle, kind="other")
    bench.tool("later", handle_later)
    bench.tool("parallel", handle, parallel_safe=True)
    bench.tool("bare_edit", handle, kind="edit")
    bench.tool("bare_execute", handle, kind="execute")
    bench.tool("fails_to_say", handle, effects=lambda args, ctx: 1 / 0)
    bench.tool("as_needed", handle, effects=lambda args, ctx: [RunsCommand("x", "/p")] if args.get("acts") else [])
    bench.tool("look", handle, kind="read")
    bench.tool("look_at_once", handle, kind="read", parallel_safe=True)
    bench.tool("look_later", handle_later, kind="read", parallel_safe=True)
    bench.tool("read", handle, kind="read", effects=lambda args, ctx: [ReadsFile(args["path"])])
    bench.tool("nothing", handle, effects=lambda args, ctx: [])
    bench.tool("nothing_too", handle, parallel_safe=True, effects=lambda args, ctx: ())
    bench.tool("ask", ask, kind="read")
    bench.plugin(tool_gate=gate)
    bench.scope.suspends = True
    return bench


def batch(*calls: tuple[str, dict[str, Any]]) -> list[BatchCall]:
    return [BatchCall(ToolCall(f"c{number}", name, args)) for number, (name, args) in enumerate(calls)]


def go(desk: Any, items: Sequence[BatchCall]) -> bool:
    return asyncio.run(run_batch(desk.dispatcher, items, desk.scope))


def decide(desk: Any, item: BatchCall, payload: Any = None) -> None:
    answer = Answer(item.tickets[-1], payload=payload or YES, by="ann")
    assert asyncio.run(desk.store.tickets.decide_ticket(answer, "denied" if answer.denied else "approved")) == "settled"


HELD: dict[str, tuple[str, dict[str, Any]]] = {
    "kind-unnamed": ("plain", {}),
    "kind-other": ("other", {}),
    "async-handler": ("later", {}),
    "parallel-safe": ("parallel", {}),
    "edit-undeclared": ("bare_edit", {}),
    "execute-undeclared": ("bare_execute", {}),
    "effects-fail": ("fails_to_say", {}),
    "effects-of-these-arguments": ("as_needed", {"acts": True}),
    "command": ("run", {}),
}


@pytest.mark.parametrize("answer", [YES, NO], ids=["yes", "no"])
@pytest.mark.parametrize("held", list(HELD))
def test_what_may_act_waits_for_the_answer_before_it(desk: Any, held: str, answer: Any) -> None:
    """002-32"""
    items = batch(("run", {"ask": 1}), HELD[held])
    assert not go(desk, items)
    assert desk.ran == [], "it ran before the answer"
    # a call whose effects fail may have failed
    assert items[1].executed is None or items[1].executed.status is ToolCallStatus.FAILED
    decide(desk, items[0], answer)
    assert go(desk, [BatchCall(item.call, item.executed, item.tickets) for item in items])
    ran = ["c0"] if answer is YES else []
    assert desk.ran == (ran if held == "effects-fail" and "c1" not in desk.ran else [*ran, "c1"])


@pytest.mark.parametrize("first", list(FIRST))
def test_an_undeclared_call_waits_for_whatever_is_asked_before_it(desk: Any, first: str) -> None:
    """002-32"""
    name, args = FIRST[first]
    items = batch((name, {**args, "ask": 1}), ("plain", {}))
    assert not go(desk, items)
    assert desk.ran == []
    decide(desk, items[0])
    assert go(desk, items)
    assert desk.ran == ["c0", "c1"]


def test_an_undeclared_call_waits_for_a_tool_s_own_question(desk: Any) -> None:
    """The tool asks, not a gate: the later call may depend on the user's answer."""
    desk.tool("choose", lambda args: ToolResult.suspended("choose", "which colour?"))
    items = batch(("choose", {}), ("plain", {}))
    assert not go(desk, items)
    assert desk.ran == []


def test_a_later_one_waits_behind_several(desk: Any) -> None:
    items = batch(("run", {"ask": 1}), ("plain", {}), ("write", {"path": "/q", "ask": 1}), ("parallel", {}), ("plain", {}))
    assert not go(desk, items)
    assert desk.ran == []
    decide(desk, items[0])
    assert not go(desk, items)
    assert desk.ran == ["c0", "c1"], "what stands behind the second question waits for that"
    decide(desk, items[2])
    assert go(desk, items)
    assert desk.ran == ["c0", "c1", "c2", "c3", "c4"]


def test_one_that_reads_between_lets_no_later_one_by(desk: Any) -> None:
    items = batch(("run", {"ask": 1}), ("look", {}), ("plain", {}), ("look_at_once", {}), ("later", {}))
    assert not go(desk, items)
    assert desk.ran == ["c1", "c3"]


def test_the_old_interface_s_turn_holds_it_too(desk: Any) -> None:
    """`run_calls` does not return for answers: the held call does not run, and its result reports that."""
    first, second = desk.turn(("run", {"ask": 1}), ("plain", {}))
    assert first.result.is_pending
    assert second.result.is_error
    assert "waits for an answer" in second.result.message
    assert desk.ran == []


# -- calls that overtake the question ----------------------------------------------------------------------------------

FREE: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("look", {}),
    "read-parallel": ("look_at_once", {}),
    "read-async": ("look_later", {}),
    "declares-nothing": ("nothing", {}),
    "declares-nothing-parallel": ("nothing_too", {}),
    "nothing-of-these-arguments": ("as_needed", {}),
}


@pytest.mark.parametrize("free", list(FREE))
@pytest.mark.parametrize("first", ["command", "edit", "undeclared"])
def test_what_reads_or_does_nothing_goes_before_the_answer(desk: Any, first: str, free: str) -> None:
    """002-32"""
    name, args = FIRST[first]
    items = batch((name, {**args, "ask": 1}), FREE[free])
    assert not go(desk, items)
    assert desk.ran == ["c1"]
    decide(desk, items[0])
    assert go(desk, items)
    assert desk.ran == ["c1", "c0"]


def test_files_elsewhere_are_written_and_read_before_the_answer(desk: Any) -> None:
    """Both calls declare their files."""
    items = batch(
        ("write", {"path": "/p/out", "ask": 1}), ("write", {"path": "/q"}), ("read", {"path": "/r"}), ("remove", {"path": "/s"})
    )
    assert not go(desk, items)
    assert desk.ran == ["c1", "c2", "c3"]


def test_without_a_question_all_run_in_order(desk: Any) -> None:
    items = batch(
        *[(name, {"path": "/p"}) for name in ("plain", "run", "bare_edit", "look", "parallel", "write", "later", "nothing")]
    )
    assert go(desk, items)
    assert desk.ran == [f"c{number}" for number in range(8)]


def test_earlier_ones_do_not_wait_for_a_later_question(desk: Any) -> None:
    items = batch(("plain", {}), ("run", {}), ("bare_edit", {}), ("run", {"ask": 1}))
    assert not go(desk, items)
    assert desk.ran == ["c0", "c1", "c2"]


def test_a_denied_one_holds_nothing(desk: Any) -> None:
    """A call that was denied at once is settled, so later calls run."""
    desk.scope.suspends = False
    items = batch(("run", {"ask": 1}), ("plain", {}))
    assert go(desk, items)
    assert desk.ran == ["c1"]


def test_one_that_is_answered_at_once_holds_nothing(desk: Any) -> None:
    desk.scope.asker = lambda ticket, ctx: Answer(ticket.id, payload=YES, by="ann")
    items = batch(("run", {"ask": 1}), ("plain", {}), ("parallel", {}))
    assert go(desk, items)
    assert desk.ran == ["c0", "c1", "c2"]
