"""Gates of plugins: one that hangs in any way blocks its own call and delays no other; a slow one decides."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolcrib import Answer, Block, SetResult, Suspend, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from tools.dispatch.batch import run_calls

LIMIT = 0.2
"""Seconds that a gate may take, for tests without a gate that has to answer in time."""
HANG = 30.0
"""Seconds after which a hanging gate answers in any case: much longer than any wait here."""
SHORT_HANG = 3.0
"""Seconds after which a hanging gate answers if it can't be woken."""
YES = {"approved": True}
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="not set")


class Hanging:
    """Functions that hang until ``release``; ``hang`` records when it began and ended."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun = threading.Event()
        self.many = 0
        self.ended = threading.Event()
        self._clean = contextlib.ExitStack()

    def hang(self, how: str = "event") -> None:
        self.many += 1
        self.begun.set()
        watchdog = threading.Timer(HANG, self.release)
        watchdog.start()
        try:
            getattr(self, f"_{how}")()
        finally:
            watchdog.cancel()
            self.ended.set()

    def release(self) -> None:
        self.released.set()
        self._clean.close()

    def _event(self) -> None:
        self.released.wait(HANG)

    def _sleep(self) -> None:
        time.sleep(SHORT_HANG)

    def _naps(self) -> None:
        end = time.monotonic() + HANG
        while time.monotonic() < end and not self.released.is_set():
            time.sleep(0.01)

    def _lock(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        self._clean.callback(lock.release)
        lock.acquire(timeout=HANG)

    def _condition(self) -> None:
        condition = threading.Condition()

        def wake() -> None:
            with condition:
                condition.notify()

        self._clean.callback(wake)
        with condition:
            condition.wait_for(self.released.is_set, HANG)

    def _busy(self) -> None:
        end = time.monotonic() + HANG
        while time.monotonic() < end and not self.released.is_set():
            pass

    def _subprocess(self) -> None:
        process = subprocess.Popen(["sleep", str(HANG)])
        self._clean.callback(process.kill)
        process.wait()

    def _output_of_a_process(self) -> None:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        self._clean.callback(process.stdin.close)
        assert process.stdout is not None
        with process.stdout as out:
            out.read()
        process.wait()

    def _socket(self) -> None:
        near, far = socket.socketpair()
        self._clean.callback(far.close)
        with near:
            near.recv(1)

    def _accept(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            self._clean.callback(lambda: socket.create_connection(address).close())
            server.accept()[0].close()

    def _input(self) -> None:
        reader, writer = os.pipe()
        self._clean.callback(os.close, writer)
        with os.fdopen(reader) as pipe, pytest.MonkeyPatch.context() as patch, contextlib.suppress(EOFError):
            patch.setattr(sys, "stdin", pipe)
            input()

    def _pipe(self) -> None:
        reader, writer = os.pipe()
        self._clean.callback(os.close, writer)
        os.read(reader, 1)
        os.close(reader)

    def _queue(self) -> None:
        waiting: queue.Queue[None] = queue.Queue()
        self._clean.callback(waiting.put, None)
        waiting.get(timeout=HANG)

    def _join(self) -> None:
        thread = threading.Thread(target=self.released.wait, args=(HANG,), daemon=True)
        thread.start()
        thread.join()

    def _recursion(self, depth: int = 0) -> None:
        if depth < 400 and not self.released.is_set():
            time.sleep(0.05)
            self._recursion(depth + 1)

    def _loop_of_its_own(self) -> None:
        asyncio.run(asyncio.wait_for(asyncio.to_thread(self.released.wait, HANG), HANG))

    def _context_manager(self) -> None:
        @contextlib.contextmanager
        def slow_to_close() -> Iterator[None]:
            yield
            self.released.wait(HANG)

        with slow_to_close():
            pass

    def _finally(self) -> None:
        try:
            raise ValueError("and then it hangs")
        except ValueError:
            self.released.wait(HANG)


@pytest.fixture
def hanging(bench: Any) -> Iterator[Hanging]:
    """Functions that hang. The fixture follows the bench, so they are released before the bench is closed."""
    made = Hanging()
    yield made
    made.release()
    if made.begun.is_set():
        assert made.ended.wait(HANG)


@pytest.fixture
def quick(bench: Any) -> Any:
    """A bench with a short limit for gates, and a tool ``t`` that records its runs in ``bench.ran``."""
    bench.scope.limits = dataclasses.replace(bench.scope.limits, gate_seconds=LIMIT)
    return with_tool(bench)


def with_tool(bench: Any) -> Any:
    bench.ran = []
    for name, options in {"t": {}, "look": {"kind": "read", "parallel_safe": True}}.items():
        bench.tool(name, lambda args: bench.ran.append(args.get("n", 0)) or "did it", **options)
    return bench


def in_loop(bench: Any, hanging: Hanging, name: str = "t", args: Any = None) -> Any:
    """Make a call in a loop with a task that ticks. Check that it ticked while the gate hung and the call waited."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += hanging.begun.is_set() and not hanging.ended.is_set()

    async def go() -> Any:
        ticking = asyncio.create_task(tick())
        try:
            return await bench.dispatcher.call(ToolCall(ToolCall.new_id(), name, args or {}), bench.scope)
        finally:
            ticking.cancel()

    executed = asyncio.run(go())
    assert ticks >= 2, "the loop stood still"
    return executed


