"""Plugins' synchronous gates in a worker thread: the context of honest gates, their order, and their threads."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Answer, Block, SetResult, Suspend, SuspendTicket, ToolCall, ToolCallContext, ToolResult, hookimpl
from toolcrib.contract.dataclass import replace
from tools.dispatch import gate_threads
from tools.dispatch.bridge import run_async
from tools.dispatch.hooks import APPROVAL

PATHS = ["by hand", "own loop", "session", "in a loop", "turn"]
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


@pytest.fixture(autouse=True)
def generous(bench: Any) -> None:
    """Set a long limit, so that a busy machine does not make gates late."""
    bench.scope.limits = replace(bench.scope.limits, gate_seconds=60)


def result(bench: Any, path: str, name: str = "t") -> ToolResult:
    """Run a call on one of the paths."""
    call = ToolCall(ToolCall.new_id(), name, {})

    async def in_loop() -> Any:
        return bench.dispatcher.call_sync(call, bench.scope)

    if path in ("by hand", "in a loop"):
        bench.scope.ledger = bench.scope.tickets = None
    runs: dict[str, Callable[[], Any]] = {
        "by hand": lambda: bench.dispatcher.call_sync(call, bench.scope),
        "own loop": lambda: bench.dispatcher.call_sync(call, bench.scope),
        "session": lambda: asyncio.run(bench.dispatcher.call(call, bench.scope)),
        "in a loop": lambda: asyncio.run(in_loop()),
        "turn": lambda: bench.turn(call)[0],
    }
    done: ToolResult = runs[path]().result
    return done


@pytest.mark.parametrize("path", PATHS)
def test_a_slow_gate_within_its_limit_is_heard(bench: Any, path: str) -> None:
    bench.tool("t", lambda args: "ran")
    bench.plugin("slow", tool_gate=lambda call: time.sleep(0.3))
    bench.plugin("slower", tool_gate=lambda call: time.sleep(0.3))
    assert result(bench, path).data == "ran"


@pytest.mark.parametrize("path", PATHS)
def test_each_gate_has_the_limit_for_itself(bench: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    class Clock:
        ahead = 0.0

        def monotonic(self) -> float:
            return time.monotonic() + self.ahead

    clock = Clock()
    monkeypatch.setattr(gate_threads, "time", clock)
    bench.scope.limits = replace(bench.scope.limits, gate_seconds=600)
    bench.tool("t", lambda args: "ran")
    for number in range(4):
        bench.plugin(f"slow{number}", tool_gate=lambda call: setattr(clock, "ahead", clock.ahead + 400))
    assert result(bench, path).data == "ran"
    assert clock.ahead == 1600


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("number", range(4))
def test_what_a_gate_decides_counts(bench: Any, number: int, path: str) -> None:
    """002-21"""

    def raises(call: ToolCall) -> None:
        raise OSError("no such server")

    gates: list[tuple[Callable[[ToolCall], Any], str]] = [
        (raises, "the gate 'one' failed (OSError: no such server), so the call is not run"),
        (lambda call: Block("not on prod"), "not on prod"),
        (lambda call: SetResult(ToolResult.success("t", "cached")), "cached"),
        (lambda call: Suspend(SuspendTicket("ask", "may it?")), "may it?"),
    ]
    bench.tool("t", lambda args: pytest.fail("the handler ran"))
    bench.plugin("one", tool_gate=gates[number][0])
    done = result(bench, path)
    assert gates[number][1] in str(done.message or done.data)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "error", [SystemExit(3), StopIteration("x"), GeneratorExit(), asyncio.CancelledError(), RecursionError()]
)
def test_a_gate_that_raises_oddly_is_closed(bench: Any, error: BaseException, path: str) -> None:
    def raises(call: ToolCall) -> None:
        raise error

    bench.tool("t", lambda args: pytest.fail("the handler ran"))
    bench.plugin("odd", tool_gate=raises)
    if isinstance(error, GeneratorExit):
        with pytest.raises(GeneratorExit):
            result(bench, path)
    else:
        assert type(error).__name__ in str(result(bench, path).message)


@pytest.mark.parametrize("path", PATHS)
def test_context_variables_are_copied(bench: Any, path: str) -> None:
    """A gate sees the caller's variables; its own changes reach neither another gate nor the call."""
    seen: list[str] = []

    def gate(call: ToolCall) -> None:
        seen.append(variable.get())
        variable.set("a gate's")

    bench.tool("t", lambda args: variable.get())
    bench.plugin("one", tool_gate=gate)
    bench.plugin("two", tool_gate=gate, pre_tool_call=lambda call: seen.append(variable.get()))
    token = variable.set("the caller's")
    assert result(bench, path).data == "the caller's"
    assert seen == ["the caller's"] * 3
    assert variable.get() == "the caller's"
    variable.reset(token)


