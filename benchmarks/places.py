"""Commands on each backend through the terminal tool (with dispatcher, gates and judge), against the vendors' commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks import _places
from benchmarks._places import Place
from benchmarks.core import CannotMeasureError, Figure, median_of_each, once
from toolcrib import RunIdentity, ToolCall, ToolStatus
from tools.dispatch.scope import CallScope

_BARS = {"docker": 0.03}
_FIRST = {"docker": 1.3, "ssh": 1.2}
_INTERRUPT = {"local": 100.0, "docker": 250.0, "ssh": 250.0}
_SESSIONS = 32
_ROW = 20
"""Number of runs of a vendor's command in a row; ours, which are faster, run ten times as often."""
_ENDLESS = ("sleep 100", "while :; do :; done", "while :; do /bin/true; done", "yes | cat >/dev/null", "sleep 100 | sleep 99")


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="toolcrib-places-") as made, contextlib.ExitStack() as stack:
        cwd = Path(made).resolve()
        for place in (_places.local(), stack.enter_context(_places.docker(cwd)), stack.enter_context(_places.ssh())):
            figures += _warm(place, cwd, 1 if quick else 10 if place.name == "local" else 3)
            if place.cold is not None:
                figures.append(_first(place, cwd, 1 if quick else 9))
            figures.append(_interrupts(place, cwd, 5 if quick else 1000))
            figures += _bulk(place, cwd, 1 if quick else 5)
            if place.name != "local":
                figures.append(_parallel(place, cwd, 2 if quick else _SESSIONS))
    return figures


@contextlib.contextmanager
def _session(place: Place, cwd: Path) -> Iterator[CallScope]:
    from tools.dispatch.bridge import run_async

    scope = CallScope(identity=RunIdentity(f"bench-{place.name}"), open_environment=lambda: place.open(cwd))
    try:
        yield scope
    finally:
        run_async(scope.close())


def _tool(scope: CallScope, command: str) -> None:
    import model_tools

    answer = model_tools.handle_function_call("terminal", {"command": command}, scope=scope)
    if '"exit_code": 0' not in answer:  # parsing the rest is not the tool's work
        raise CannotMeasureError(f"{command}: {answer}")


def _warm(place: Place, cwd: Path, rounds: int) -> list[Figure]:
    with _session(place, cwd) as scope:
        _tool(scope, "true")
        argv = place.vendor(scope.environment)
        runs: dict[str, Callable[[], float]] = {
            "vendor": once(lambda: subprocess.run(argv, check=True, capture_output=place.name != "local")),
            "true": once(lambda: _tool(scope, "true")),
        }
        if place.name == "local":
            runs["/bin/true"] = once(lambda: _tool(scope, "/bin/true"))
        took = _in_rows(runs, rounds)
    vendor = took["vendor"] * 1e3
    bar = _BARS.get(place.name, 0.3)
    figures = [Figure(f"places.{place.name}", took["true"] * 1e3, "ms", vendor, bar, "ratio", place.vendor_is)]
    if "/bin/true" in took:
        figures.append(Figure("places.local_program", took["/bin/true"] * 1e3, "ms", vendor, 1.0, "ratio", place.vendor_is))
    return figures


