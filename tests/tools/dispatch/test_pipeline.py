"""The processing of one call, from the outside: the steps, their order, and the result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import time
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import (
    Answer,
    Block,
    Denied,
    ExecutedCall,
    ExecutionFailed,
    InvalidArguments,
    NotFound,
    StateKey,
    Suspend,
    SuspendTicket,
    Tool,
    ToolCall,
    ToolCallContext,
    ToolCallStatus,
    ToolDescriptor,
    ToolOutput,
    ToolResult,
    ToolStatus,
    WritesFile,
)
from toolcrib.contract.state import StateValue
from toolcrib.testing import call_tool
from tools.dispatch.bridge import run_async
from tools.dispatch.scope import CallScope

ONE = {"description": "d", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}


class Greet(Tool):
    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor.new("greet", "greet", "Greet a user by name").with_parameters(
            {"type": "object", "properties": {"name": {"type": "string"}}}
        )

    async def execute(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolOutput:
        if "name" not in args:
            raise InvalidArguments("name required")
        return ToolResult.success("greet", {"greeting": f"Hello, {args['name']}!"}).to_output()


class GetPreferences(Tool):
    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor.new("get_prefs", "get_preferences", "Get user preferences")

    async def execute(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        assert ctx.state(StateKey("prefs", dict)) is None
        return ToolResult.success("get_prefs", {})


def test_the_greet_example() -> None:
    """002-1, 002-4, 002-33"""
    assert call_tool(Greet(), {"name": "x"}).result.data == {"greeting": "Hello, x!"}
    failed = call_tool(Greet(), {}).result
    assert failed.is_error
    assert failed.message == "Tool execution failed: InvalidArguments: name required"


def test_id_and_name_may_differ_and_null_arguments_are_none() -> None:
    """002-34, 002-35"""
    executed = call_tool(GetPreferences(), None)
    assert executed.call.name == "get_preferences"
    assert executed.result == ToolResult.success("get_preferences", {})
    assert executed.status is ToolCallStatus.SUCCEEDED


def test_the_lifecycle_in_order(bench: Any) -> None:
    """002-19, 003-17: validate, gate, before, execute, transform, after"""
    seen: list[str] = []

    class Watched(Tool):
        def descriptor(self) -> ToolDescriptor:
            return ToolDescriptor.new("w", "w", "watched")

        def validate_args(self, args: Any) -> None:
            seen.append("validate_args")

        async def execute(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
            seen.append("execute")
            return ToolResult.success("w", 1)

    bench.registry.add(Watched())
    bench.plugin(
        tool_gate=lambda call: seen.append("gate"),
        pre_tool_call=lambda call: seen.append("pre"),
        transform_tool_result=lambda result: seen.append("transform"),
        post_tool_call=lambda result: seen.append(f"post {result.data}"),
    )
    assert bench.call("w").result.data == 1
    assert seen == ["validate_args", "gate", "pre", "execute", "transform", "post 1"]


@pytest.mark.parametrize("refuse", ["schema", "validate_args"])
def test_bad_arguments_meet_no_hook_and_no_handler(bench: Any, refuse: str) -> None:
    """002-20: the error contains 001-11's schema snippet"""

    def refuse_all(args: Any) -> None:
        raise InvalidArguments("never")

    seen: list[str] = []
    bench.tool("t", lambda args: seen.append("ran"), schema=ONE, validate=refuse_all if refuse == "validate_args" else None)
    bench.plugin(
        tool_gate=lambda call: seen.append("gate"),
        pre_tool_call=lambda call: seen.append("pre"),
        post_tool_call=lambda: seen.append("post"),
    )
    executed = bench.call("t", {"n": "x"} if refuse == "schema" else {"n": 1})
    assert seen == []
    assert executed.status is ToolCallStatus.FAILED
    assert executed.result.message is not None
    assert executed.result.message.startswith("Error executing t: ")
    if refuse == "schema":
        assert '{"type": "integer"}' in executed.result.message


def test_a_string_becomes_the_number_it_spells(bench: Any) -> None:
    bench.tool("t", lambda args: args["n"] + 1, schema=ONE)
    args = {"n": "41"}
    assert bench.call("t", args).result.data == 42
    assert args == {"n": "41"}