def by_text(bench: Any, hanging: Hanging) -> Any:
    return bench.call("t")


def assert_blocked(bench: Any, hanging: Hanging, executed: Any) -> None:
    """Check that the call was blocked while its gate still hung, and stays blocked after the gate's answer."""
    assert not hanging.ended.is_set(), "it waited for the gate"
    assert bench.ran == [], "the call ran"
    assert executed.result.is_error, executed.result
    assert executed.status is bench.status(executed) is ToolCallStatus.FAILED
    hanging.release()
    assert hanging.ended.wait(HANG)
    time.sleep(0.05)
    assert bench.ran == [], "the call ran when its gate had answered"
    assert bench.status(executed) is ToolCallStatus.FAILED


HOWS = [name.removeprefix("_") for name, value in vars(Hanging).items() if name[0] == "_" != name[1] and callable(value)]


@pytest.mark.parametrize("how", HOWS)
def test_a_gate_that_hangs_blocks_and_the_loop_goes_on(quick: Any, hanging: Hanging, how: str) -> None:
    quick.plugin("hangs", tool_gate=lambda call: hanging.hang(how))
    assert_blocked(quick, hanging, in_loop(quick, hanging))


@pytest.mark.parametrize("how", ["event", "lock", "busy", "subprocess"])
def test_a_gate_that_hangs_blocks_a_synchronous_call(quick: Any, hanging: Hanging, how: str) -> None:
    quick.plugin("hangs", tool_gate=lambda call: hanging.hang(how))
    assert_blocked(quick, hanging, quick.call("t"))


def test_a_gate_that_hangs_blocks_the_call_of_the_old_interface(quick: Any, hanging: Hanging) -> None:
    quick.plugin("hangs", tool_gate=lambda call: hanging.hang())
    assert "error" in quick.text("t")
    assert not hanging.ended.is_set()
    assert quick.ran == []


def odd_answers(hanging: Hanging) -> dict[str, Any]:
    """Return answers that a gate returns at once, but that hang when they are examined."""

    class ClassHangs:
        @property
        def __class__(self) -> type:  # type: ignore[override]  # what isinstance() asks
            hanging.hang()
            return Block

    class TruthHangs:
        def __bool__(self) -> bool:
            hanging.hang()
            return False

    class EqualHangs:
        __hash__ = None  # type: ignore[assignment]  # there is no hash of it

        def __eq__(self, other: object) -> bool:
            hanging.hang()
            return other is None

    return {"class": ClassHangs(), "truth": TruthHangs(), "equal": EqualHangs()}


@pytest.mark.parametrize("which", ["class", "truth", "equal"])
def test_an_answer_that_hangs_when_it_is_looked_at_blocks(quick: Any, hanging: Hanging, which: str) -> None:
    """An answer that is not examined is invalid, which blocks the call too."""
    quick.plugin("odd", tool_gate=lambda call: odd_answers(hanging)[which])
    executed = asyncio.run(quick.dispatcher.call(ToolCall("c", "t", {}), quick.scope))
    assert not hanging.ended.is_set(), "it waited for the answer's own code"
    assert executed.result.is_error
    assert quick.ran == []


LATE = {
    "allow": lambda: None,
    "result": lambda: SetResult(ToolResult.success("t", "made up")),
    "suspend": lambda: Suspend(SuspendTicket("ask", "may it?", binds="b")),
    "nonsense": lambda: True,
    "error": lambda: 1 / 0,
}


