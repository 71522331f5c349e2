"""Any mix of calls, questions, answers, restarts and killed processes: one result for each call, each effect once, in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.memory import MemoryStore
from toolcrib import (
    Answer,
    ExecutedCall,
    LeaseLost,
    ReadsFile,
    RunIdentity,
    RunsCommand,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolRegistry,
    ToolResult,
    WritesFile,
    hookimpl,
)
from toolcrib.contract.store import Fence, Lease, Store
from toolcrib.testing import FakeEnvironment
from tools.dispatch.batch import BatchCall, run_batch
from tools.dispatch.hooks import APPROVAL, new_manager
from tools.dispatch.overlap import Reach, overlap
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope

SESSION = "s1"
ANY = {"description": "A tool.", "parameters": {"type": "object"}}
Made = tuple[str, dict[str, Any]]
PATHS = ["/out", "/out/a", "/b"]


class Questions:
    """A gate that asks as often as the call's arguments require."""

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: ToolCallContext) -> Suspend | None:
        for number in range(call.args["asked"]):
            binds = f"{call.id}:{number}"
            if ctx.answer_to(binds) is None:
                return Suspend(SuspendTicket("ask", "may it?", binds=binds))
        return None


class Dying:
    """A part of the store that fails after ``left`` more operations, as for a process that has lost its lease."""

    def __init__(self, part: Any, left: list[int], *, does_it: bool) -> None:
        self._part = part
        self._left = left
        self._does_it = does_it

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def operation(*args: Any, **options: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] < 0:
                if self._left[0] == -1 and self._does_it:
                    await getattr(self._part, name)(*args, **options)
                raise LeaseLost("gone")
            return await getattr(self._part, name)(*args, **options)

        return operation


@dataclass
class World:
    """All that outlives processes: the store, the last saved state of the batch, and the handlers' effects."""

    store: MemoryStore = field(default_factory=MemoryStore)
    fence: Fence = field(default_factory=Fence)
    ran: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def dispatcher(self) -> Dispatcher:
        registry, hooks = ToolRegistry(), new_manager()
        hooks.register(Questions(), APPROVAL)

        def handle(args: Any, ctx: ToolCallContext) -> Any:
            if args["answers"] and ctx.resume_input is None:
                return ToolResult.suspended_with(
                    ctx.tool_name, "what?", SuspendTicket("ask", "what?", resume_mode="pass_to_tool", binds="input")
                )
            self.ran.append(ctx.call_id)
            return f"did {ctx.call_id}"

        def writes(args: Any, ctx: Any) -> Any:
            return [WritesFile(args["path"])]

        registry.register("write", "t", ANY, handle, kind="edit", effects=writes)
        registry.register("read", "t", ANY, handle, kind="read", effects=lambda args, ctx: [ReadsFile(args["path"])])
        registry.register(
            "peek", "t", ANY, handle, kind="read", parallel_safe=True, effects=lambda args, ctx: [ReadsFile(args["path"])]
        )
        registry.register("look", "t", ANY, handle, kind="read", parallel_safe=True)
        registry.register("command", "t", ANY, handle, kind="execute", effects=lambda args, ctx: [RunsCommand("x", "/")])
        registry.register("plain", "t", ANY, handle)
        return Dispatcher(registry, hooks)

    async def process(self, dies_after: int | None, *, does_it: bool) -> tuple[Dispatcher, CallScope]:
        """Return a new process that has taken over the session."""
        lease: Lease | None = self.fence.lease
        if lease is not None:
            await self.store.leases.release(lease)
        taken = await self.store.leases.take(SESSION, "p", 60.0)
        assert taken is not None
        self.fence = Fence(taken)
        store: Store = self.store.fenced(self.fence)
        await store.recover(SESSION)
        left = [10**9 if dies_after is None else dies_after]
        scope = CallScope(
            identity=RunIdentity(SESSION),
            open_environment=FakeEnvironment,
            suspends=True,
            ledger=Dying(store.ledger, left, does_it=does_it),
            tickets=Dying(store.tickets, left, does_it=does_it),
        )
        return self.dispatcher(), scope


calls = st.builds(
    lambda name, path, asked, answers: (name, {"path": path, "asked": asked, "answers": answers}),
    st.sampled_from(["write", "read", "peek", "look", "command", "plain"]),
    st.sampled_from(PATHS),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([False, False, False, True]),
)
steps = st.one_of(
    st.tuples(st.just("answer"), st.integers(0, 20), st.sampled_from(["yes", "yes", "yes", "no", "cancel"])),
    st.tuples(st.just("go on"), st.just(0), st.just("")),
    st.tuples(st.just("restart"), st.just(0), st.just("")),
    st.tuples(st.just("die"), st.integers(0, 12), st.sampled_from(["before", "after"])),
)


