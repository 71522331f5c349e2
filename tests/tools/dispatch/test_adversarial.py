"""Handlers, hooks and callers that break every rule: each call still has one readable result, and no call runs unjudged."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import model_tools
from toolcrib import (
    Answer,
    Block,
    RunsCommand,
    SetResult,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolCallStatus,
    ToolOutput,
    ToolResult,
    ToolStatus,
    hookimpl,
    registry,
)
from tools.dispatch.pipeline import Dispatcher
from tools.redact import Redactor


class NotAnException(BaseException):
    pass


async def cancels_itself() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


def raises(error: BaseException) -> Any:
    def raise_it(*_args: Any) -> Any:
        raise error

    return raise_it


# -- handlers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [asyncio.CancelledError("x"), SystemExit(3), NotAnException("x"), StopIteration("x")])
@pytest.mark.parametrize("timeout", [None, 20])
def test_whatever_a_handler_raises_becomes_its_result(bench: Any, error: BaseException, timeout: float | None) -> None:
    """003-19: this holds inline, in a thread, and in a turn."""
    bench.tool("bad", raises(error), timeout=timeout)
    assert bench.text("bad")["error"].startswith("Tool execution failed: ")
    (executed,) = bench.turn(("bad", {}))
    assert executed.status is ToolCallStatus.FAILED
    assert bench.status(executed) is ToolCallStatus.FAILED


def test_a_handler_whose_own_task_was_cancelled_has_failed(bench: Any) -> None:
    """The cancellation is not an interrupt: the turn continues, and so does a caller inside a running loop."""

    async def handler(args: Any) -> str:
        await cancels_itself()
        return "never"

    bench.tool("bad", handler)
    bench.tool("good", lambda args: "fine")
    assert bench.text("bad")["error"] == "Tool execution failed: CancelledError: "
    bad, good = bench.turn(("bad", {}), ("good", {}))
    assert bad.status is ToolCallStatus.FAILED
    assert good.result.data == "fine"

    async def inside() -> Any:
        return bench.text("bad")

    assert "CancelledError" in asyncio.run(inside())["error"]


def test_a_cancellation_from_outside_still_cancels(bench: Any) -> None:
    began = threading.Event()

    async def handler(args: Any) -> None:
        began.set()
        await asyncio.sleep(60)

    bench.tool("slow", handler)

    async def cancel() -> None:
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "slow"), bench.scope))
        await asyncio.to_thread(began.wait)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert bench.record("c").status is ToolCallStatus.CANCELLED


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {1, 2},
        b"\xff",
        float("nan"),
        iter("x"),
        {(1, 2): 3},
        ToolResult("bad", ToolStatus.SUCCESS, 1, views={"model": 5}),  # type: ignore[dict-item]  # what is tested
        ToolResult("bad", ToolStatus.SUCCESS, 1, views=7),  # type: ignore[arg-type]  # what is tested
        ToolResult("bad", ToolStatus.SUCCESS, 1, message=5),  # type: ignore[arg-type]  # what is tested
        ToolResult("bad", "win", 1),  # type: ignore[arg-type]  # what is tested
        ToolResult("bad", ToolStatus.PENDING, message="m", suspension="ticket"),  # type: ignore[arg-type]  # what is tested
        ToolOutput(None, state_changes=[("a",)]),  # type: ignore[arg-type,list-item]  # what is tested
        ToolOutput(ToolResult.success("bad", 1), state_changes=[("a", object())]),
        ToolOutput(ToolResult.success("bad", 1), state_changes=[(5, 1)]),  # type: ignore[list-item]  # what is tested
    ],
)
def test_nonsense_is_answered_with_what_was_expected(bench: Any, result: Any) -> None:
    bench.tool("bad", lambda args: result)
    error = bench.text("bad")["error"]
    assert error.startswith("Tool execution failed: ")
    assert bench.scope.state == {}  # a value that can't be stored with the results would break the conversation
    assert bench.status(bench.call("bad")) is ToolCallStatus.FAILED


def test_a_result_nested_beyond_reason_is_answered(bench: Any) -> None:
    def deep(args: Any) -> Any:
        value: list[Any] = []
        for _ in range(100_000):
            value = [value]
        return value

    bench.tool("deep", deep)
    assert "not JSON" in bench.text("deep")["error"]


def test_an_exception_that_cannot_be_printed(bench: Any) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    bench.tool("bad", raises(Mute()))
    assert "no words" in bench.text("bad")["error"]


# -- hooks -------------------------------------------------------------------------------------------------------------

LEAVES = [asyncio.CancelledError(), SystemExit(0), NotAnException()]


@pytest.mark.parametrize("error", LEAVES)
def test_a_gate_that_tries_to_leave_closes(bench: Any, error: BaseException) -> None:
    ran: list[str] = []
    bench.tool("t", lambda args: ran.append("ran"))
    bench.plugin("leaver", tool_gate=lambda call: raises(error)())
    assert "the gate 'leaver' failed" in bench.text("t")["error"]
    (executed,) = bench.turn(("t", {}))
    assert executed.result.is_error
    assert ran == []


@pytest.mark.parametrize("error", LEAVES)
@pytest.mark.parametrize("hook", ["pre_tool_call", "transform_tool_result", "post_tool_call"])
def test_an_observer_that_tries_to_leave_loses_nothing(bench: Any, error: BaseException, hook: str) -> None:
    bench.tool("t", lambda args: "fine")
    bench.plugin("leaver", **{hook: lambda call: raises(error)()})
    assert bench.text("t") == "fine"
    assert bench.turn(("t", {}))[0].result.data == "fine"


@pytest.mark.parametrize("hook", ["effects", "validate"])
def test_what_a_tool_says_of_itself_may_fail_and_then_it_does_not_run(bench: Any, hook: str) -> None:
    ran: list[str] = []
    bench.tool("t", lambda args: ran.append("ran"), **{hook: raises(SystemExit(1))})
    assert bench.text("t")["error"].startswith("Error executing t: ")
    assert ran == []


@pytest.mark.parametrize("decision", [SetResult("x"), Suspend("x"), SetResult(None), Block])  # type: ignore[arg-type]  # what is tested
def test_a_decision_that_holds_nonsense_closes(bench: Any, decision: Any) -> None:
    bench.tool("t", lambda args: "ran")
    bench.plugin("odd", tool_gate=lambda call: decision)
    assert "the gate 'odd' returned" in bench.text("t")["error"]
    assert bench.turn(("t", {}))[0].result.is_error


def test_a_transform_that_breaks_the_result_leaves_a_readable_one(bench: Any) -> None:
    bench.tool("t", lambda args: "fine")
    broken = ToolResult("t", ToolStatus.SUCCESS, 1, views={"model": 5})  # type: ignore[dict-item]  # what is tested
    bench.plugin("odd", transform_tool_result=lambda call: broken)
    assert "a ToolResult has a ToolStatus" in bench.text("t")["error"]
    assert bench.turn(("t", {}))[0].result.is_error


@pytest.mark.parametrize("hook", ["tool_gate", "pre_tool_call"])
def test_a_hook_that_changes_the_arguments_changes_nothing_that_was_judged(bench: Any, hook: str) -> None:
    """The handler and the effects have their own copy, including nested values."""
    ran: list[Any] = []
    judged: list[Any] = []

    def effects(args: Any, ctx: ToolCallContext) -> list[RunsCommand]:
        judged.append(json.loads(json.dumps(args)))
        return [RunsCommand(args["command"], "/")]

    def meddle(call: ToolCall) -> None:
        call.args["command"] = "rm -rf /"
        call.args["more"].append("x")
        call.args["deep"]["a"][0]["b"] = 2

    bench.tool("run", lambda args, ctx: ran.append(args), kind="execute", effects=effects)
    bench.plugin("meddler", **{hook: meddle})
    bench.call("run", {"command": "true", "more": [], "deep": {"a": [{"b": 1}]}})
    assert ran == judged == [{"command": "true", "more": [], "deep": {"a": [{"b": 1}]}}]


def test_a_handler_that_changes_its_arguments_changes_no_record(bench: Any) -> None:
    def handler(args: Any) -> str:
        args["list"].append("more")
        args.clear()
        return "fine"

    bench.tool("t", handler)
    given = {"list": ["one"]}
    executed = bench.call("t", given)
    assert given == executed.call.args == {"list": ["one"]}


# -- arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        "[" * 100_000,
        {"a": "[" * 100_000},
        {1: 2},
        {"s": b"x"},
        {"n": float("nan")},
        b"{}",
        5,
        True,
        [],
        "NaN",
        '{"n": 1' + "0" * 5000 + "}",
    ],
    ids=str,
)
def test_arguments_that_are_none_say_what_is_expected(bench: Any, args: Any) -> None:
    schema = {"properties": {"a": {"type": "array"}, "n": {"type": "integer"}, "s": {"type": "string"}}}
    bench.tool("t", lambda args: "ran", schema={"description": "d", "parameters": {"type": "object", **schema}})
    error = bench.text("t", args)["error"]
    assert any(hint in error for hint in ("expected", "send ")), error
    assert "RecursionError" not in error


@pytest.mark.parametrize("name", [None, 5, ["t"], {"t": 1}, "", "t" * 10_000, "\ud800", "t\0"])
def test_a_name_that_is_none_is_an_unknown_tool(name: Any) -> None:
    """003-21: the calls come through the real interfaces."""
    for face in (model_tools.handle_function_call, registry.dispatch):
        assert "Unknown tool" in json.loads(face(name, {}))["error"]


def test_checked_arguments_nested_too_deep(bench: Any) -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    bench.tool("t", lambda args: "ran")
    assert "nested too deep" in bench.text("t", {"a": value})["error"]


def test_a_call_that_no_ledger_can_keep_is_recorded_and_never_runs(bench: Any) -> None:
    """No schema forbids these arguments, but they are not JSON."""
    bench.ran = []
    bench.tool("t", bench.ran.append)
    executed = bench.call("t", {"s": {1, 2}})
    assert "not JSON: set is not JSON" in executed.result.message
    assert bench.ran == []
    record = bench.record(executed.call.id)
    assert (record.status, dict(record.call.args)) == (ToolCallStatus.FAILED, {})


# -- answers ---------------------------------------------------------------------------------------------------------------


class Asks:
    """A gate that requires an answer for exactly the call's arguments."""

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: ToolCallContext) -> Suspend | Block | None:
        answer = ctx.answer_to(repr(call.args))
        if answer is None:
            return Suspend(SuspendTicket("ask", "may it?", binds=repr(call.args)))
        return None if answer.payload == {"approved": True} else Block("no")