@pytest.mark.parametrize("path", PATHS)
def test_gates_are_called_in_order(bench: Any, path: str) -> None:
    order: list[str] = []

    def plugin(name: str, *, tryfirst: bool = False, trylast: bool = False) -> None:
        class Plugin:
            @hookimpl(tryfirst=tryfirst, trylast=trylast)
            def tool_gate(self) -> None:
                order.append(name)

        bench.hooks.register(Plugin(), name)

    bench.hooks.unregister(name=APPROVAL)
    plugin(APPROVAL)
    plugin("plain")
    plugin("second")
    plugin("first")
    plugin("front", tryfirst=True)
    plugin("back", trylast=True)
    bench.hooks.rank(["first", "second"])
    bench.tool("t", lambda args: "ran")
    assert result(bench, path).data == "ran"
    assert order == ["front", "first", "second", "plain", "back", APPROVAL]


@pytest.mark.parametrize("path", PATHS)
def test_of_equal_decisions_the_first_in_order_stands(bench: Any, path: str) -> None:
    """002-22, with an async gate among the others"""

    async def gate(call: ToolCall) -> Any:
        return Block("async")

    bench.tool("t", lambda args: "ran")
    bench.plugin("zero", tool_gate=lambda call: SetResult(ToolResult.success("t", "cached")))
    bench.plugin("async", tool_gate=gate)
    bench.plugin("sync", tool_gate=lambda call: Block("sync"))
    assert result(bench, path).message == "Error executing t: async"


@pytest.mark.parametrize("path", PATHS)
def test_one_thread_calls_all_sync_gates_of_plugins_and_the_callers_the_rest(bench: Any, path: str) -> None:
    threads: dict[str, threading.Thread] = {}

    def noting_thread(name: str) -> Callable[..., None]:
        def hook() -> None:
            threads[name] = threading.current_thread()

        return hook

    async def gate() -> None:
        noting_thread("async")()

    bench.hooks.unregister(name=APPROVAL)
    bench.plugin(APPROVAL, tool_gate=noting_thread("approval"))
    bench.plugin(
        "one", tool_gate=noting_thread("one"), pre_tool_call=noting_thread("before"), post_tool_call=noting_thread("after")
    )
    bench.plugin("two", tool_gate=gate)
    bench.plugin("three", tool_gate=noting_thread("three"), transform_tool_result=noting_thread("transform"))
    bench.tool("t", lambda args: "ran")
    assert result(bench, path).data == "ran"
    assert threads["one"] is threads["three"]
    assert threads["one"].daemon
    inline = {threads[name] for name in ("approval", "before", "after", "transform", "async")}
    assert len(inline) == 1
    assert threads["one"] not in inline


@pytest.mark.parametrize("path", PATHS)
def test_a_sync_gate_may_return_an_awaitable(bench: Any, path: str) -> None:
    async def decide() -> Any:
        await asyncio.sleep(0)
        return Block("after a while")

    bench.tool("t", lambda args: "ran")
    bench.plugin("one", tool_gate=lambda call: decide())
    assert result(bench, path).message == "Error executing t: after a while"


@pytest.mark.parametrize("path", PATHS)
def test_a_gate_may_call_a_tool_itself(bench: Any, path: str) -> None:
    """The inner call's gates run too."""
    bench.tool("t", lambda args: "ran")
    bench.tool("inner", lambda args: "fine")
    asked: list[str] = []

    def gate(call: ToolCall) -> Any:
        asked.append(call.name)
        return None if call.name == "inner" or bench.text("inner") == "fine" else Block("because")

    bench.plugin("one", tool_gate=gate)
    assert result(bench, path).data == "ran"
    assert asked == ["t", "inner"]


@pytest.mark.parametrize("path", PATHS)
def test_a_gate_may_run_async_code_of_its_own(bench: Any, path: str) -> None:
    async def look_up() -> Any:
        await asyncio.sleep(0)
        return Block("looked up")

    bench.tool("t", lambda args: "ran")
    bench.plugin("one", tool_gate=lambda call: run_async(look_up()))
    assert result(bench, path).message == "Error executing t: looked up"


def test_a_gate_that_calls_its_own_tool_again_and_again_is_closed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_threads, "THREADS", 20)
    bench.tool("t", lambda args: pytest.fail("the handler ran"))
    said: list[str] = []

    def gate(call: ToolCall) -> Block:
        said.append(bench.text("t")["error"])
        return Block("because")

    bench.plugin("one", tool_gate=gate)
    assert result(bench, "by hand").message == "Error executing t: because"
    assert "20 threads are calling plugins' gates already" in said[0]