@pytest.mark.parametrize("late", list(LATE))
def test_a_late_answer_is_none(quick: Any, hanging: Hanging, late: str) -> None:
    def gate(call: ToolCall) -> Any:
        hanging.hang()
        return LATE[late]()

    quick.scope.suspends = late == "suspend"
    quick.plugin("late", tool_gate=gate)
    executed = in_loop(quick, hanging)
    assert "made up" not in executed.result.to_json_text()
    assert_blocked(quick, hanging, executed)


@pytest.mark.parametrize("honest", [None, SetResult(ToolResult.success("t", "cached"))], ids=["allow", "result"])
@pytest.mark.parametrize("order", ["hanging-first", "hanging-last"])
def test_an_honest_gate_beside_it_opens_nothing(quick: Any, hanging: Hanging, honest: Any, order: str) -> None:
    gates: list[tuple[str, Any]] = [("hangs", lambda call: hanging.hang()), ("honest", lambda call: honest)]
    for name, gate in gates if order == "hanging-first" else reversed(gates):
        quick.plugin(name, tool_gate=gate)
    executed = in_loop(quick, hanging)
    assert "cached" not in executed.result.to_json_text()
    assert_blocked(quick, hanging, executed)


@pytest.mark.parametrize("at", [2, 3])
def test_a_gate_that_hangs_on_a_later_call_blocks_that(bench: Any, hanging: Hanging, at: int) -> None:
    calls: list[ToolCall] = []

    def gate(call: ToolCall) -> None:
        calls.append(call)
        if len(calls) == at:
            hanging.hang()

    with_tool(bench).plugin("sometimes", tool_gate=gate)
    for number in range(1, at):
        assert bench.call("t", {"n": number}).result.is_success
    executed = in_loop(bench, hanging, args={"n": at})
    assert executed.result.is_error
    assert not hanging.ended.is_set()
    assert bench.ran == list(range(1, at))


def test_a_gate_that_hangs_once_an_answer_came_blocks(quick: Any, hanging: Hanging) -> None:
    def gate(call: ToolCall, ctx: Any) -> Any:
        return hanging.hang() if ctx.answer_to("b") else Suspend(SuspendTicket("ask", "may it?", binds="b"))

    quick.scope.limits = dataclasses.replace(quick.scope.limits, gate_seconds=1.5)
    quick.scope.asker = lambda ticket, ctx: Answer(ticket.id, payload={"approved": True}, by="ann")
    quick.plugin("hangs", tool_gate=gate)
    assert_blocked(quick, hanging, in_loop(quick, hanging))


def test_a_gate_that_hangs_for_one_of_several_calls_blocks_that_one(bench: Any, hanging: Hanging) -> None:
    with_tool(bench).plugin("hangs", tool_gate=lambda call: hanging.hang() if call.args["n"] == 1 else None)
    calls = [ToolCall(f"c{number}", "look", {"n": number}) for number in range(4)]
    done = asyncio.run(run_calls(bench.dispatcher, calls, bench.scope))
    assert [one.result.is_success for one in done] == [True, False, True, True]
    assert not hanging.ended.is_set()
    assert sorted(bench.ran) == [0, 2, 3]


def test_other_calls_are_made_while_one_s_gate_hangs(bench: Any, hanging: Hanging) -> None:
    bench.scope.limits = dataclasses.replace(bench.scope.limits, gate_seconds=HANG / 3)
    with_tool(bench).plugin("hangs", tool_gate=lambda call: hanging.hang() if call.args["n"] == 1 else None)

    async def go() -> tuple[Any, Any]:
        first = asyncio.create_task(bench.dispatcher.call(ToolCall("c1", "t", {"n": 1}), bench.scope))
        while not hanging.begun.is_set():
            await asyncio.sleep(0.01)
        assert not hanging.ended.is_set(), "the loop stood still"
        other = await bench.dispatcher.call(ToolCall("c2", "t", {"n": 2}), bench.scope)
        was_waiting = not first.done()
        hanging.release()
        return other, (await first, was_waiting)

    other, (first, was_waiting) = asyncio.run(go())
    assert other.result.is_success
    assert was_waiting
    assert first.result.is_success, "it answered in time after all"


def test_a_call_whose_gate_hangs_can_be_cancelled(bench: Any, hanging: Hanging) -> None:
    bench.scope.limits = dataclasses.replace(bench.scope.limits, gate_seconds=HANG)
    with_tool(bench).plugin("hangs", tool_gate=lambda call: hanging.hang())

    async def go() -> None:
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "t", {}), bench.scope))
        while not hanging.begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert not hanging.ended.is_set(), "it waited for the gate"
    hanging.release()
    assert hanging.ended.wait(HANG)
    assert bench.ran == []