def test_handler_exceptions_word_for_word(bench: Any) -> None:
    """003-19, 003-21"""

    def broken(args: Any) -> None:
        raise ValueError("boom")

    async def broken_later(args: Any) -> None:
        raise KeyError("k")

    bench.tool("sync", broken)
    bench.tool("later", broken_later)
    assert bench.text("sync") == {"error": "Tool execution failed: ValueError: boom"}
    assert bench.text("later") == {"error": "Tool execution failed: KeyError: 'k'"}


def test_what_fails_outside_the_handler_is_worded_as_the_second_guard(bench: Any) -> None:
    """003-20, 003-21: this includes an unknown tool"""
    bench.tool("terminal", lambda args: 1)
    assert bench.text("terminl") == {"error": "Error executing terminl: Unknown tool: terminl (did you mean 'terminal'?)"}
    assert bench.text("terminal", "[1]")["error"].startswith("Error executing terminal: expected an object, got list")


@pytest.mark.parametrize("error", [InvalidArguments("x"), ExecutionFailed("x"), Denied("x"), NotFound("x")])
def test_a_tool_error_ends_the_call_and_its_id_is_still_answered(bench: Any, error: Exception) -> None:
    """002-11, 002-12"""

    def fail(args: Any) -> None:
        raise error

    bench.tool("t", fail)
    executed = bench.call("t", call_id="c1")
    assert executed.call.id == "c1"
    assert executed.result.is_error
    assert executed.status is bench.status(executed) is ToolCallStatus.FAILED
    assert executed.result.data["error"]["code"]


def test_a_tool_cannot_end_the_process(bench: Any) -> None:
    def leave(args: Any) -> None:
        raise SystemExit(3)

    bench.tool("t", leave)
    assert bench.text("t") == {"error": "Tool execution failed: SystemExit: 3"}


@pytest.mark.parametrize("path", ["sync", "async", "thread", "awaited", "inline"])
def test_a_generator_exit_in_a_handler_is_that_calls_failure(bench: Any, path: str) -> None:
    def leave(args: Any) -> None:
        raise GeneratorExit

    async def aleave(args: Any) -> None:
        if path == "awaited":
            await asyncio.sleep(0)
        raise GeneratorExit

    bench.tool("t", aleave if path in ("async", "awaited") else leave, timeout=5 if path == "thread" else None)
    call = ToolCall("c1", "t", {})
    from tools.dispatch.json_results import as_json

    if path == "inline":
        executed = bench.dispatcher.call_sync(call, bench.scope)
    else:
        executed = run_async(bench.dispatcher.call(call, bench.scope))
    assert executed.result.is_error
    assert "GeneratorExit" in as_json(executed)
    assert bench.status(executed) is ToolCallStatus.FAILED


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), {"a": b"x"}, (x for x in ())])
def test_nonsense_from_a_handler_is_a_clear_error(bench: Any, value: Any) -> None:
    bench.tool("t", lambda args: value)
    assert "returned a value that is not JSON" in bench.text("t")["error"]