@pytest.fixture
def asked(bench: Any) -> list[SuspendTicket]:
    tickets: list[SuspendTicket] = []
    bench.ran = []
    bench.hooks.register(Asks(), "asks")
    bench.tool("t", lambda args: bench.ran.append(args) or "ran")
    return tickets


@pytest.mark.parametrize(
    "answer",
    [
        lambda ticket: None,
        lambda ticket: True,
        lambda ticket: "yes",
        lambda ticket: {"approved": True},
        lambda ticket: Answer("0" * 32, payload={"approved": True}),
        lambda ticket: Answer(ticket.id, action="cancel", payload={"approved": True}),
        lambda ticket: Answer(ticket.id, payload={"approved": "true"}),
        lambda ticket: Answer(ticket.id, payload=None),
        lambda ticket: raises(SystemExit(0))(),
    ],
)
def test_only_a_clear_yes_to_this_very_question_lets_it_run(bench: Any, asked: Any, answer: Any) -> None:
    bench.scope.asker = lambda ticket, ctx: answer(ticket)
    executed = bench.call("t", {"x": 1})
    assert bench.ran == []
    assert executed.result.is_error


def test_an_answer_is_taken_once_and_for_its_own_call(bench: Any, asked: Any) -> None:
    """Two clicks in two threads run it once. The same call again, even with the same id, is asked about again."""
    bench.scope.suspends = True
    (pending,) = bench.turn(ToolCall("same", "t", {"x": 1}))
    ticket = pending.result.suspension
    yes = [Answer(ticket.id, payload={"approved": True}) for _ in range(8)]

    def click(answer: Answer) -> str:
        try:
            return asyncio.run(bench.dispatcher.resume(answer, bench.scope)).status.value
        except Exception as error:  # noqa: BLE001 - the test checks its name
            return type(error).__name__

    with ThreadPoolExecutor(8) as pool:
        said = sorted(pool.map(click, yes))
    assert said == ["Denied"] * 7 + ["succeeded"]
    assert bench.ran == [{"x": 1}]
    (again,) = bench.turn(ToolCall("same2", "t", {"x": 1}))
    assert again.result.is_pending


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_a_forged_context_is_no_context(bench: Any) -> None:
    with pytest.raises(TypeError, match="only the dispatcher creates"):
        ToolCallContext(object(), ToolCall("c", "t"), bench.scope)


