"""Plugins' synchronous gates that hang: the call is denied on every path, and no other work waits for them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Answer, Block, SetResult, Suspend, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.dataclass import replace
from tools.dispatch import gate_threads
from tools.dispatch.threads import in_own_thread
from tools.time_limit import seconds_left

LATE = "the plugin 'stuck' did not answer within 0.2 s, so the call is denied"
OVERDUE = LATE.replace("0.2", "60")
CUT_OFF = "the plugin 'stuck' is cut off, so the call is denied: it did not answer 3 earlier calls in time. Restart toolcrib"
PATHS = ["by hand", "own loop", "session", "in a loop", "turn"]


@dataclass
class Hang:
    """Ways to hang until ``release`` is set; the test's end sets it."""

    tmp_path: Path
    release: threading.Event = field(default_factory=threading.Event)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    returned: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ending: ExitStack = field(default_factory=ExitStack)

    def event(self) -> None:
        self.release.wait(60)

    def sleep(self) -> None:
        while not self.release.is_set():
            time.sleep(0.01)

    def spin(self) -> None:
        while not self.release.is_set():
            pass

    def lock(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        self.ending.callback(lock.release)
        lock.acquire()

    def join(self) -> None:
        thread = threading.Thread(target=self.release.wait, args=(60,))
        thread.start()
        thread.join()

    def queue(self) -> None:
        waiting: queue.Queue[None] = queue.Queue()
        self.ending.callback(waiting.put, None)
        waiting.get()

    def socket(self) -> None:
        ours, theirs = socket.socketpair()
        self.ending.callback(theirs.close)
        with ours:
            ours.recv(1)

    def connection(self) -> None:
        """A server that accepts and never answers."""
        server = socket.create_server(("127.0.0.1", 0))
        self.ending.callback(server.close)
        with socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            self.ending.callback(accepted.close)
            client.recv(1)

    def pipe(self) -> None:
        reading, writing = os.pipe()
        self.ending.callback(os.close, writing)
        os.read(reading, 1)
        os.close(reading)

    def select(self) -> None:
        ours, theirs = socket.socketpair()
        self.ending.callback(theirs.close)
        with ours:
            select.select([ours], [], [])

    def subprocess(self) -> None:
        with subprocess.Popen(["sleep", "60"]) as started:
            self.ending.callback(started.kill)
            started.wait()

    def file_lock(self) -> None:
        file = self.tmp_path / "lock"
        holder = file.open("w")
        fcntl.flock(holder, fcntl.LOCK_EX)
        self.ending.callback(holder.close)
        with file.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX)

    def imports(self) -> None:
        """A module that waits as it is imported."""
        (self.tmp_path / "slow_to_import.py").write_text("import sys\nsys.hanging()\n")
        vars(sys)["hanging"] = self.event
        sys.path.insert(0, str(self.tmp_path))
        __import__("slow_to_import")
        sys.path.remove(str(self.tmp_path))
        del sys.modules["slow_to_import"]

    def own_loop(self) -> None:
        async def wait() -> None:
            while not self.release.is_set():
                await asyncio.sleep(0.01)

        asyncio.run(wait())

    def retry(self) -> None:
        """Catch every error, and try again."""
        while not self.release.is_set():
            try:
                raise TimeoutError
            except TimeoutError:
                time.sleep(0.001)


WAYS = [name for name, member in vars(Hang).items() if callable(member) and not name.startswith("_")]


@pytest.fixture
def hang(tmp_path: Path) -> Iterator[Hang]:
    hang = Hang(tmp_path)
    yield hang
    hang.release.set()
    hang.ending.close()
    until(lambda: hang.asked._value == hang.returned._value)


def until(done: Callable[[], object]) -> None:
    """Wait as long as a busy machine may take."""
    end = time.monotonic() + 60
    while not done() and time.monotonic() < end:
        time.sleep(0.005)
    assert done()


