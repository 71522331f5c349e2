"""002-26: plugins observe a result, update the state, append events, and schedule later actions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolcrib import ActivityEvent, After, Block, SetResult, StateKey, SuspendTicket, ToolCall, ToolOutput, ToolResult
from toolcrib.contract.types import Answer
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import Limits

EVENT = ActivityEvent("c", "note", {"a": 1})


@pytest.fixture(autouse=True)
def patient(bench: Any) -> None:
    """Set long limits, so that a busy machine does not make hooks late."""
    bench.scope.limits = Limits(handler_seconds=60, gate_seconds=60)


class Sink:
    def __init__(self, fails: bool = False) -> None:
        self.events: list[ActivityEvent] = []
        self.fails = fails

    def emit(self, event: ActivityEvent) -> None:
        if self.fails:
            raise RuntimeError("the sink is shut")
        self.events.append(event)


def returns(value: Any, is_async: bool = False) -> Callable[..., Any]:
    async def post(call: ToolCall) -> Any:
        await asyncio.sleep(0)
        return value

    return post if is_async else lambda call: value


def run_once(bench: Any, way: str) -> Any:
    """Run one call of the tool t in the way that is named."""
    if way == "turn":
        return bench.turn(("t", {}))[0]
    if way == "async":
        return asyncio.run(bench.dispatcher.call(ToolCall(ToolCall.new_id(), "t"), bench.scope))
    if way == "in a loop":

        async def go() -> Any:
            return bench.call("t")

        return asyncio.run(go())
    return bench.call("t")


@pytest.mark.parametrize("way", ["sync", "in a loop", "async", "turn"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "awaited"])
@pytest.mark.parametrize("action_is_async", [False, True], ids=["action", "async action"])
def test_an_observer_changes_state_tells_events_and_acts_later(
    bench: Any, way: str, is_async: bool, action_is_async: bool
) -> None:
    """002-26"""
    seen: list[str] = []

    async def act() -> None:
        await asyncio.sleep(0)
        seen.append("later")

    action = act if action_is_async else lambda: seen.append("later")
    bench.scope.activity_sink = sink = Sink()
    bench.tool("t", lambda args: "fine")
    bench.plugin(post_tool_call=returns(After({"last": {"n": [1]}}, [EVENT], [action]), is_async))
    before = bench.scope.state
    executed = run_once(bench, way)
    assert executed.result == ToolResult.success("t", "fine")
    assert dict(before) == {}
    assert dict(bench.scope.state) == {"last": {"n": [1]}}
    assert sink.events == [EVENT]
    assert seen == ["later"]


def test_none_only_observes(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """002-26"""
    bench.tool("t", lambda args: "fine")
    bench.plugin("nothing", post_tool_call=lambda call: None)
    bench.plugin("empty", post_tool_call=returns(After()))
    before = bench.scope.state
    assert bench.text("t") == "fine"
    assert bench.scope.state is before
    assert caplog.text == ""


def test_the_next_call_sees_the_state_and_a_tools_own_change_gives_way(bench: Any) -> None:
    """002-26, 002-14"""
    bench.tool("t", lambda args: ToolOutput(ToolResult.success("t", None), [("n", 1), ("own", True)]))
    bench.tool("look", lambda args, ctx: ctx.state(StateKey("n", int)))
    bench.plugin(post_tool_call=lambda call: After({"n": 2}) if call.name == "t" else None)
    assert bench.turn(("t", {}), ("look", {}))[1].result.data == 2
    assert dict(bench.scope.state) == {"n": 2, "own": True}


def test_the_state_is_a_copy_of_the_plugins_own(bench: Any) -> None:
    kept = {"list": [1]}
    bench.tool("t", lambda args: None)
    bench.plugin(post_tool_call=returns(After(kept)))
    bench.call("t")
    kept["list"].append(2)
    assert dict(bench.scope.state) == {"list": [1]}


def test_of_two_plugins_the_first_wins_and_it_is_logged(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """002-22, 002-26"""
    order: list[str] = []

    def observer(name: str) -> Callable[[], After]:
        def post_tool_call() -> After:
            order.append(name)
            return After({"shared": name, name: True})

        return post_tool_call

    bench.tool("t", lambda args: None)
    for name in ("one", "two"):
        bench.plugin(name, post_tool_call=observer(name))
    bench.call("t")
    assert dict(bench.scope.state) == {"shared": order[0], "one": True, "two": True}
    assert f"plugins {order[0]!r} and {order[1]!r} both set the state 'shared'; the first value is kept" in caplog.text
    assert caplog.text.count("both set") == 1


def _endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


class _Leaves(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise SystemExit(1)

    keys = __iter__  # type: ignore[assignment]  # what is tested


_after: Callable[..., After] = After
"""Untyped, to test answers that a plugin must not give."""


@pytest.mark.parametrize(
    "answer",
    [
        "text", 7, {"state": {}}, After, ToolResult.success("t", "other"), Block("no"),
        _after("x"), _after(None), _after({"a": object()}), _after({"a": float("nan")}), _after({1: {}}),
        _after({"a": _endless()}), _after(_Leaves(a=1)), _after(events=[{"a": 1}]), _after(events=EVENT), _after(later=print),
        _after(later=[None]), _after(later="ab"),
    ],
    ids=lambda answer: repr(type(answer).__name__),
)  # fmt: skip
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "awaited"])
def test_garbage_is_logged_and_left_out(bench: Any, caplog: pytest.LogCaptureFixture, answer: Any, is_async: bool) -> None:
    """002-26; the result stands, and the other plugins' answers count"""
    bench.tool("t", lambda args: "fine")
    bench.plugin("odd", post_tool_call=returns(answer, is_async))
    bench.plugin("good", post_tool_call=returns(After({"good": 1})))
    assert bench.text("t") == "fine"
    assert dict(bench.scope.state) == {"good": 1}
    assert "the result of post_tool_call of 'odd' on t is ignored" in caplog.text