def test_after_three_late_answers_calls_are_denied_at_once(quick: Any, hanging: Hanging) -> None:
    quick.plugin("hangs", tool_gate=lambda call: hanging.hang())
    for _ in range(6):
        assert quick.call("t").result.is_error
    assert not hanging.ended.is_set()
    assert hanging.many == 3, "it was asked again"
    hanging.release()
    assert hanging.ended.wait(HANG)
    executed = quick.call("t")
    assert executed.result.is_error, "a plugin that was cut off stays cut off"
    assert "hangs" in executed.result.message, "a person must learn which plugin it is"
    assert hanging.many == 3
    assert quick.ran == []


def test_the_others_of_one_that_was_cut_off_are_asked_no_less(quick: Any, hanging: Hanging) -> None:
    """Calls stay denied even if the other gates allow them or set a result."""
    quick.plugin("hangs", tool_gate=lambda call: hanging.hang())
    for _ in range(3):
        quick.call("t")
    quick.plugin("allows", tool_gate=lambda call: None)
    assert quick.call("t").result.is_error
    quick.plugin("sets", tool_gate=lambda call: SetResult(ToolResult.success("t", "made up")))
    assert quick.call("t").result.is_error
    assert quick.ran == []


def test_honest_answers_between_late_ones_lift_no_bar(bench: Any, hanging: Hanging) -> None:
    """A gate that hangs now and then blocks the call each time."""
    with_tool(bench)
    bench.scope.limits = dataclasses.replace(bench.scope.limits, gate_seconds=0.5)
    bench.plugin("sometimes", tool_gate=lambda call: hanging.hang() if call.args["n"] % 2 else None)
    late = [bench.call("t", {"n": number}).result.is_error for number in range(1, 6)]
    assert [late[0], late[2], late[4]] == [True, True, True]
    assert not hanging.ended.is_set()
    assert all(number % 2 == 0 for number in bench.ran)


PROGRAM = """
import asyncio, sys, time
from toolcrib import RunIdentity, ToolCall, ToolRegistry, hookimpl
from toolcrib.testing import FakeEnvironment
from tools.dispatch.bridge import close_loop
from tools.dispatch.hooks import APPROVAL, new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope, Limits

class Allows:
    @hookimpl
    def tool_gate(self):
        return None

class Hangs:
    @hookimpl
    def tool_gate(self, call):
        time.sleep(HANG)

registry, hooks = ToolRegistry(), new_manager()
hooks.register(Allows(), APPROVAL)
hooks.register(Hangs(), "hangs")
registry.register("t", "t", {"description": "A tool.", "parameters": {"type": "object"}}, lambda args: print("it ran"))
scope = CallScope(identity=RunIdentity("s"), open_environment=FakeEnvironment, limits=Limits(gate_seconds=0.2))
dispatcher = Dispatcher(registry, hooks)
for number in range(2):
    call = ToolCall(f"c{number}", "t", {})
    done = dispatcher.call_sync(call, scope) if "sync" in sys.argv else asyncio.run(dispatcher.call(call, scope))
    print("blocked" if done.result.is_error else done.result, flush=True)
if "sync" in sys.argv:
    close_loop()
"""


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_process_ends_while_a_gate_of_it_hangs(root: Any, python: str, way: str) -> None:
    program = PROGRAM.replace("HANG", str(HANG * 3))
    done = subprocess.run(
        [python, "-c", program, way],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG * 2,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["blocked", "blocked"]), done.stderr


async def test_an_async_gate_that_blocks_the_loop_is_late_all_the_same(quick: Any) -> None:
    """The gate never awaits, so no time limit of the loop can end it."""

    async def gate(call: ToolCall) -> None:
        time.sleep(2 * LIMIT)

    quick.plugin("blocks", tool_gate=gate)
    executed = await quick.dispatcher.call(ToolCall("c", "t", {}), quick.scope)
    assert executed.result.is_error
    assert quick.ran == []


# -- honest gates ------------------------------------------------------------------------------------------------------


@pytest.fixture
def honest(bench: Any) -> Any:
    """A bench whose gates have as long as a busy machine may need."""
    bench.scope.limits = dataclasses.replace(bench.scope.limits, gate_seconds=60)
    return with_tool(bench)