def test_a_model_cannot_pass_what_only_a_caller_may(bench: Any) -> None:
    """ctx, scope, task_id and call_id among the arguments are plain arguments."""
    seen: list[Any] = []
    bench.tool("t", lambda args, ctx: seen.append((args, ctx.call_id, ctx.granted)))
    bench.scope.granted = frozenset({"t"})
    given = {"scope": None, "ctx": {}, "call_id": "mine", "task_id": "other", "granted": ["terminal"]}
    bench.call("t", given, call_id="c1")
    assert seen == [(given, "c1", frozenset({"t"}))]
    assert "not granted" in bench.call("x", {}).result.message or "Unknown tool" in bench.call("x", {}).result.message


# -- threads -----------------------------------------------------------------------------------------------------------


def test_a_gate_registered_while_calls_run_is_asked_by_every_later_call(bench: Any) -> None:
    """No thread may keep a plan from before the gate's registration."""
    for number in range(20):
        bench.tool(f"t{number}", lambda args: "ran")
    stop = threading.Event()
    failures: list[str] = []

    def call() -> None:
        while not stop.is_set():
            for number in range(20):
                bench.dispatcher.call_sync(ToolCall(ToolCall.new_id(), f"t{number}"), bench.scope)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        bench.plugin("closed", tool_gate=lambda call: Block("closed"))
        failures += [f"t{number}" for number in range(20) if bench.call(f"t{number}").result.is_success]
        bench.hooks.unregister(name="closed")
        failures += [f"-t{number}" for number in range(20) if bench.call(f"t{number}").result.is_error]
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_plan_made_of_what_was_taken_back_is_not_kept(bench: Any) -> None:
    """The generation changes after the tools do, so a plan made in between must not count as current."""
    bench.tool("t", lambda args: "old")
    real = bench.registry._tools
    dispatcher: Dispatcher = bench.dispatcher

    class Peeking(dict):  # type: ignore[type-arg]  # the registry's own dict, read while it changes
        def pop(self, *args: Any) -> Any:
            dispatcher.call_sync(ToolCall("peek", "t"), bench.scope)
            return super().pop(*args)

    bench.registry._tools = Peeking(real)
    bench.registry.unregister("t")
    assert "Unknown tool" in bench.text("t")["error"]