@pytest.mark.parametrize("path", PATHS)
def test_gates_are_asked_again_after_an_answer(bench: Any, path: str) -> None:
    """002-27: the plugin gets the answer first, in a thread too"""
    heard: list[threading.Thread] = []

    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return None if ctx.answer_to("b") else Suspend(SuspendTicket("ask", "may it?", binds="b"))

    bench.tool("t", lambda args: "ran")
    bench.plugin("one", tool_gate=gate, on_answer=lambda answer: heard.append(threading.current_thread()))
    bench.scope.asker = lambda given, ctx: Answer(given.id, payload={"approved": True})
    assert result(bench, path).data == "ran"
    assert heard[0] not in (threading.main_thread(), threading.current_thread())


def test_gates_of_calls_at_once_run_at_once(bench: Any) -> None:
    """No gate passes the barrier before all have reached it."""
    barrier = threading.Barrier(12)
    bench.tool("t", lambda args: "ran")

    def gate(call: ToolCall) -> None:
        barrier.wait(60)

    bench.plugin("one", tool_gate=gate)

    async def main() -> list[Any]:
        calls = [ToolCall(str(number), "t", {}) for number in range(12)]
        return await asyncio.gather(*(bench.dispatcher.call(call, bench.scope) for call in calls))

    assert [one.result.data for one in asyncio.run(main())] == ["ran"] * 12


def test_gates_of_calls_by_hand_from_many_threads(bench: Any) -> None:
    bench.scope.ledger = bench.scope.tickets = None
    bench.tool("t", lambda args: "ran")
    bench.plugin("one", tool_gate=lambda call: Block(call.id))

    def call(number: int) -> bool:
        done = bench.dispatcher.call_sync(ToolCall(str(number), "t", {}), bench.scope)
        return bool(done.result.message == f"Error executing t: {number}")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(400)))


def test_the_calls_of_a_turn_meet_the_gates(bench: Any) -> None:
    bench.tool("t", lambda args: "ran", parallel_safe=True)
    bench.plugin("one", tool_gate=lambda call: Block("odd") if call.args["n"] % 2 else None)
    done = bench.turn(*(("t", {"n": number}) for number in range(6)))
    assert [one.result.message for one in done] == [None, "Error executing t: odd"] * 3


def test_threads_are_used_again(bench: Any) -> None:
    threads: set[threading.Thread] = set()
    bench.tool("t", lambda args: "ran")
    bench.plugin("one", tool_gate=lambda call: threads.add(threading.current_thread()))
    for _ in range(50):
        result(bench, "by hand")
    assert len(threads) <= 2


def test_threads_without_work_end(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_threads, "IDLE", 0.01)
    monkeypatch.setattr(gate_threads, "_of_process", {})
    threads: list[threading.Thread] = []
    bench.tool("t", lambda args: "ran")
    bench.plugin("one", tool_gate=lambda call: threads.append(threading.current_thread()))
    for _ in range(3):
        assert result(bench, "by hand").data == "ran"
        threads[-1].join(60)
        assert not threads[-1].is_alive()


@pytest.mark.parametrize("path", PATHS)
def test_without_gates_of_plugins_no_thread_is_started(bench: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(gate_threads, "_of_process", {})
    bench.tool("t", lambda args: "ran")
    bench.plugin("one", pre_tool_call=lambda call: None, post_tool_call=lambda result: None)
    assert result(bench, path).data == "ran"
    assert gate_threads._of_process == {}


@pytest.mark.parametrize("path", PATHS)
def test_where_the_system_has_no_thread_left_the_call_is_denied(bench: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    start = threading.Thread.start

    def no_thread(thread: threading.Thread) -> None:
        if thread.name == "toolcrib-gate":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(gate_threads, "_of_process", {})
    monkeypatch.setattr("threading.Thread.start", no_thread)
    bench.tool("t", lambda args: pytest.fail("the handler ran"))
    bench.plugin("one", tool_gate=lambda call: None)
    assert "can't start new thread" in str(result(bench, path).message)


def test_a_fork_has_gate_threads_of_its_own(root: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(root)!r})
from tools.dispatch.gate_threads import call_in_worker
from tools.dispatch.hooks import Hook
def asked():
    waiting = call_in_worker([Hook("one", lambda: 5, False, True)], (), 60.0, inline=True)
    try:
        waiting.send(None)
    except StopIteration as stop:
        return stop.value
assert asked() == [5]
pid = os.fork()
if pid == 0:
    os._exit(0 if asked() == [5] else 1)
print(os.waitpid(pid, 0)[1])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "0"