def slowly(answer: Callable[[], Any]) -> Callable[..., Any]:
    def gate(call: ToolCall) -> Any:
        time.sleep(0.2)
        return answer()

    return gate


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("answer", ["allow", "block", "result", "suspend"])
def test_a_slow_gate_decides(honest: Any, answer: str, is_sync: bool) -> None:
    answers: dict[str, Any] = {**LATE, "block": lambda: Block("because")}
    honest.scope.suspends = True
    honest.plugin("slow", tool_gate=slowly(answers[answer]))
    call = ToolCall("c", "t", {"n": 1})
    executed = (
        honest.dispatcher.call_sync(call, honest.scope) if is_sync else asyncio.run(honest.dispatcher.call(call, honest.scope))
    )
    status = {"block": ToolCallStatus.FAILED, "suspend": ToolCallStatus.SUSPENDED}.get(answer, ToolCallStatus.SUCCEEDED)
    assert executed.status is status
    assert honest.ran == ([1] if answer == "allow" else [])


def test_a_slow_gate_that_raises_denies(honest: Any) -> None:
    honest.plugin("slow", tool_gate=slowly(lambda: 1 / 0))
    assert "'slow' failed (ZeroDivisionError: division by zero)" in honest.text("t")["error"]


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("x"), KeyError("k"), RecursionError("deep"), StopIteration("x")])
def test_a_gate_that_raises_denies(honest: Any, error: Exception) -> None:
    def gate(call: ToolCall) -> None:
        raise error

    honest.plugin("raises", tool_gate=gate)
    assert honest.call("t").result.is_error
    assert honest.ran == []


def test_slow_answers_within_the_limit_cut_nobody_off(honest: Any) -> None:
    honest.plugin("slow", tool_gate=slowly(lambda: None))
    assert [honest.call("t", {"n": number}).result.is_error for number in range(5)] == [False] * 5
    assert honest.ran == list(range(5))


def test_blocking_often_cuts_nobody_off(honest: Any) -> None:
    honest.plugin("strict", tool_gate=lambda call: Block("because") if call.args["n"] < 5 else None)
    assert [honest.call("t", {"n": number}).result.is_error for number in range(7)] == [True] * 5 + [False] * 2


def test_raising_often_cuts_nobody_off(honest: Any) -> None:
    honest.plugin("broken", tool_gate=lambda call: 1 / max(0, call.args["n"] - 4) and None)
    assert [honest.call("t", {"n": number}).result.is_error for number in range(7)] == [True] * 5 + [False] * 2


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
def test_a_gate_sees_the_caller_s_context_variables(honest: Any, is_sync: bool) -> None:
    seen: list[str] = []
    honest.plugin("sees", tool_gate=lambda call: seen.append(VARIABLE.get()))
    call = ToolCall("c", "t", {})

    async def go() -> None:
        VARIABLE.set("the caller's")
        await honest.dispatcher.call(call, honest.scope)

    if is_sync:
        copied = contextvars.copy_context()
        copied.run(VARIABLE.set, "the caller's")
        copied.run(honest.dispatcher.call_sync, call, honest.scope)
    else:
        asyncio.run(go())
    assert seen == ["the caller's"]


def test_gates_are_asked_in_the_order_in_which_they_came(honest: Any) -> None:
    asked: list[str] = []
    for name in ("one", "two", "three"):
        honest.plugin(name, tool_gate=lambda call, name=name: asked.append(name))
    honest.call("t")
    assert asked == ["one", "two", "three"]


def test_sync_and_async_gates_stand_side_by_side(honest: Any) -> None:
    asked: list[str] = []

    async def later(call: ToolCall) -> None:
        await asyncio.sleep(0.05)
        asked.append("async")

    honest.plugin("sync", tool_gate=lambda call: asked.append("sync"))
    honest.plugin("async", tool_gate=later)
    assert honest.call("t").result.is_success
    assert sorted(asked) == ["async", "sync"]


def test_a_gate_sees_call_entry_and_context(honest: Any) -> None:
    seen: list[Any] = []
    honest.plugin("sees", tool_gate=lambda call, entry, ctx: seen.append((call.name, entry.name, ctx.call_id == call.id)))
    honest.call("t")
    assert seen == [("t", "t", True)]