class Clock:
    """The clock of the gates, which a test advances. Gates that must be in time get as long as they need."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        monkeypatch.setattr(gate_threads, "time", self)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def gate_of(
    hang: Hang, way: str = "event", decision: object = None, *, only: str = "", clock: Clock | None = None
) -> Callable[[ToolCall], object]:
    """Return a gate that hangs, only for the tool ``only`` if it is given, and decides after its release.

    It advances ``clock`` beyond its limit.
    """

    def gate(call: ToolCall) -> object:
        if only and call.name != only:
            return None
        hang.asked.release()
        if clock is not None:
            clock.advance(61)
        try:
            getattr(hang, way)()
            return decision
        finally:
            hang.returned.release()

    return gate


def limit(bench: Any, seconds: float) -> None:
    bench.scope.limits = replace(bench.scope.limits, gate_seconds=seconds)


def text(bench: Any, path: str, name: str = "t") -> str:
    """Run a call on one of the paths. Return its message or data."""
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
    result = runs[path]().result
    return str(result.message or result.data)


@pytest.fixture
def ran(bench: Any) -> list[str]:
    """Register the tools t and u; the list has the names of the tools that ran."""
    names: list[str] = []
    for name in ("t", "u"):
        bench.tool(name, lambda args, name=name: names.append(name) or "ran", parallel_safe=True)
    return names


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("way", WAYS)
def test_a_gate_that_hangs_denies(bench: Any, hang: Hang, ran: list[str], way: str, path: str) -> None:
    """A late gate denies the call even if it then allows it."""
    bench.plugin("stuck", tool_gate=gate_of(hang, way))
    limit(bench, 0.2)
    assert LATE in text(bench, path)
    hang.release.set()
    hang.ending.close()
    until(lambda: hang.returned._value == hang.asked._value)
    assert ran == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("decision", [None, SetResult(ToolResult.success("t", "cached")), Suspend(SuspendTicket("a", "?"))])
def test_a_late_decision_is_dropped(bench: Any, hang: Hang, ran: list[str], decision: Any, path: str) -> None:
    def late(call: ToolCall) -> object:
        time.sleep(0.4)
        return decision

    bench.plugin("stuck", tool_gate=late)
    limit(bench, 0.2)
    assert LATE in text(bench, path)
    assert ran == []


def test_an_answer_that_comes_late_is_late_also_if_its_caller_could_not_look(bench: Any, ran: list[str], clock: Clock) -> None:
    """For example, a regular expression may hold Python's lock for a minute."""
    bench.plugin("stuck", tool_gate=lambda call: clock.advance(60))
    assert "did not answer within 1.5 s" in text(bench, "by hand")
    assert ran == []


@pytest.mark.parametrize("path", PATHS)
def test_the_second_of_two_hangs(bench: Any, hang: Hang, ran: list[str], clock: Clock, path: str) -> None:
    bench.plugin("quick", tool_gate=lambda call: SetResult(ToolResult.success("t", "cached")))
    bench.plugin("stuck", tool_gate=gate_of(hang, clock=clock))
    limit(bench, 60)
    assert OVERDUE in text(bench, path)
    assert ran == []


@pytest.mark.parametrize("path", PATHS)
def test_gates_behind_one_that_hangs_are_asked_all_the_same(
    bench: Any, hang: Hang, ran: list[str], clock: Clock, path: str
) -> None:
    heard: list[str] = []
    bench.plugin("stuck", tool_gate=gate_of(hang, clock=clock))
    bench.plugin("behind", tool_gate=lambda call: heard.append(call.name))
    bench.plugin("also stuck", tool_gate=gate_of(hang, clock=clock))
    limit(bench, 60)
    assert OVERDUE in text(bench, path)
    assert (heard, ran) == (["t"], [])


@pytest.mark.parametrize("path", PATHS)
def test_one_that_hangs_for_some_tools_denies_those(bench: Any, hang: Hang, ran: list[str], path: str) -> None:
    bench.plugin("stuck", tool_gate=gate_of(hang, only="t"))
    limit(bench, 0.2)
    assert LATE in text(bench, path)
    limit(bench, 60)
    assert text(bench, path, "u") == "ran"
    assert ran == ["u"]


@pytest.mark.parametrize("path", PATHS)
def test_three_that_hang_cut_the_plugin_off(bench: Any, hang: Hang, ran: list[str], clock: Clock, path: str) -> None:
    bench.plugin("stuck", tool_gate=gate_of(hang, clock=clock))
    limit(bench, 60)
    for _ in range(3):
        assert OVERDUE in text(bench, path)
    for name in ("t", "u"):
        said = text(bench, path, name)
        assert CUT_OFF in said
        assert "`toolcrib plugins disable stuck`" in said
    assert hang.asked._value == 3
    assert ran == []
    hang.release.set()
    until(lambda: hang.returned._value == 3)
    limit(bench, 600)
    assert CUT_OFF in text(bench, path)
    assert ran == []


def test_a_plugin_that_is_cut_off_denies_no_call_of_others(bench: Any, hang: Hang, ran: list[str], clock: Clock) -> None:
    bench.plugin("stuck", tool_gate=gate_of(hang, clock=clock))
    limit(bench, 60)
    for _ in range(3):
        assert OVERDUE in text(bench, "own loop")
    assert CUT_OFF in text(bench, "own loop")
    bench.hooks.unregister(bench.hooks.get_plugin("stuck"))
    bench.plugin("other", tool_gate=lambda call: None)
    assert text(bench, "own loop") == "ran"
    bench.plugin("stuck", tool_gate=lambda call: None)  # another plugin with the same name
    assert text(bench, "own loop") == "ran"


def test_a_hook_on_answer_that_hangs_denies(bench: Any, hang: Hang, ran: list[str], clock: Clock) -> None:
    ticket = SuspendTicket("ask", "may it?", binds="b")
    bench.plugin(
        "stuck",
        tool_gate=lambda call, ctx: None if ctx.answers else Suspend(ticket),
        on_answer=lambda answer: gate_of(hang, clock=clock)(ToolCall("c", "t", {})),
    )
    bench.scope.asker = lambda given, ctx: Answer(given.id, payload={"approved": True})
    limit(bench, 60)
    assert "'stuck' failed to handle the answer" in text(bench, "own loop")
    assert ran == []


