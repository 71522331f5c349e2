"""Background processes: how long it takes to start, poll and find them again on each backend, and what watching them costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.store.sqlite import SqliteStore
from benchmarks import _places
from benchmarks._places import Place
from benchmarks._process_child import end_all
from benchmarks.core import CannotMeasureError, Figure
from toolcrib import ExecRequest, RunIdentity, ToolCall, hookimpl, registry
from toolcrib.contract.store import Fence, Store
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.processes.table import ProcessTable

_CHILD = Path(__file__).with_name("_process_child.py")
_START, _POLL, _IDLE, _FIND = 1.0, 5.0, 1.0, 500.0
_GIB = 1 << 30
_ROOM: Mapping[str, dict[str, Any]] = {"docker": {"tmpfs": "1200m", "memory": "3g"}}
"""Options that make /tmp of a container large enough for a log of 1 GiB."""
_KEPT: Mapping[str, dict[str, Any]] = {
    "docker": {"keep": "reuse", "session": "bench", "pids": 4096},
    "bubblewrap": {"session": "bench", "records": "records"},
}
"""Options that keep an environment after toolcrib was killed, and let a container run many processes."""


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms, and the cost of watching in percent of one core."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="toolcrib-processes-") as made, contextlib.ExitStack() as stack:
        cwd = Path(made).resolve() / "work"
        cwd.mkdir()
        places = [_places.local(), _places.bubblewrap()]
        places += [stack.enter_context(_places.docker(cwd)), stack.enter_context(_places.ssh())]
        for place in places:
            figures.append(asyncio.run(_start(place, cwd, 3 if quick else 100)))
            figures.append(_poll(place, cwd, 1 << 20 if quick else _GIB, 3 if quick else 100))
            figures.append(_find(place, cwd, 5 if quick else 100, 1 if quick else 5))
        figures.append(asyncio.run(_idle(cwd, 5 if quick else 200, 2.0 if quick else 20.0)))
    return figures


# -- start -----------------------------------------------------------------------------------------------------------


async def _start(place: Place, cwd: Path, rounds: int) -> Figure:
    """Time a start in a warm session, a foreground command there, and a durable append, in turns."""
    environment = place.open(cwd)
    took: dict[str, list[float]] = {"start": [], "foreground": [], "append": []}
    table = ProcessTable(environment, "bench")
    try:
        with contextlib.closing(SqliteStore(cwd / f"{place.name}.db")) as store:
            append = await _appends(store)
            for number in range(rounds + 2):
                times = {
                    "foreground": await _ms(environment.execute(ExecRequest("/bin/true", timeout=60))),
                    "append": await _ms(append()),
                    "start": await _ms(table.start(f"p{number}", "/bin/true", environment.cwd)),
                }
                while (await table.one(f"p{number}")).writes:  # it would disturb the next round
                    await asyncio.sleep(0.01)
                await table.remove(f"p{number}")
                if number >= 2:  # the first start the shells that stay
                    for name, time_taken in times.items():
                        took[name].append(time_taken)
    finally:
        await table.close()
        await environment.close()
    middle = {name: statistics.median(times) for name, times in took.items()}
    against = f"3 times /bin/true in the foreground ({middle['foreground']:.2f} ms) and a durable append ({middle['append']:.2f})"
    allowed = 3 * middle["foreground"] + middle["append"]
    return Figure(f"process.start_{place.name}", middle["start"], "ms", allowed, _START, "ratio", against)


async def _appends(store: Store) -> Callable[[], Any]:
    await store.sessions.create("s", platform="cli", user="")
    mine = store.fenced(Fence(await store.leases.take("s", "benchmark", 3600.0)))
    return lambda: mine.sessions.append("s", {"role": "assistant", "text": "x" * 300})


async def _ms(work: Any) -> float:
    begin = time.perf_counter()
    await work
    return (time.perf_counter() - begin) * 1e3


# -- poll ------------------------------------------------------------------------------------------------------------


def _poll(place: Place, cwd: Path, size: int, rounds: int) -> Figure:
    """Time the tool ``process``, action poll, after the log has grown by 1 kB."""
    from tools.dispatch.bridge import run_async

    place = place.with_options(**_ROOM.get(place.name, {}))
    scope = CallScope(
        identity=RunIdentity(f"bench-{place.name}"),
        open_environment=lambda: place.open(cwd),
        settings={"terminal.log_mb": 1024},
    )
    try:
        took, foreground = run_async(_polls(scope, size - 1000 * (rounds + 1), rounds))
    finally:
        run_async(scope.close())
    against = f"a foreground /bin/true there; measured: 1 kB more, {size >> 20} MB read before"
    return Figure(f"process.poll_{place.name}", took, "ms", foreground, _POLL, "value", against)


async def _polls(scope: CallScope, size: int, rounds: int) -> tuple[float, float]:
    table, command = scope.processes, f"head -c {size} /dev/zero | tr '\\0' x; while read -r _; do printf %01000d 0; done"
    await table.start("log", command, scope.environment.cwd, reads=True)
    printed, took, foreground = size, [], []
    await _printed(table, printed)
    dispatcher = _dispatcher()

    async def call() -> Mapping[str, Any]:
        asked = ToolCall(ToolCall.new_id(), "process", {"action": "poll", "name": "log"})
        data: Mapping[str, Any] = (await dispatcher.call(asked, scope)).result.data
        return data

    if (first := await call())["printed"] != size:
        raise CannotMeasureError(f"the log of {size} bytes: {first}")
    for _ in range(rounds):
        await table.write("log", "more\n")
        printed += 1000
        await _printed(table, printed)
        foreground.append(await _ms(scope.environment.execute(ExecRequest("/bin/true", timeout=60))))
        begin = time.perf_counter()
        answer = await call()
        took.append((time.perf_counter() - begin) * 1e3)
        if answer["output"] != f"{0:01000d}" or answer.get("missing"):
            raise CannotMeasureError(f"a poll of 1 kB: {answer}")
    return statistics.median(took), statistics.median(foreground)


class _Allows:
    """A gate that allows every call, because no user can be asked here."""

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: Any) -> None:
        """Allow it."""


def _dispatcher() -> Dispatcher:
    import tools.process_registry  # noqa: F401 - it registers the tool

    manager = new_manager()
    manager.register(_Allows(), name="approval")
    return Dispatcher(registry, manager)


async def _printed(table: ProcessTable, size: int) -> None:
    give_up = time.monotonic() + 120
    while (one := await table.one("log")).printed < size:
        if time.monotonic() > give_up or one.full or not one.runs:
            raise CannotMeasureError(f"{table.environment.identity}: {one.printed} bytes of {size} are in the log: {one}")
        await asyncio.sleep(0.005)


# -- find ------------------------------------------------------------------------------------------------------------


def _find(place: Place, cwd: Path, number: int, rounds: int) -> Figure:
    """Kill a process of toolcrib that started others, and time the first look of the next, from its import on."""
    kept = _KEPT.get(place.name, {})
    if "records" in kept:
        kept = {**kept, "records": str(cwd.parent / "records")}
    place = place.with_options(**kept)
    took, opened = [], []
    for _ in range(rounds):
        with _child(place, cwd, "start", number) as first:
            os.kill(first.pid, signal.SIGKILL)
        with _child(place, cwd, "find", number) as second:
            assert second.stdout is not None
            found = json.loads(second.stdout.readline())
        took.append(found["ms"])
        opened.append(found["opened"])
        if found["running"] != number:
            raise CannotMeasureError(f"{place.name}: {found['running']} of {number} processes were found")
    against = f"opening another environment, and a command there; measured: {number} processes, with toolcrib's imports"
    name = f"process.find_{place.name}"
    return Figure(name, statistics.median(took), "ms", statistics.median(opened), _FIND, "value", against)


@contextlib.contextmanager
def _child(place: Place, cwd: Path, what: str, number: int) -> Iterator[subprocess.Popen[str]]:
    """Run a process until it is ready. Its input is open for the time of the context."""
    argv = [sys.executable, "-m", f"benchmarks.{_CHILD.stem}", what, place.kind, json.dumps(place.options), str(cwd), str(number)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_CHILD.parents[1]) as child:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise CannotMeasureError(f"{place.name}: no processes could be started or found; see the error above")
        yield child
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


# -- idle ------------------------------------------------------------------------------------------------------------


async def _idle(cwd: Path, number: int, seconds: float) -> Figure:
    """Return the processor time that watching takes in this process, and in the helper with its children."""
    environment = _places.local().open(cwd)
    table = ProcessTable(environment, "bench-idle")
    try:
        for at in range(number):
            await table.start(f"p{at}", "sleep 1000", str(cwd), end=True, patterns=["never"])
        helper = int(await table._helper.run("echo $$"))
        await asyncio.sleep(2)
        before, begin = _used(helper), time.perf_counter()
        await asyncio.sleep(seconds)
        used = (_used(helper) - before) / (time.perf_counter() - begin)
        if len(table.names) != number:
            raise CannotMeasureError(f"{len(table.names)} of {number} processes were watched")
    finally:
        await end_all(table)
        await environment.close()
    return Figure("process.idle", used * 100, "%", 100.0, _IDLE, "value", f"one core; measured: {number} watched processes")


def _used(pid: int) -> float:
    """Return the processor time of this process, and of another with its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return time.process_time() + sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
