"""Typed state: the values that calls see, and concurrent updates of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from toolcrib import (
    After,
    Answer,
    Block,
    ExecutedCall,
    RegistrationError,
    RunIdentity,
    StateKey,
    StateUpdate,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolOutput,
    ToolResult,
)
from toolcrib.contract.state import StateWrite
from tools.dispatch.scope import CallScope

COUNT = StateKey("count", int)
OWNED = StateKey("owned", list, exclusive=True)
SEEN = StateKey("seen", list, scope="principal")
LAST = StateKey("last", str, scope="profile")
STEP = StateKey("step", int, scope="call")


def out(*changes: Any, data: Any = "done") -> ToolOutput:
    return ToolOutput(ToolResult.success("t", data), changes)


def error(executed: ExecutedCall) -> str:
    assert executed.result.is_error
    return str(executed.result.message)


def beside(bench: Any, user: str = "", **options: Any) -> CallScope:
    """Return the scope of another session with the same state."""
    return CallScope(
        identity=RunIdentity("other", user=user, platform=options.pop("platform", "api")),
        open_environment=bench.scope.open_environment,
        states=bench.scope.states,
        **options,
    )


def test_parallel_calls_share_one_frozen_snapshot_and_sequential_ones_see_each_other(bench: Any) -> None:
    """002-32, 002-14"""

    async def count(args: Any, ctx: ToolCallContext) -> ToolOutput:
        before = ctx.state(COUNT)
        await asyncio.sleep(0.02 * args["n"])
        assert ctx.state(COUNT) == before
        return out((COUNT, args["n"]), data=before)

    bench.tool("at_once", count, parallel_safe=True)
    bench.tool("in_turn", count)
    calls = [*(("at_once", {"n": n}) for n in (1, 2, 3)), *(("in_turn", {"n": n}) for n in (4, 5))]
    assert [one.result.data for one in bench.turn(*calls)] == [None, None, None, 3, 4]
    assert dict(bench.scope.state) == {"count": 5}


def test_what_a_call_ended_before_the_others_run_does_not_show_in_their_snapshot(bench: Any) -> None:
    """002-32: one call is refused while the others are gated, and a plugin records that in the state."""
    bench.tool("look", lambda args, ctx: ctx.state(COUNT), parallel_safe=True)
    bench.plugin(
        tool_gate=lambda call: Block("no") if call.args else None,
        post_tool_call=lambda result: After({COUNT: 7}) if result.is_error else None,
    )
    ended = bench.turn(("look", {"n": 1}), ("look", {}), ("look", {}))
    assert [one.result.data for one in ended[1:]] == [None, None]
    assert bench.call("look").result.data == 7


def test_of_two_parallel_writers_of_an_exclusive_key_the_later_one_is_told(bench: Any) -> None:
    """002-32"""

    async def take(args: Any, ctx: ToolCallContext) -> ToolOutput:
        await asyncio.sleep(args["n"] / 50)
        return out((OWNED, [*(ctx.state(OWNED) or []), args["n"]]), (COUNT, args["n"]))

    bench.tool("take", take, parallel_safe=True)
    first, later = bench.turn(("take", {"n": 1}), ("take", {"n": 2}))
    assert first.result.is_success
    assert later.result.failure.kind == "StateConflict"
    assert "StateConflict: another call changed the state 'owned' at the same time" in error(later)
    assert dict(bench.scope.state) == {"owned": [1], "count": 1}, "of the later one nothing is kept"
    assert bench.turn(("take", {"n": 3}))[0].result.is_success
    assert bench.scope.state["owned"] == [1, 3]


def test_updates_of_parallel_calls_are_all_there(bench: Any) -> None:
    """002-32: merged updates of a key that is not exclusive lose nothing."""

    async def add(args: Any, ctx: ToolCallContext) -> ToolOutput:
        await asyncio.sleep(0)
        return out((COUNT, StateUpdate(lambda n: (n or 0) + 1)))

    bench.tool("add", add, parallel_safe=True)
    assert all(one.result.is_success for one in bench.turn(*[("add", {})] * 20))
    assert bench.scope.state["count"] == 20


def test_threads_lose_no_update(bench: Any) -> None:
    bench.tool("add", lambda args: out((COUNT, StateUpdate(lambda n: (n or 0) + 1))))
    threads = [threading.Thread(target=lambda: [bench.call("add") for _ in range(25)]) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert bench.scope.state["count"] == 100


def test_a_value_belongs_to_who_asked_for_it(bench: Any) -> None:
    """002-14"""
    bench.tool("put", lambda args, ctx: out((COUNT, 1)))
    bench.tool("look", lambda args, ctx: ctx.state(OWNED))
    bench.tool("own", lambda args, ctx: out((OWNED, [{"n": 1}])))
    bench.call("own")
    found = bench.call("look").result.data
    found[0]["n"] = 2
    assert bench.call("look").result.data == [{"n": 1}]
    with pytest.raises(TypeError, match="read-only"):
        bench.scope.state["owned"][0]["n"] = 2


def test_a_principals_state_is_seen_in_all_of_their_sessions_and_in_nobody_elses(bench: Any) -> None:
    def see(args: Any, ctx: ToolCallContext) -> ToolOutput:
        before = ctx.state(SEEN) or []
        return out((SEEN, [*before, args["city"]]), (LAST, args["city"]), data=[before, ctx.state(LAST)])

    bench.tool("see", see, state=[SEEN, LAST])
    told = []
    scopes = [bench.scope, beside(bench), beside(bench, "ada", platform="chat"), beside(bench, "bob", platform="chat")]
    for number, scope in enumerate([*scopes, *scopes]):
        executed = bench.dispatcher.call_sync(ToolCall(f"c{number}", "see", {"city": str(number)}), scope)
        told.append(executed.result.data)
    assert told == [
        [[], None], [["0"], "0"], [[], "1"], [[], "2"],
        [["0", "1"], "3"], [["0", "1", "4"], "4"], [["2"], "5"], [["3"], "6"],
    ]  # fmt: skip


def test_nobody_in_particular_has_no_state_of_a_principal(bench: Any) -> None:
    bench.tool("see", lambda args, ctx: out((SEEN, ["x"]), data=ctx.state(SEEN)), state=[SEEN])
    executed = bench.dispatcher.call_sync(ToolCall("c", "see"), beside(bench, platform="chat"))
    assert error(executed).endswith("Denied: the state 'seen' belongs to a user, but this call has no user")


def test_another_session_that_writes_meanwhile_is_not_overwritten(bench: Any) -> None:
    other = beside(bench)

    def see(args: Any, ctx: ToolCallContext) -> ToolOutput:
        before = ctx.state(SEEN) or []
        if "meanwhile" in args:
            bench.dispatcher.call_sync(ToolCall("m", "see", {"city": args["meanwhile"]}), other)
        return out((SEEN, [*before, args["city"]]))

    bench.tool("see", see, state=[SEEN])
    late = bench.call("see", {"city": "a", "meanwhile": "b"})
    assert late.result.failure.kind == "StateConflict"
    assert bench.call("see", {"city": "c"}).result.is_success
    assert asyncio.run(bench.scope.states.of("principal", ""))["seen"].value == ["b", "c"]


def test_an_update_is_done_anew_where_another_session_wrote(bench: Any) -> None:
    other, tries = beside(bench), []

    def see(args: Any) -> ToolOutput:
        def add(seen: list[str] | None) -> list[str]:
            tries.append(seen)
            if args["city"] == "a" and len(tries) == 1:
                bench.dispatcher.call_sync(ToolCall("m", "see", {"city": "b"}), other)
            return [*(seen or []), args["city"]]

        return out((SEEN, StateUpdate(add)))

    bench.tool("see", see)
    assert bench.call("see", {"city": "a"}).result.is_success
    assert asyncio.run(bench.scope.states.of("principal", ""))["seen"].value == ["b", "a"]
    assert tries == [None, None, ["b"]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([(COUNT, "text")], "the state 'count' has the type int, not str"),
        ([("count", 1), ("more", object())], "state_changes must be pairs of a name and JSON: more: "),
        ([(5, 1)], "state_changes must be pairs of a name and JSON: 5 is neither a StateKey nor a name"),
        ([(StateKey("x", int, scope="everywhere"), 1)], "'everywhere'; use call, session, principal, profile"),
        ([(SEEN, ["x"])], "is written by others too: register the tool with it, state=[...], or give a StateUpdate"),
        ([(COUNT, 1), (COUNT, StateUpdate(lambda n: 1 / 0))], "ZeroDivisionError"),
    ],
)
def test_a_change_that_cannot_be_kept_says_why_and_nothing_is_kept(bench: Any, changes: Any, words: str) -> None:
    bench.tool("t", lambda args: out(("fine", 1), *changes))
    assert words in error(bench.call("t"))
    assert dict(bench.scope.state) == {}


def test_a_key_that_others_write_is_read_where_it_was_declared(bench: Any) -> None:
    bench.tool("t", lambda args, ctx: ctx.state(SEEN))
    assert "reads the state 'seen' of scope principal but was not registered with it: state=[...]" in error(bench.call("t"))
    with pytest.raises(RegistrationError, match="tool 'u': state is a list of StateKey"):
        bench.tool("u", lambda args: None, state=["seen"])


def test_text_means_the_declared_key_and_none_removes(bench: Any) -> None:
    bench.tool("t", lambda args: out(("owned", args.get("value"))), state=[OWNED])
    assert "has the type list, not str" in error(bench.call("t", {"value": "x"}))
    bench.call("t", {"value": [1]})
    assert dict(bench.scope.state) == {"owned": [1]}
    bench.call("t")
    assert dict(bench.scope.state) == {}


def test_a_calls_own_state_is_there_when_it_goes_on_elsewhere_and_ends_with_it(bench: Any) -> None:
    """002-14: another process has only the ledger."""

    def ask(args: Any, ctx: ToolCallContext) -> ToolOutput | ToolResult:
        step = (ctx.state(STEP) or 0) + 1
        if step < 3:
            ticket = SuspendTicket("t", f"step {step}?", resume_mode="pass_to_tool")
            return ToolOutput(ToolResult.suspended_with("t", "?", ticket), [(STEP, step)])
        return ToolResult.success("t", step)

    bench.tool("t", ask)
    bench.scope.suspends = True
    waiting = bench.call("t", call_id="c")
    for _ in range(2):
        assert waiting.result.suspension is not None
        elsewhere = CallScope(
            identity=bench.scope.identity, open_environment=bench.scope.open_environment,
            ledger=bench.store.ledger, tickets=bench.store.tickets, suspends=True,
        )  # fmt: skip
        answer = Answer(waiting.result.suspension.id, payload={"ok": True})
        waiting = asyncio.run(bench.dispatcher.resume(answer, elsewhere))
    assert waiting.result.data == 3
    assert bench.record("c").state == {}
    assert bench.call("t", call_id="c").result.is_pending, "a later call of that id begins anew"
    assert bench.record("c").state == {"step": 1}
    assert bench.call("t").result.is_pending


def test_a_calls_own_state_is_kept_while_somebody_is_asked(bench: Any) -> None:
    def ask(args: Any, ctx: ToolCallContext) -> Any:
        if ctx.state(STEP):
            return ctx.state(STEP)
        return ToolOutput(ToolResult.suspended_with("t", "?", SuspendTicket("t", "?", resume_mode="pass_to_tool")), [(STEP, 4)])

    def answer(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        kept.append(bench.record(ctx.call_id).state)
        return Answer(ticket.id, payload={})

    kept: list[Any] = []
    bench.tool("t", ask)
    bench.scope.asker = answer
    assert bench.call("t").result.data == 4
    assert kept == [{"step": 4}]


def test_a_plugin_that_comes_too_late_is_logged_and_the_result_stands(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """002-26"""
    bench.tool("t", lambda args: "fine", state=[SEEN])

    async def observe() -> After:
        await bench.scope.states.write([StateWrite("principal", "", "seen", ["theirs"])])
        return After({SEEN: ["mine"], COUNT: 1})

    bench.plugin("late", post_tool_call=observe)
    with caplog.at_level(logging.ERROR):
        assert bench.call("t").result.data == "fine"
    assert "the result of post_tool_call of 'late' on t is ignored" in caplog.text
    assert "StateConflict" in caplog.text
    assert dict(bench.scope.state) == {}


def test_a_call_does_not_conflict_with_itself(bench: Any) -> None:
    """002-26: a plugin's update after the call is applied after the call's own."""
    bench.tool("t", lambda args: out((OWNED, [1])), state=[OWNED])
    bench.plugin(post_tool_call=lambda: After({OWNED: StateUpdate(lambda value: [*value, 2])}))
    assert bench.call("t").result.is_success
    assert bench.scope.state["owned"] == [1, 2]