def test_a_gate_that_uses_locks_and_queues_with_another_thread(honest: Any) -> None:
    questions: queue.Queue[Any] = queue.Queue()

    def desk() -> None:
        while (answer := questions.get()) is not None:
            answer.put(None)

    def gate(call: ToolCall) -> Any:
        answer: queue.Queue[None] = queue.Queue()
        questions.put(answer)
        return answer.get(timeout=HANG)

    thread = threading.Thread(target=desk)
    thread.start()
    honest.plugin("asks", tool_gate=gate)
    assert honest.call("t", {"n": 1}).result.is_success
    questions.put(None)
    thread.join()


def test_a_gate_that_asks_the_caller_s_loop_from_its_thread(honest: Any) -> None:
    """The gate runs in another thread, and passes a callback to the loop of the caller."""
    told: list[int] = []

    async def go() -> Any:
        loop = asyncio.get_running_loop()

        def gate(call: ToolCall) -> None:
            loop.call_soon_threadsafe(told.append, 1)

        honest.plugin("tells", tool_gate=gate)
        return await honest.dispatcher.call(ToolCall("c", "t", {}), honest.scope)

    assert asyncio.run(go()).result.is_success
    assert told == [1]


def test_a_gate_that_runs_a_process(honest: Any) -> None:
    def gate(call: ToolCall) -> Any:
        return None if subprocess.run(["true"], check=False).returncode == 0 else Block("no")

    honest.plugin("runs", tool_gate=gate)
    assert honest.call("t").result.is_success


def test_a_gate_with_a_loop_of_its_own(honest: Any) -> None:
    """A gate can run its own loop in a thread."""
    found: list[Any] = []

    def gate(call: ToolCall) -> Any:
        thread = threading.Thread(target=lambda: found.append(asyncio.run(asyncio.sleep(0, "asked"))))
        thread.start()
        thread.join()

    honest.plugin("loops", tool_gate=gate)
    assert honest.call("t").result.is_success
    assert found == ["asked"]


@pytest.mark.parametrize("name", ["t", "look"])
def test_fifty_calls_at_once_are_all_gated(honest: Any, name: str) -> None:
    asked: list[int] = []

    def gate(call: ToolCall) -> Any:
        asked.append(call.args["n"])
        time.sleep(0.01)
        return Block("odd") if call.args["n"] % 2 else None

    honest.plugin("counts", tool_gate=gate)
    calls = [ToolCall(f"c{number}", name, {"n": number}) for number in range(50)]

    async def go() -> list[Any]:
        return list(await asyncio.gather(*[honest.dispatcher.call(call, honest.scope) for call in calls]))

    done = asyncio.run(go())
    assert sorted(asked) == list(range(50))
    assert [one.result.is_success for one in done] == [number % 2 == 0 for number in range(50)]
    assert sorted(honest.ran) == list(range(0, 50, 2))


def test_a_turn_of_fifty_calls_keeps_their_order(honest: Any) -> None:
    asked: list[int] = []
    honest.plugin("counts", tool_gate=lambda call: asked.append(call.args["n"]))
    done = honest.turn(*[("t", {"n": number}) for number in range(50)])
    assert asked == honest.ran == list(range(50))
    assert all(one.result.is_success for one in done)


def test_a_gate_that_suspends_takes_the_answer(honest: Any) -> None:
    asked: list[str] = []

    def gate(call: ToolCall, ctx: Any) -> Any:
        time.sleep(0.1)
        return None if ctx.answer_to("b") else Suspend(SuspendTicket("ask", "may it?", binds="b"))

    honest.scope.asker = lambda ticket, ctx: (
        asked.append(ticket.message) or Answer(ticket.id, payload={"approved": True}, by="me")
    )
    honest.plugin("asks", tool_gate=gate)
    assert honest.call("t", {"n": 1}).result.is_success
    assert asked == ["may it?"]


def test_a_gate_reads_state_and_cwd_of_the_call(honest: Any) -> None:
    seen: list[Any] = []
    honest.plugin("looks", tool_gate=lambda call, ctx: seen.append((ctx.tool_name, list(ctx.effects), ctx.environment.cwd)))
    assert honest.call("t").result.is_success
    assert seen[0][:2] == ("t", [])


def test_an_observer_still_sees_what_was_blocked(honest: Any) -> None:
    seen: list[str] = []
    honest.plugin("blocks", tool_gate=lambda call: Block("because"))
    honest.plugin("watches", post_tool_call=lambda call, result: seen.append(result.message))
    honest.call("t")
    assert len(seen) == 1
    assert re.search("because", seen[0])
