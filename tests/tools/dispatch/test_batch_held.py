"""Calls behind a suspended call of their turn: calls that may change something wait, whatever suspended the first one."""

from __future__ import annotations

import asyncio
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
    ToolResult,
    WritesFile,
)
from tools.dispatch.batch import BatchCall, run_batch
from tools.dispatch.overlap import Reach

YES = {"approved": True}
RUNS, WRITES, DELETES, READS = RunsCommand("x", "/p"), WritesFile("/p/a"), DeletesFile("/p/a"), ReadsFile("/p/a")

EARLIER: dict[str, dict[str, Any]] = {
    "command": {"kind": "execute", "effects": lambda args, ctx: [RUNS]},
    "opaque": {"kind": "execute"},
    "edit": {"kind": "edit", "effects": lambda args, ctx: [WRITES]},
    "undeclared": {},
    "question": {"effects": lambda args, ctx: ()},
    "read": {"kind": "read"},
}
"""Tools whose call is suspended, by a gate or by itself."""


@pytest.fixture
def desk(bench: Any) -> Any:
    """A bench with the tools of EARLIER, whose calls wait for an answer. ``bench.ran`` has the tools that ran."""
    bench.ran = []

    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return Suspend(SuspendTicket("ask", "may it?", binds=call.id)) if call.args.get("ask") and not ctx.answers else None

    for name, options in EARLIER.items():
        bench.tool(name, noting(bench), **options)
    bench.plugin(tool_gate=gate)
    bench.scope.suspends = True
    return bench


def noting(bench: Any) -> Any:
    def handle(args: Any, ctx: ToolCallContext) -> Any:
        if args.get("suspends") and ctx.resume_input is None:
            ticket = SuspendTicket("ask", "what?", resume_mode="pass_to_tool", binds="input")
            return ToolResult.suspended_with(ctx.tool_name, "what?", ticket)
        bench.ran.append(ctx.tool_name)
        return "done"

    return handle


def go(desk: Any, items: list[BatchCall]) -> bool:
    return asyncio.run(run_batch(desk.dispatcher, items, desk.scope))


def after(desk: Any, earlier: str, how: str, **options: Any) -> list[BatchCall]:
    """Run a turn of a suspended call and a call of a tool with these options, as far as it gets without an answer."""
    desk.tool("later", noting(desk), **options)
    items = [BatchCall(ToolCall("c0", earlier, {how: 1})), BatchCall(ToolCall("c1", "later", {}))]
    assert not go(desk, items)
    return items


def settled(desk: Any, items: list[BatchCall], earlier: str) -> list[str]:
    """Answer the first call's question, and return the tools in the order of their runs."""
    answer = Answer(items[0].tickets[-1], payload=YES, by="ann")
    assert asyncio.run(desk.store.tickets.decide_ticket(answer, "approved")) == "settled"
    assert go(desk, [BatchCall(item.call, item.executed, item.tickets) for item in items])
    assert sorted(desk.ran) == sorted([earlier, "later"])
    return list(desk.ran)


@pytest.mark.parametrize("how", ["ask", "suspends"])
@pytest.mark.parametrize("earlier", EARLIER)
@pytest.mark.parametrize("options", [{}, {"kind": "other"}, {"parallel_safe": True}, {"repeatable": True}])
def test_a_tool_that_declares_nothing_waits(desk: Any, earlier: str, how: str, options: dict[str, Any]) -> None:
    """002-32: the call runs after the answer, once."""
    items = after(desk, earlier, how, **options)
    assert (desk.ran, items[1].executed, items[1].tickets) == ([], None, ())
    assert settled(desk, items, earlier) == [earlier, "later"]


@pytest.mark.parametrize("earlier", ["command", "opaque", "undeclared", "question", "read"])
@pytest.mark.parametrize(
    "options",
    [
        {"kind": "execute"},
        {"kind": "edit"},
        {"kind": "execute", "effects": lambda args, ctx: [RUNS]},
        {"kind": "edit", "effects": lambda args, ctx: [WRITES]},
        {"kind": "other", "effects": lambda args, ctx: [DELETES]},
        {"kind": "other", "effects": lambda args, ctx: [READS, WRITES]},
        {"kind": "other", "effects": lambda args, ctx: ["a plugin's own"]},
    ],
)
def test_a_tool_that_changes_something_waits(desk: Any, earlier: str, options: dict[str, Any]) -> None:
    """002-32: the tool waits even behind a question without declared effects."""
    items = after(desk, earlier, "ask", **options)
    assert desk.ran == []
    assert settled(desk, items, earlier) == [earlier, "later"]


@pytest.mark.parametrize("how", ["ask", "suspends"])
@pytest.mark.parametrize("earlier", EARLIER)
@pytest.mark.parametrize(
    "options",
    [
        {"kind": "read"},
        {"kind": "read", "parallel_safe": True},
        {"kind": "read", "effects": lambda args, ctx: ()},
        {"kind": "other", "effects": lambda args, ctx: ()},
        {"effects": lambda args, ctx: [], "parallel_safe": True},
    ],
)
def test_a_tool_that_reads_or_declares_that_it_does_nothing_runs(
    desk: Any, earlier: str, how: str, options: dict[str, Any]
) -> None:
    """002-32"""
    items = after(desk, earlier, how, **options)
    assert desk.ran == ["later"]
    assert items[1].executed is not None
    assert settled(desk, items, earlier) == ["later", earlier]


@pytest.mark.parametrize("earlier", ["question", "read"])
def test_reading_a_file_does_not_wait_for_a_question(desk: Any, earlier: str) -> None:
    after(desk, earlier, "ask", kind="read", effects=lambda args, ctx: [READS])
    assert desk.ran == ["later"]


@pytest.mark.parametrize("effect", [WritesFile("/q"), ReadsFile("/q"), DeletesFile("/p/ab")])
def test_other_files_than_the_suspended_edits_need_not_wait(desk: Any, effect: Any) -> None:
    after(desk, "edit", "ask", kind="edit", effects=lambda args, ctx: [effect])
    assert desk.ran == ["later"]


def test_what_waits_holds_those_after_it_too(desk: Any) -> None:
    """The third call edits another file than the first, but must not overtake the second."""
    desk.tool("other", noting(desk), kind="edit", effects=lambda args, ctx: [WritesFile("/q")])
    items = after(desk, "edit", "ask")
    items.append(BatchCall(ToolCall("c2", "other", {})))
    assert not go(desk, items)
    assert desk.ran == []


def test_calls_run_in_order_if_none_is_suspended(desk: Any) -> None:
    desk.tool("later", noting(desk))
    assert go(desk, [BatchCall(ToolCall(f"c{n}", name, {})) for n, name in enumerate(["undeclared", "later", "question"])])
    assert desk.ran == ["undeclared", "later", "question"]


@pytest.mark.parametrize("name", ["todo", "session_search", "clarify"])
def test_tools_of_ours_that_only_talk_declare_it(name: str) -> None:
    import model_tools  # noqa: F401 - it registers the tools
    from tools.registry import registry

    entry = registry.get(name)
    assert entry is not None
    assert Reach.of(entry, ()).is_nothing