def answer_to(ticket_id: str, how: str) -> Answer:
    return Answer(ticket_id, "cancel" if how == "cancel" else "resume", {"approved": how == "yes"}, by="ann")


async def answered(world: World, number: int, how: str) -> None:
    pending = await world.store.tickets.pending(SESSION)
    if pending:
        answer = answer_to(pending[number % len(pending)].ticket.id, how)
        assert await world.store.tickets.decide_ticket(answer, "approved" if how == "yes" else "denied") == "settled"


async def live(
    made: Sequence[tuple[str, dict[str, Any]]], doing: Sequence[tuple[str, int, str]]
) -> tuple[World, list[BatchCall]]:
    world = World()
    items = [BatchCall(ToolCall(f"c{number}", name, args)) for number, (name, args) in enumerate(made)]
    saved = list(items)

    def record_done(executed: ExecutedCall) -> None:
        world.done.append(executed.call.id)

    async def go_on(process: tuple[Dispatcher, CallScope]) -> bool:
        """Continue from the saved state, and save the new state unless the process dies."""
        nonlocal saved
        own = [BatchCall(one.call, one.executed, one.tickets) for one in saved]
        complete = await run_batch(process[0], own, process[1], on_done=record_done, since=0.0)
        saved = own
        return complete

    process = await world.process(None, does_it=False)
    for what, number, how in doing:
        if what == "answer":
            await answered(world, number, how)
        elif what == "restart":
            process = await world.process(None, does_it=False)
        elif what == "die":
            process = await world.process(number, does_it=how == "after")
            with contextlib.suppress(LeaseLost):
                await go_on(process)
            process = await world.process(None, does_it=False)
        else:
            await go_on(process)
    process = await world.process(None, does_it=False)
    for _ in range(5 * len(items)):
        if await go_on(process):
            return world, saved
        await answered(world, 0, "yes")
    raise AssertionError(f"it does not end: {saved}")


@pytest.mark.parametrize("kind", ["write", "look", "command"])
@pytest.mark.parametrize("how", ["before", "after"])
def test_a_death_at_any_operation_of_the_store_repeats_no_effect(kind: str, how: str) -> None:
    def made(asked: int, answers: bool) -> tuple[str, dict[str, Any]]:
        return kind, {"path": "/out", "asked": asked, "answers": answers}

    for number in range(30):
        doing = [("die", number, how), ("answer", 0, "yes"), ("die", number, how), ("answer", 0, "yes")]
        world, items = asyncio.run(live([made(0, False), made(1, False), made(1, True)], doing))
        assert len(world.ran) == len(set(world.ran)), number
        for item in items:
            assert item.executed is not None
            if not item.executed.result.is_success:
                assert item.executed.result.message == "interrupted; it may have run, or may still be running"


@given(st.lists(calls, min_size=1, max_size=5), st.lists(steps, max_size=12))
def test_every_call_gets_one_result_and_acts_once_in_order(
    made: list[tuple[str, dict[str, Any]]], doing: list[tuple[str, int, str]]
) -> None:
    """003-31, 002-24, 002-31"""
    world, items = asyncio.run(live(made, doing))
    assert [item.executed.call.id for item in items if item.executed is not None] == [f"c{n}" for n in range(len(made))]
    assert len(world.ran) == len(set(world.ran)), "an effect happened twice"
    dies = any(what == "die" for what, _number, _how in doing)
    for item in items:
        assert item.executed is not None
        if item.executed.result.is_success:
            assert item.executed.result.data == f"did {item.call.id}"
            assert item.call.id in world.ran
        elif not dies:
            assert item.call.id not in world.ran
    if not dies:
        assert sorted(world.done) == sorted(item.call.id for item in items), "each end is reported once"
    for one, other in combinations([int(name[1:]) for name in world.ran], 2):
        if other < one:  # it overtook an earlier call
            assert not _must_keep_order(world.dispatcher(), made, other, one)


def _must_keep_order(dispatcher: Dispatcher, made: Sequence[tuple[str, dict[str, Any]]], first: int, second: int) -> bool:
    entries = [dispatcher.registry.get(made[number][0]) for number in (first, second)]
    if all(entry is not None and entry.parallel_safe for entry in entries):
        return False
    reaches = []
    for entry, number in zip(entries, (first, second), strict=True):
        assert entry is not None
        effects: Any = () if entry.effects is None else entry.effects(made[number][1], None)
        reaches.append(Reach.of(entry, effects))
    return overlap(*reaches)
