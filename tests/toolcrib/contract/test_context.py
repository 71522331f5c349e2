"""The context that a handler gets with its call (002-13 .. 002-18)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolcrib import (
    ActivityEvent,
    AgentSpec,
    Answer,
    Environment,
    ProgressStatus,
    RunIdentity,
    StateKey,
    ToolCall,
    ToolCallContext,
)
from toolcrib.contract.context import mint_context


class Sink:
    def __init__(self) -> None:
        self.seen: list[ActivityEvent] = []

    def emit(self, event: ActivityEvent) -> None:
        self.seen.append(event)


@dataclass
class Scope:
    """The minimum of the dispatcher's scope."""

    activity_sink: Sink | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    identity: RunIdentity = field(default_factory=lambda: RunIdentity("s1", "r1", "t1", "ann", "cli"))
    agent_spec: AgentSpec = field(default_factory=lambda: AgentSpec("helper", "some-model"))
    granted: frozenset[str] | None = None
    cancelled: bool = False
    spill_dir: Path = Path("spill")

    @property
    def environment(self) -> Environment:
        raise AssertionError("opened only if it is used")


def context(scope: Scope) -> ToolCallContext:
    return mint_context(ToolCall("c1", "greet", {"name": "x"}), scope)


def test_what_it_tells() -> None:
    """002-13"""
    scope = Scope(granted=frozenset({"greet"}), state={"a": 1})
    ctx = context(scope)
    assert (ctx.call_id, ctx.tool_name) == ("c1", "greet")
    assert ctx.run_identity == RunIdentity("s1", "r1", "t1", "ann", "cli")
    assert ctx.agent_spec == AgentSpec("helper", "some-model")
    assert ctx.snapshot == {"a": 1}
    assert ctx.activity_sink is None
    assert ctx.granted == frozenset({"greet"})
    assert ctx.spill_dir == Path("spill")
    assert not ctx.cancelled
    scope.cancelled = True
    assert ctx.cancelled, "a long handler sees the interrupt"


@pytest.mark.parametrize(
    "name", ["call_id", "tool_name", "run_identity", "agent_spec", "environment", "granted", "cancelled", "new"]
)
def test_it_is_read_only(name: str) -> None:
    """002-13"""
    with pytest.raises(AttributeError):
        setattr(context(Scope()), name, "other")


def test_only_the_dispatcher_mints_one() -> None:
    with pytest.raises(TypeError, match="only the dispatcher creates"):
        ToolCallContext(object(), ToolCall("c", "n"), Scope())


def test_state_is_typed_and_from_the_call_s_beginning() -> None:
    """002-14"""
    scope = Scope(state={"prefs": {"tea": True}, "count": "three"})
    ctx = context(scope)
    scope.state = {"prefs": {}, "later": 1}
    assert ctx.state(StateKey("prefs", dict)) == {"tea": True}
    assert ctx.state(StateKey("count", int)) is None, "another type is no value"
    assert ctx.state(StateKey("later", int)) is None


def test_activity_replaces() -> None:
    """002-15"""
    sink = Sink()
    context(Scope(sink)).report_activity("plan", {"steps": 3})
    assert sink.seen == [ActivityEvent("c1", "plan", {"steps": 3})]
    assert not sink.seen[0].is_delta


def test_a_single_patch_is_wrapped() -> None:
    """002-16"""
    sink = Sink()
    operation = {"op": "add", "path": "/x", "value": 1}
    ctx = context(Scope(sink))
    ctx.report_activity_delta("plan", operation)
    ctx.report_activity_delta("plan", [operation, operation])
    assert [event.patch for event in sink.seen] == [[operation], [operation, operation]]
    assert all(event.is_delta for event in sink.seen)


def test_progress() -> None:
    """002-17"""
    sink = Sink()
    ctx = context(Scope(sink))
    ctx.report_progress(ProgressStatus.RUNNING, "half", 0.5)
    ctx.report_progress(ProgressStatus.DONE)
    base = {"schema": "tool-call-progress.v1", "node_id": "tool_call:c1"}
    assert [(event.activity_type, event.content) for event in sink.seen] == [
        ("tool-call-progress", {**base, "status": "running", "message": "half", "progress": 0.5}),
        ("tool-call-progress", {**base, "status": "done"}),
    ]
    assert [status.value for status in ProgressStatus] == ["pending", "running", "done", "failed", "cancelled"]


def test_without_a_sink_reports_do_nothing_and_may_be_awaited() -> None:
    """002-18"""
    ctx = context(Scope())

    async def report() -> None:
        await ctx.report_activity("plan", 1)
        await ctx.report_activity_delta("plan", [])
        await ctx.report_progress(ProgressStatus.PENDING)

    asyncio.run(report())
    ctx.report_progress(ProgressStatus.FAILED, "x")


def test_answers_are_found_by_what_they_bound() -> None:
    ctx = context(Scope())
    yes, no = Answer("t1", payload={"approved": True}), Answer("t2", payload={"approved": False})
    ctx.answers = {"t1": ("digest-a", yes), "t2": ("digest-b", no)}
    assert ctx.answer_to("digest-a") is yes
    assert ctx.answer_to("digest-b") is no
    assert ctx.answer_to("digest-c") is None, "an answer to one thing never covers another"