def _in_rows(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return medians of consecutive runs: processor caches that other work has filled would slow a warm session's first run."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name] += [run() for _ in range(_ROW if name == "vendor" else 10 * _ROW)]
    return {name: statistics.median(times) for name, times in taken.items()}


def _first(place: Place, cwd: Path, rounds: int) -> Figure:
    """Time a session's first command until its result, without the session's end and an engine's removal of a container."""

    def ours() -> float:
        with _session(place, cwd) as scope:
            begin = time.perf_counter()
            _tool(scope, "true")
            return time.perf_counter() - begin

    assert place.cold is not None
    argv = place.cold()
    took = median_of_each({"ours": ours, "vendor": once(lambda: subprocess.run(argv, check=True, capture_output=True))}, rounds)
    name = f"places.{place.name}_first"
    return Figure(name, took["ours"] * 1e3, "ms", took["vendor"] * 1e3, _FIRST[place.name], "ratio", place.cold_is)


def _interrupts(place: Place, cwd: Path, number: int) -> Figure:
    """Return the 99th percentile of the time from an interrupt to the result. Interrupts come at random times.

    The command after each interrupt must work.
    """
    import model_tools

    chance = random.Random(7)

    async def interrupted(scope: CallScope, command: str) -> float:
        call = ToolCall(ToolCall.new_id(), "terminal", {"command": command})
        running = asyncio.ensure_future(model_tools.dispatcher.call(call, scope))
        await asyncio.sleep(chance.random() * 0.03)
        begin = time.perf_counter()
        scope.interrupt()
        executed = await asyncio.wait_for(running, 60)
        took = time.perf_counter() - begin
        scope.clear_interrupt()
        if executed.result.status is ToolStatus.SUCCESS and executed.result.data.get("exit_code") == 0:
            raise CannotMeasureError(f"{command} was interrupted and is said to have succeeded")
        return took

    async def all_of_them(scope: CallScope) -> list[float]:
        took = []
        await model_tools.dispatcher.call(
            ToolCall("b", "terminal", {"command": "n=0; sleep 1000 >/dev/null 2>&1 & echo $! >server"}), scope
        )
        for index in range(number):
            took.append(await interrupted(scope, _ENDLESS[index % len(_ENDLESS)]))
            command = f"n=$((n+1)); echo $n {index}"
            executed = await model_tools.dispatcher.call(ToolCall(ToolCall.new_id(), "terminal", {"command": command}), scope)
            if executed.result.data.get("output") != f"{index + 1} {index}\n":
                raise CannotMeasureError(f"the command after interrupt {index} is wrong: {executed.result}")
        last = await model_tools.dispatcher.call(
            ToolCall("e", "terminal", {"command": "kill -0 $(cat server) && echo alive"}), scope
        )
        if last.result.data.get("output") != "alive\n":
            raise CannotMeasureError(f"the server did not survive {number} interrupts: {last.result}")
        return took

    with _session(place, cwd) as scope:
        from tools.dispatch.bridge import run_async

        took = sorted(run_async(all_of_them(scope)))
    value = took[min(len(took) - 1, int(len(took) * 0.99))] * 1e3
    baseline = statistics.median(took) * 1e3
    return Figure(
        f"places.interrupt_{place.name}",
        value,
        "ms",
        baseline,
        _INTERRUPT[place.name],
        "value",
        f"the median of {number}; measured: p99",
    )


def _bulk(place: Place, cwd: Path, rounds: int) -> list[Figure]:
    """Time 100 MB of output against the same library's bare channel, and measure the growth of the process."""
    argv = [sys.executable, "-m", "benchmarks._places_bulk", place.name, json.dumps(place.options), str(cwd), str(rounds)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise CannotMeasureError(f"100 MB in {place.name}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    name, raw = f"places.bulk_{place.name}", said["raw"] * 1e3
    return [
        Figure(name, said["seconds"] * 1e3, "ms", raw, 2.0, "ratio", "the same library without toolcrib"),
        Figure(f"{name}_memory", said["memory"], "MB", 100.0, 20.0, "value", "the size of the output"),
    ]


def _parallel(place: Place, cwd: Path, number: int) -> Figure:
    """Run sessions at once, each printing 2 MB of its own number. The figure is the number of sessions with a wrong byte or a
    failure.
    """
    import model_tools

    lines = 200_000

    async def one(index: int) -> bool:
        scope = CallScope(identity=RunIdentity(f"bench-{index}"), open_environment=lambda: place.open(cwd))
        try:
            for command, wanted in (
                (f"x={index}; for i in 1 2 3; do echo $x; done", f"{index}\n" * 3),
                (f"yes $x-{index}-abc | head -n {lines} | sha256sum", ""),
                ("echo $x", f"{index}\n"),
            ):
                call = ToolCall(ToolCall.new_id(), "terminal", {"command": command, "timeout": 300})
                executed = await model_tools.dispatcher.call(call, scope)
                data = executed.result.data
                if executed.result.status is not ToolStatus.SUCCESS or (wanted and data["output"] != wanted):
                    print(f"{place.name}, session {index}: {executed.result}", file=sys.stderr)
                    return False
            return True
        finally:
            await scope.close()

    async def all_of_them() -> float:
        right = await asyncio.gather(*(one(index) for index in range(number)))
        return float(right.count(False))

    wrong = asyncio.run(all_of_them())
    return Figure(f"places.parallel_{place.name}", wrong, "wrong", number, 0.0, "value", "concurrent sessions on one server")