def test_the_three_bridges_under_threads_give_each_caller_its_own_result(bench: Any) -> None:
    """003-22"""

    async def echo(args: Any) -> Any:
        await asyncio.sleep(0)
        return args["n"]

    bench.tool("echo", echo)

    async def inside(number: int) -> Any:
        return bench.text("echo", {"n": number})

    def one(number: int) -> Any:
        return asyncio.run(inside(number)) if number % 2 else bench.text("echo", {"n": number})

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(64))) == list(range(64))


# -- secrets -----------------------------------------------------------------------------------------------------------

SECRET = 'p"ss\\wörd-0123456789'


@pytest.mark.parametrize(
    "result",
    [
        SECRET,
        {"key": SECRET},
        {SECRET: 1},
        [[{"deep": [f"x{SECRET}y"]}]],
        {"name": "caf\udce9", "value": SECRET},
        ToolResult("t", ToolStatus.SUCCESS, 1, message=SECRET),
        ToolResult("t", ToolStatus.SUCCESS, 1, views={"model": SECRET, "person": SECRET}),
        ToolResult.error_with_code("t", "code", SECRET),
    ],
    ids=lambda result: type(result).__name__,
)
def test_a_secret_leaves_in_no_form(bench: Any, result: Any) -> None:
    bench.scope.redactor = Redactor({"MY_TOKEN": SECRET})
    bench.tool("t", lambda args: result)
    seen: list[Any] = []
    bench.plugin("seer", post_tool_call=lambda call, result: seen.append(result))
    text = bench.registry.dispatch("t", {})
    shown = repr(json.loads(text)) + repr(seen)
    assert repr(SECRET)[1:-1] not in shown
    assert "[redacted: MY_TOKEN]" in shown


def test_a_secret_in_an_error_leaves_neither_in_the_result_nor_to_observers_nor_in_the_log(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.scope.redactor = Redactor({"MY_TOKEN": "s3cret-0123456789"})
    bench.tool("t", raises(ValueError("no access with s3cret-0123456789")))
    seen: list[Any] = []
    bench.plugin("seer", post_tool_call=lambda call, result: seen.append((result, result.failure)))
    executed = bench.call("t")
    everything = repr(executed) + repr(seen) + caplog.text + repr(bench.record(executed.call.id))
    assert "s3cret" not in everything
    assert "[redacted: MY_TOKEN]" in executed.result.failure.text