def test_an_after_that_is_wrong_in_part_is_left_out_whole(bench: Any) -> None:
    bench.scope.activity_sink = sink = Sink()
    bench.tool("t", lambda args: None)
    bench.plugin(post_tool_call=returns(After({"a": 1}, [EVENT], [None])))  # type: ignore[list-item]  # what is tested
    assert bench.call("t").result.is_success
    assert (dict(bench.scope.state), sink.events) == ({}, [])


def test_a_sink_that_raises_harms_nothing(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    bench.scope.activity_sink = Sink(fails=True)
    bench.tool("t", lambda args: "fine")
    bench.plugin(post_tool_call=returns(After({"a": 1}, [EVENT], [lambda: seen.append("later")])))
    assert bench.text("t") == "fine"
    assert (dict(bench.scope.state), seen) == ({"a": 1}, ["later"])
    assert "an event of 'plugin' after t could not be emitted" in caplog.text


def test_events_without_a_sink_go_nowhere(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """002-18"""
    bench.tool("t", lambda args: "fine")
    bench.plugin(post_tool_call=returns(After(events=[EVENT])))
    assert bench.text("t") == "fine"
    assert caplog.text == ""


@pytest.mark.parametrize("decision", [Block("because"), SetResult(ToolResult.success("t", "given"))])
def test_calls_that_did_not_run_are_observed_alike(bench: Any, decision: Any) -> None:
    """002-26, 002-25"""
    seen: list[str] = []
    bench.tool("t", lambda args: seen.append("ran"))
    bench.plugin("gate", tool_gate=lambda call: decision)
    bench.plugin(
        "after", post_tool_call=lambda result: After({"status": result.status.value}, (), [lambda: seen.append("later")])
    )
    executed = bench.turn(("t", {}))[0]
    assert dict(bench.scope.state) == {"status": executed.result.status.value}
    assert seen == ["later"]


def test_bad_arguments_meet_no_hook(bench: Any) -> None:
    """002-20"""
    bench.tool("t", lambda args: None)
    bench.plugin(post_tool_call=returns(After({"a": 1})))
    assert bench.call("t", fault="cut off").result.is_error
    assert dict(bench.scope.state) == {}


@pytest.mark.parametrize("parallel_safe", [False, True])
def test_later_is_after_all_results_of_the_turn_are_recorded(bench: Any, parallel_safe: bool) -> None:
    """002-26; in the order of the calls, each once"""
    seen: list[Any] = []
    calls = [ToolCall(f"c{number}", "t", {"n": number}) for number in range(3)]

    def later(number: int) -> Callable[[], None]:
        def action() -> None:
            records = [bench.record(call.id) for call in calls]
            seen.append((number, [record is not None and record.status.value for record in records]))

        return action

    bench.tool("t", lambda args: args["n"], parallel_safe=parallel_safe)
    bench.plugin(post_tool_call=lambda call: After(later=[later(call.args["n"])]))
    bench.turn(*calls, on_done=lambda executed: seen.append(executed.result.data))
    assert seen == [0, 1, 2, *((number, ["succeeded"] * 3) for number in range(3))]


def test_later_after_a_turn_that_was_stopped(bench: Any) -> None:
    """Actions that observed calls scheduled run; the remaining calls were not observed"""
    seen: list[str] = []
    bench.tool("t", lambda args: None)
    bench.plugin("gate", tool_gate=lambda call: Block("no", end_run=True) if call.id == "b" else None)
    bench.plugin("after", post_tool_call=lambda call: After(later=[lambda: seen.append(call.id)]))
    executed = bench.turn(*(ToolCall(name, "t", {}) for name in "abc"))
    assert [one.result.is_success for one in executed] == [True, False, False]
    assert seen == ["a", "b"]


@pytest.mark.parametrize("way", ["sync", "async", "turn"])
def test_later_actions_are_isolated(bench: Any, caplog: pytest.LogCaptureFixture, way: str) -> None:
    """002-26: an action that raises or exits is logged, the next ones run, and the result stands"""
    seen: list[str] = []

    async def fails() -> None:
        raise RuntimeError("broken")

    def leaves() -> None:
        raise SystemExit(3)

    def cancels() -> None:
        raise asyncio.CancelledError

    def returns_awaitable() -> Any:
        return asyncio.sleep(0, seen.append("made"))

    def wants_an_argument(it: object) -> None:
        raise AssertionError

    bad: list[Any] = [fails, leaves, cancels, lambda: 1 / 0, wants_an_argument]
    bench.tool("t", lambda args: "fine")
    bench.plugin("after", post_tool_call=returns(After(later=[*bad, returns_awaitable, lambda: seen.append("last")])))
    assert run_once(bench, way).result.data == "fine"
    assert seen == ["made", "last"]
    assert caplog.text.count("work that 'after' scheduled after t failed; the result is unchanged") == len(bad)


@pytest.mark.parametrize("way", ["sync", "async", "turn"])
def test_later_actions_have_the_time_that_a_hook_has(bench: Any, caplog: pytest.LogCaptureFixture, way: str) -> None:
    """002-26: a late action is cancelled, sync or async, and the next one runs"""
    bench.scope.limits = Limits(gate_seconds=0.1)
    released, last = threading.Event(), threading.Event()

    async def hang() -> None:
        await asyncio.sleep(600)

    bench.tool("t", lambda args: "fine")
    bench.plugin("after", post_tool_call=returns(After(later=[hang, lambda: released.wait(600), last.set])))
    assert run_once(bench, way).result.data == "fine"
    released.set()
    assert last.wait(60)
    assert caplog.text.count("work that 'after' scheduled after t failed; the result is unchanged") >= 2


def test_no_secret_is_logged(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    from tools.redact import Redactor

    secret = "sk-0123456789abcdefghij"
    bench.scope.redactor = Redactor.of({"MY_API_KEY": secret})

    def fails() -> None:
        raise RuntimeError(secret)

    bench.tool("t", lambda args: None)
    bench.plugin("one", post_tool_call=returns(After({secret: 1}, later=[fails])))
    bench.plugin("two", post_tool_call=returns(After({secret: 2})))
    bench.call("t")
    assert "both set the state" in caplog.text
    assert "RuntimeError" in caplog.text
    assert secret not in caplog.text


def test_an_interrupt_cuts_later_short_and_the_results_stand(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def interrupted() -> None:
        bench.scope.interrupt()
        await asyncio.sleep(600)

    bench.tool("t", lambda args: "fine")
    bench.plugin(post_tool_call=returns(After(later=[interrupted, lambda: seen.append("next")])))
    assert bench.turn(("t", {}))[0].result.data == "fine"
    assert seen == []
    assert "some work that plugins scheduled" in caplog.text
    assert bench.scope.running == set()


@pytest.mark.parametrize("way", ["sync", "turn"])
def test_what_an_interrupted_call_scheduled_is_done(bench: Any, way: str) -> None:
    seen: list[str] = []

    async def interrupted(args: Any) -> None:
        bench.scope.interrupt()
        await asyncio.sleep(600)

    bench.tool("t", interrupted)
    bench.plugin(post_tool_call=lambda result: After(later=[lambda: seen.append(result.failure.kind)]))
    assert run_once(bench, way).status.value == "cancelled"
    assert seen == ["Cancelled"]


def test_a_turn_that_breaks_off_runs_none(bench: Any) -> None:
    seen: list[str] = []
    bench.tool("t", lambda args: None)
    bench.plugin(post_tool_call=lambda call: After(later=[lambda: seen.append(call.id)]))

    async def go() -> None:
        async def hang(args: Any) -> None:
            asking.cancel()
            await asyncio.sleep(600)

        bench.tool("slow", hang)
        asking = asyncio.create_task(_turn(bench.dispatcher))
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def _turn(dispatcher: Dispatcher) -> None:
        from tools.dispatch.batch import run_calls

        await run_calls(dispatcher, [ToolCall("a", "t"), ToolCall("b", "slow")], bench.scope)

    asyncio.run(go())
    assert seen == []


def test_a_cancellation_from_outside_goes_on_through_later(bench: Any) -> None:
    seen: list[str] = []

    async def go() -> None:
        async def cancels() -> None:
            task.cancel()
            await asyncio.sleep(600)

        bench.tool("t", lambda args: None)
        bench.plugin(post_tool_call=returns(After(later=[cancels, lambda: seen.append("next")])))
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("a", "t"), bench.scope))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert seen == []
    assert bench.scope.running == set()


def test_a_resumed_call_is_observed_again_and_acts_once_each(bench: Any) -> None:
    """002-24, 002-26"""
    seen: list[str] = []
    ticket = SuspendTicket("ask", "really?", binds="b")

    def run(args: Any, ctx: Any) -> Any:
        return "done" if ctx.answer_to("b") else ToolResult.suspended_with("t", "really?", ticket)

    bench.scope.suspends = True
    bench.tool("t", run)
    bench.plugin(post_tool_call=lambda result: After(later=[lambda: seen.append(result.status.value)]))
    assert bench.turn(ToolCall("a", "t", {}))[0].result.is_pending
    assert seen == ["pending"]
    done = asyncio.run(bench.dispatcher.resume(Answer(ticket.id, payload={"approved": True}), bench.scope))
    assert done.result.data == "done"
    assert seen == ["pending", "success"]