def test_an_async_gate_that_blocks_the_loop_denies(bench: Any, ran: list[str]) -> None:
    async def gate(call: ToolCall) -> None:
        time.sleep(0.4)

    bench.plugin("stuck", tool_gate=gate)
    limit(bench, 0.2)
    assert LATE in text(bench, "session")
    assert ran == []


@pytest.mark.parametrize("path", ["by hand", "own loop", "session", "turn"])
def test_ctrl_c_returns_while_a_gate_hangs(bench: Any, hang: Hang, ran: list[str], path: str) -> None:
    def interrupted(call: ToolCall) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        gate_of(hang)(call)

    bench.plugin("stuck", tool_gate=interrupted)
    limit(bench, 60)
    with pytest.raises(KeyboardInterrupt):
        text(bench, path)
    assert hang.returned._value == 0
    assert ran == []


def test_a_cancelled_call_does_not_wait_for_its_gate(bench: Any, hang: Hang, ran: list[str]) -> None:
    """The test cancels more calls than a plugin may be late, because a cancelled call is not overdue."""
    bench.plugin("stuck", tool_gate=gate_of(hang, only="t"))
    limit(bench, 60)

    async def main() -> None:
        for number in range(4):
            task = asyncio.create_task(bench.dispatcher.call(ToolCall(str(number), "t", {}), bench.scope))
            assert await in_own_thread(hang.asked.acquire, True, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        other = await bench.dispatcher.call(ToolCall("other", "u", {}), bench.scope)
        assert other.result.data == "ran"

    asyncio.run(main())
    assert hang.returned._value == 0
    for _ in range(4):
        hang.asked.release()
    assert ran == ["u"]


def test_an_interrupt_of_the_session_ends_the_call(bench: Any, hang: Hang, ran: list[str]) -> None:
    bench.plugin("stuck", tool_gate=gate_of(hang))
    limit(bench, 60)

    async def main() -> Any:
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "t", {}), bench.scope))
        assert await in_own_thread(hang.asked.acquire, True, 60)
        hang.asked.release()
        bench.scope.interrupt()
        return await task

    assert asyncio.run(main()).status is ToolCallStatus.CANCELLED
    assert hang.returned._value == 0
    assert ran == []


def test_other_calls_run_while_a_gate_hangs(bench: Any, hang: Hang, ran: list[str]) -> None:
    """002-21: the gate returns only after another call of the session ran."""
    bench.plugin("stuck", tool_gate=gate_of(hang, decision=Block("because"), only="t"))
    limit(bench, 60)

    async def main() -> Any:
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "t", {}), bench.scope))
        assert await in_own_thread(hang.asked.acquire, True, 60)
        hang.asked.release()
        assert (await bench.dispatcher.call(ToolCall("d", "u", {}), bench.scope)).result.data == "ran"
        hang.release.set()
        return (await task).result.message

    assert asyncio.run(main()) == "Error executing t: because"


EXITS = """
import sys
sys.path.insert(0, {root!r})
import threading, time
from toolcrib import RunIdentity, ToolCall, ToolRegistry, hookimpl
from toolcrib.testing import FakeEnvironment
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope, Limits
class Stuck:
    @hookimpl
    def tool_gate(self, call):
        {hangs}
registry, hooks = ToolRegistry(), new_manager()
schema = {{"description": "A tool.", "parameters": {{"type": "object"}}}}
registry.register("t", "t", schema, lambda args: print("ran"), kind="read")
hooks.register(Stuck(), "stuck")
scope = CallScope(identity=RunIdentity("s"), open_environment=FakeEnvironment, limits=Limits(gate_seconds=0.2))
for n in range(4):
    print(Dispatcher(registry, hooks).call_sync(ToolCall(str(n), "t", {{}}), scope).result.message)
"""


@pytest.mark.parametrize("hangs", ["time.sleep(1000)", "threading.Event().wait()", "while True: pass"])
def test_the_process_ends_while_gates_hang(root: Path, hangs: str) -> None:
    code = EXITS.format(root=str(root), hangs=hangs)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert [LATE in line or CUT_OFF in line for line in done.stdout.splitlines()] == [True] * 4


def test_effects_that_are_not_known_in_time_end_the_call(bench: Any) -> None:
    """003-21: the result says why. A wait inside has less time than the call, and can report first."""
    left: list[float] = []

    async def hang(args: Any, ctx: Any) -> Any:
        left.append(seconds_left(60.0))
        await asyncio.sleep(60)

    bench.tool("t", lambda args: 1, effects=hang)
    executed = bench.call("t")
    assert "the call was not run: its checks took more than 1.5 s; call again" in executed.result.failure.text
    assert 0 < left[0] < 1.5