def test_a_list_that_contains_itself(bench: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    bench.tool("t", lambda args: loop)
    assert "returned a value that is not JSON" in bench.text("t")["error"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_the_answer_is_always_json(value: Any) -> None:
    """003-21: any value that the handler returns can be read back from the text"""

    class Echo(Tool):
        def descriptor(self) -> ToolDescriptor:
            return ToolDescriptor.new("echo", "echo", "echo")

        async def execute(self, args: dict[str, Any], ctx: ToolCallContext) -> Any:
            return value

    from tools.dispatch.json_results import as_json

    text = as_json(call_tool(Echo(), {}))
    text.encode()
    read = json.loads(text)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    assert read == value


def test_json_text_passes_and_other_text_is_encoded(bench: Any) -> None:
    bench.tool("json", lambda args: '{"a": 1}')
    bench.tool("text", lambda args: 'say "hi"')
    assert bench.registry.dispatch("json", {}) == '{"a": 1}'
    assert bench.registry.dispatch("text", {}) == '"say \\"hi\\""'


@pytest.mark.parametrize("name", ["todo", "memory", "session_search", "delegate_task"])
def test_agent_loop_tools_answer_a_stub_error_where_no_loop_is(bench: Any, name: str) -> None:
    """003-18: the loop's tools are advertised, but do not run without the loop"""
    bench.tool(name, None)
    assert [d["function"]["name"] for d in bench.registry.get_definitions()] == [name]
    assert "run by the agent loop" in bench.text(name)["error"]


def test_agent_loop_tools_pass_gates_and_hooks_too(bench: Any) -> None:
    """003-17 (!): only the source of their handler differs"""

    seen: list[str] = []
    bench.tool("todo", None)
    bench.plugin(tool_gate=lambda call: seen.append("gate"), pre_tool_call=lambda call: seen.append("pre"))
    scope = CallScope(
        identity=bench.scope.identity,
        open_environment=bench.scope.open_environment,
        handlers={"todo": lambda args, ctx: "listed"},
    )
    assert bench.dispatcher.call_sync(ToolCall("c", "todo", {}), scope).result.data == "listed"
    assert seen == ["gate", "pre"]


def test_a_tool_outside_the_grant_is_denied(bench: Any) -> None:
    bench.tool("a", lambda args: 1)
    bench.tool("b", lambda args: 1)
    bench.scope.granted = frozenset({"a"})
    assert bench.call("a").result.is_success
    refused = bench.call("b").result
    assert "not granted to this session; granted: a" in str(refused.message)
    assert "known: a" in str(bench.call("zzz").result.message)


def test_a_faulty_call_never_runs_and_gets_its_result(bench: Any) -> None:
    """X-1, X-8: unreadable calls"""
    bench.tool("t", lambda args: pytest.fail("ran"))
    executed = bench.call("t", fault="cut off after 10 characters")
    assert "the call was not run: cut off after 10 characters; send it again" in executed.result.message
    assert bench.status(executed) is ToolCallStatus.FAILED


@pytest.mark.parametrize("kind", ["edit", "execute"])
def test_tools_that_act_need_an_approval_gate(bench: Any, kind: Any) -> None:
    bench.tool("t", lambda args: pytest.fail("ran"), kind=kind)
    bench.hooks.unregister(name="approval")
    assert "no approval gate is registered" in bench.text("t")["error"]


def test_state_changes_are_seen_by_the_next_call_and_not_by_the_snapshot(bench: Any) -> None:
    """002-10, 002-14"""
    key = StateKey("count", int)

    def count(args: Any, ctx: ToolCallContext) -> ToolOutput:
        before = ctx.state(key) or 0
        bench.scope.take_state({"other": StateValue(1, 1)})
        assert "other" not in ctx.snapshot or before
        return ToolOutput(ToolResult.success("t", before), [("count", before + 1)])

    bench.tool("t", count)
    assert [bench.call("t").result.data for _ in range(3)] == [0, 1, 2]


def test_changes_of_state_from_two_threads_are_both_there(bench: Any) -> None:
    class Slow(UserDict[str, Any]):
        """A mapping that lets another thread change the state during a read."""

        def items(self) -> Any:
            other.start()
            other.join(0.2)  # a thread that waits for this read finishes after it
            return super().items()

    other = threading.Thread(target=lambda: bench.scope.take_state({"theirs": StateValue(1, 1)}))
    bench.scope.take_state(Slow(ours=StateValue(1, 1)))
    other.join()
    assert bench.scope.state == {"ours": 1, "theirs": 1}


def test_closing_a_scope_ends_the_calls_that_run_and_the_questions_that_are_asked(bench: Any) -> None:
    """After a chat is closed, no call waits forever for a handler or a user."""

    async def for_ever(*given: Any) -> None:
        begun.set()
        await asyncio.sleep(300)

    async def close_while(name: str) -> ExecutedCall:
        bench.scope.cancelled = False
        task = asyncio.create_task(bench.dispatcher.call(ToolCall(name, name), bench.scope))
        await begun.wait()
        await bench.scope.close()
        assert not bench.scope.running
        return await task

    begun = asyncio.Event()
    bench.tool("slow", for_ever)
    assert asyncio.run(close_while("slow")).status is ToolCallStatus.CANCELLED
    begun = asyncio.Event()
    bench.scope.asker, bench.scope.asker_is_async = for_ever, True
    bench.tool("asks", lambda args: pytest.fail("ran"))
    bench.plugin(tool_gate=lambda call: Suspend(SuspendTicket("asks", "may it?")))
    assert asyncio.run(close_while("asks")).status is ToolCallStatus.CANCELLED


def test_what_breaks_before_the_handler_is_logged_with_its_trace(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    def effects(args: Any, ctx: ToolCallContext) -> Any:
        raise ZeroDivisionError("no effects")

    bench.tool("t", lambda args: pytest.fail("ran"), effects=effects)
    assert "ZeroDivisionError: no effects" in bench.text("t")["error"]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tools.dispatch.progress", "ERROR")
    assert record.getMessage().startswith("gating t failed\nTraceback")


def test_a_handler_may_close_its_own_scope(bench: Any) -> None:
    async def close(args: Any) -> str:
        await bench.scope.close()
        return "closed"

    bench.tool("t", close)
    assert bench.text("t") == "closed"


def test_a_closed_scope_opens_nothing(bench: Any) -> None:
    """An environment that is opened after the close would never be closed."""
    bench.tool("t", lambda args, ctx: ctx.environment.cwd)
    asyncio.run(bench.scope.close())
    assert "the session was closed: open another" in bench.text("t")["error"]


def test_keywords_of_dispatch_reach_handlers_that_take_them(bench: Any) -> None:
    """003-17: registry.dispatch(name, args, **kwargs)"""
    bench.tool("all", lambda args, **kwargs: kwargs)
    bench.tool("one", lambda args, *, task_id="": task_id)
    bench.tool("none", lambda args: "ok")
    assert json.loads(bench.registry.dispatch("all", {}, task_id="t1", user_task="u")) == {"task_id": "t1", "user_task": "u"}
    assert json.loads(bench.registry.dispatch("one", {}, task_id="t1")) == "t1"
    assert json.loads(bench.registry.dispatch("none", {}, task_id="t1")) == "ok"


def test_a_session_s_task_and_request_reach_handlers_on_every_path(bench: Any) -> None:
    """003-17, 003-30: a handler gets the same values from a single call, in a turn, and from a synchronous interface."""
    bench.tool("both", lambda args, *, task_id, user_task: [task_id, user_task], parallel_safe=True)

    async def wait(args: Any, ctx: Any, **extra: Any) -> Any:
        return [extra["task_id"], extra["user_task"]]

    bench.tool("waits", wait)
    bench.scope.begin_run("Tidy up.")
    expected = ["session", "Tidy up."]
    assert [bench.text(name) for name in ("both", "waits")] == [expected, expected]
    turn = bench.turn(("both", {}), ("both", {}), ("waits", {}))
    alone = [bench.call("both"), asyncio.run(bench.dispatcher.call(ToolCall("c", "waits", {}), bench.scope))]
    assert [one.result.data for one in [*turn, *alone]] == [expected] * 5
    bench.scope.begin_run(None)
    assert bench.text("both") == ["session", None]


def test_a_resumed_call_serves_the_request_that_it_goes_on_with(bench: Any) -> None:
    """003-17"""
    bench.tool("both", lambda args, *, task_id, user_task: [task_id, user_task])
    bench.scope.suspends = True
    asked = SuspendTicket("ask", "May it?", binds="once")
    bench.plugin(tool_gate=lambda call, ctx: None if ctx.answer_to("once") else Suspend(asked))
    pending = bench.call("both").result
    bench.scope.begin_run("Go on.")
    done = asyncio.run(bench.dispatcher.resume(Answer(pending.suspension.id), bench.scope))
    assert done.result.data == ["session", "Go on."]


def test_an_async_handler_is_cancelled_at_its_time_limit(bench: Any) -> None:
    """000-37 (!): a timeout error, never an invented success"""
    ended = threading.Event()

    async def slow(args: Any) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "late"

    bench.tool("t", slow, timeout=0.05)
    executed = bench.call("t")
    assert (
        executed.result.message
        == "Tool execution failed: Timeout: no result within 0.05 s; it may have done part of its work, or may still be running"
    )
    assert ended.is_set()


def test_a_sync_handler_with_a_timeout_is_given_up(bench: Any) -> None:
    release = threading.Event()
    bench.tool("t", lambda args: release.wait(30), timeout=0.05)
    try:
        assert "Timeout: no result within 0.05 s" in bench.text("t")["error"]
    finally:
        release.set()


def test_a_timeout_error_of_the_handler_is_its_own(bench: Any) -> None:
    async def own(args: Any) -> None:
        raise TimeoutError("the server's")

    bench.tool("t", own, timeout=20)
    assert bench.text("t") == {"error": "Tool execution failed: TimeoutError: the server's"}


def test_an_interrupt_becomes_the_result_of_what_runs(bench: Any) -> None:
    """X-1: an interrupted call gets a result too"""
    started = threading.Event()

    async def wait(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    bench.tool("t", wait)
    interrupter = threading.Thread(target=lambda: (started.wait(10), bench.scope.interrupt()))
    interrupter.start()
    executed = bench.call("t")
    interrupter.join()
    assert executed.status is bench.status(executed) is ToolCallStatus.CANCELLED
    assert "interrupted" in executed.result.message
    assert "interrupted before it began" in bench.call("t").result.message
    bench.scope.clear_interrupt()


@pytest.mark.parametrize("written", [False, True])
def test_an_interrupt_while_the_call_is_opened(bench: Any, caplog: pytest.LogCaptureFixture, written: bool) -> None:
    """The call ends and no traceback is logged, both if the ledger stored the call and if it did not."""
    bench.tool("t", lambda args: 1)
    ledger = bench.scope.ledger
    open_it, tries = ledger.open, []

    async def slow(*args: Any, **options: Any) -> None:
        tries.append(args)
        if len(tries) == 1 and not written:
            bench.scope.interrupt()
            await asyncio.sleep(0.01)
        await open_it(*args, **options)
        if len(tries) == 1:
            bench.scope.interrupt()
            await asyncio.sleep(0.01)

    ledger.open = slow
    executed = bench.call("t")
    bench.scope.clear_interrupt()
    assert executed.status is bench.status(executed) is ToolCallStatus.CANCELLED
    assert not caplog.records


def test_an_interrupt_while_a_refusal_is_recorded(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A second interrupt, as the session closes, changes nothing."""
    bench.tool("t", lambda args: 1, schema=ONE)
    bench.plugin(tool_gate=lambda call: Block("no") if call.args["n"] == 2 else None)
    ledger = bench.scope.ledger
    finish, tries = ledger.finish, []

    async def slow(*args: Any, **options: Any) -> None:
        tries.append(args)
        if len(tries) % 3:
            bench.scope.clear_interrupt()
            bench.scope.interrupt()
            await asyncio.sleep(0.01)
        await finish(*args, **options)

    ledger.finish = slow
    for args in ({"n": 2}, {}):
        bench.scope.clear_interrupt()
        executed = bench.call("t", args)
        assert executed.result.is_error
        assert executed.status is bench.status(executed)
    bench.scope.clear_interrupt()
    assert len(tries) == 6
    assert not caplog.records


def test_another_call_under_way_is_not_taken_for_one_s_own(bench: Any) -> None:
    bench.tool("t", lambda args: 1)
    run_async(bench.store.ledger.open(ToolCall("c", "t", {"other": 1}), "session"))
    ledger = bench.scope.ledger
    open_it, tries = ledger.open, []

    async def slow(*args: Any, **options: Any) -> None:
        tries.append(args)
        if len(tries) == 1:
            bench.scope.interrupt()
            await asyncio.sleep(0.01)
        await open_it(*args, **options)

    ledger.open = slow
    assert bench.call("t", call_id="c").status is ToolCallStatus.CANCELLED
    bench.scope.clear_interrupt()
    assert bench.record("c").status is ToolCallStatus.NEW


def test_a_cancelled_task_tells_the_ledger_and_stays_cancelled(bench: Any) -> None:
    async def wait(args: Any) -> None:
        await asyncio.sleep(60)

    bench.tool("t", wait)

    async def go() -> None:
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "t", {}), bench.scope))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    record = bench.record("c")
    assert record.status is ToolCallStatus.CANCELLED
    assert record.handler_started


def test_ctrl_c_in_a_handler_ends_the_call_and_goes_on(bench: Any) -> None:
    def interrupt(args: Any) -> None:
        raise KeyboardInterrupt

    bench.tool("t", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.call("t", call_id="c")
    assert bench.record("c").status is ToolCallStatus.CANCELLED


def test_the_ledger_knows_what_may_have_had_effects(bench: Any) -> None:
    bench.tool("t", lambda args: 1, schema=ONE)
    good, bad = bench.call("t", {"n": 1}), bench.call("t", {})
    assert bench.record(good.call.id).handler_started
    assert not bench.record(bad.call.id).handler_started
    assert bench.record(good.call.id).status is ToolCallStatus.SUCCEEDED


def test_effects_are_worked_out_once_and_given_to_gates_and_handler(bench: Any) -> None:
    asked: list[Any] = []

    async def effects(args: Any, ctx: ToolCallContext) -> list[WritesFile]:
        asked.append("effects")
        return [WritesFile(await ctx.environment.resolve("a.txt"))]

    bench.tool("t", lambda args, ctx: ctx.effects[0].path, kind="edit", effects=effects)
    bench.plugin(tool_gate=lambda ctx: asked.append(ctx.effects))
    assert bench.call("t").result.data == "/project/a.txt"
    assert asked == ["effects", (WritesFile("/project/a.txt"),)]


def test_effects_that_raise_stop_the_call(bench: Any) -> None:
    bench.tool("t", lambda args: pytest.fail("ran"), kind="edit", effects=lambda args, ctx: 1 / 0)
    assert bench.text("t") == {"error": "Error executing t: ZeroDivisionError: division by zero"}


def test_a_plain_function_that_returns_an_awaitable_is_awaited(bench: Any) -> None:
    """000-34"""

    async def later() -> int:
        await asyncio.sleep(0)
        return 5

    bench.tool("t", lambda args: later())
    assert bench.call("t").result.data == 5
    [in_a_thread] = bench.turn(("t", {}))
    assert in_a_thread.result.data == 5


def test_secrets_leave_no_handler(bench: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from tools.redact import Redactor

    bench.scope.redactor = Redactor({"MY_TOKEN": "s3cr3t-value-12"})

    def leak(args: Any) -> Any:
        return {"env": ["MY_TOKEN=s3cr3t-value-12"], "key": "sk-abcdefghijklmnopqrstuvwxyz"}

    def leak_in_error(args: Any) -> None:
        raise RuntimeError("bad s3cr3t-value-12")

    seen: list[Any] = []
    bench.tool("t", leak)
    bench.tool("e", leak_in_error)
    bench.plugin(post_tool_call=lambda result: seen.append(result.data))
    with caplog.at_level(logging.DEBUG):
        assert bench.text("t") == {"env": ["MY_TOKEN=[redacted: MY_TOKEN]"], "key": "[redacted: key]"}
        assert bench.text("e") == {"error": "Tool execution failed: RuntimeError: bad [redacted: MY_TOKEN]"}
    assert "s3cr3t" not in repr(seen)
    assert "s3cr3t" not in caplog.text


def test_a_large_result_is_clipped_and_its_whole_can_be_read(bench: Any) -> None:
    text = "\n".join(f"line {number}" for number in range(100_000))
    bench.tool("t", lambda args: {"output": text, "exit_code": 0})
    bench.tool("s", lambda args: text)
    for name in ("t", "s"):
        data = bench.call(name, call_id=f"big-{name}").result.data
        shown = data["output"] if name == "t" else data
        assert len(shown) < 50_000
        assert shown.startswith("line 0\n")
        assert shown.endswith("line 99999")
        assert "characters left out; the full text is in" in shown
    whole = (bench.scope.spill_dir / "big-s.txt").read_text()
    assert whole == text
    assert (bench.scope.spill_dir / "big-s.txt").stat().st_mode & 0o777 == 0o600


def test_transforms_replace_and_broken_ones_are_left_out(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    bench.tool("t", lambda args: 1)
    bench.plugin("doubles", transform_tool_result=lambda result: ToolResult.success("t", result.data * 2))
    bench.plugin("breaks", transform_tool_result=lambda result: 1 / 0)
    bench.plugin("nonsense", transform_tool_result=lambda result: "text")
    assert bench.call("t").result.data == 2
    assert "'breaks' failed on t; the result is unchanged" in caplog.text
    assert "'nonsense' returned str instead of a ToolResult" in caplog.text


def test_observers_are_isolated(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """002-26: an observer that raises or is late is logged, and the call continues"""
    seen: list[str] = []

    async def hang(call: ToolCall) -> None:
        await asyncio.sleep(60)

    bench.tool("t", lambda args: 1)
    bench.plugin("raises", pre_tool_call=lambda call: 1 / 0, post_tool_call=lambda call: 1 / 0)
    bench.plugin("hangs", pre_tool_call=hang)
    bench.plugin("works", pre_tool_call=lambda call: seen.append("pre"), post_tool_call=lambda call: seen.append("post"))
    assert bench.call("t").result.data == 1
    assert seen == ["pre", "post"]
    assert "the hook of 'raises' failed on t" in caplog.text
    assert "the hook of 'hangs' failed on t" in caplog.text


@pytest.mark.parametrize("make", [lambda f: f, lambda f: _async(f)], ids=["sync", "async"])
def test_hooks_are_sync_or_async_as_they_like(bench: Any, make: Callable[..., Any]) -> None:
    seen: list[str] = []
    bench.tool("t", lambda args: 1)
    bench.plugin(
        tool_gate=make(lambda call: seen.append("gate")),
        pre_tool_call=make(lambda call: seen.append("pre")),
        transform_tool_result=make(lambda result: ToolResult.success("t", 2)),
        post_tool_call=make(lambda result: seen.append("post")),
    )
    assert bench.call("t").result.data == 2
    assert seen == ["gate", "pre", "post"]


def _async(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__code__.co_varnames[0]
    space: dict[str, Any] = {"function": function}
    exec(f"async def hook({name}):\n    return function({name})", space)  # noqa: S102 - pluggy reads the parameter's name
    return space["hook"]  # type: ignore[no-any-return]  # made right above


def test_a_sync_handler_in_async_code_does_not_hold_up_the_loop(bench: Any) -> None:
    bench.tool("t", lambda args: time.sleep(0.2) or threading.current_thread().name)

    async def go() -> tuple[int, str]:
        ticks = 0
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "t", {}), bench.scope))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.01)
        return ticks, (await task).result.data

    ticks, thread = asyncio.run(go())
    assert ticks > 3
    assert thread.startswith("toolcrib-")


def test_pending_without_a_ticket_is_a_pending_result(bench: Any) -> None:
    bench.tool("t", lambda args: ToolResult.suspended("t", "later"))
    executed = bench.call("t")
    assert executed.result.status is ToolStatus.PENDING
    assert executed.status is bench.status(executed) is ToolCallStatus.SUSPENDED
    assert bench.text("t") == {"status": "pending", "message": "later", "ticket": None}


def test_folders_of_processes_that_were_killed_are_swept(bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import subprocess
    import sys
    import tempfile

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in (f"toolcrib-{ended.pid}-abc", f"toolcrib-{os.getpid()}-abc", "toolcrib-notes-abc", "other"):
        (tmp_path / name).mkdir()
    for name, days in (("toolcrib-kept-new", 6), ("toolcrib-kept-old", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "full.txt").write_text("a result that the user saw")
        os.utime(tmp_path / name, (time.time() - days * 86_400,) * 2)
    own = bench.scope.spill_dir
    left = {path.name for path in tmp_path.iterdir() if path != own}
    assert left == {"other", f"toolcrib-{os.getpid()}-abc", "toolcrib-notes-abc", "toolcrib-kept-new"}
