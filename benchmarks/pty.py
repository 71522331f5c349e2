"""Terminals: how soon a key shows on the screen of each backend, and what a flood of output costs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import statistics
import subprocess
import tempfile
import time
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import _places
from benchmarks._places import Place
from benchmarks.core import CannotMeasureError, Figure
from toolcrib import TerminalSize
from tools.processes.table import ProcessTable
from tools.terminals.terminal import SessionTerminal
from tools.terminals.typed import keys_of, typing

_ECHO = {"local": 5.0, "bubblewrap": 5.0, "docker": 10.0, "ssh": 10.0}
_FLOOD, _KEY, _MEMORY = 3.0, 100.0, 32.0
_SIZE = TerminalSize(100, 30)
_LINE = b"2026-11-30 12:00:00 worker-7 GET /v1/sessions/4f1c/messages?after=118 200 0.0132 s\n"
_RAW = "stty raw -echo; printf ready; exec cat"
# It floods, and shows in the title how many keys it has read.
_COUNTS = r"""
import os, threading, tty
tty.setraw(0)
def flood():
    while True:
        os.write(1, b"2026-11-30 12:00:00 worker-7 GET /v1/sessions/4f1c/messages\r\n" * 30)
threading.Thread(target=flood, daemon=True).start()
count = 0
while os.read(0, 1):
    count += 1
    os.write(1, b"\x1b]2;%d keys\x07" % count)
"""


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms and s, and memory in MB."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="toolcrib-pty-") as made, contextlib.ExitStack() as stack:
        cwd = Path(made).resolve() / "work"
        cwd.mkdir()
        places = [_places.local(), _places.bubblewrap()]
        places += [stack.enter_context(_places.docker(cwd)), stack.enter_context(_places.ssh())]
        bare = _bare_echo(10 if quick else 300)
        figures += [asyncio.run(_echo(place, cwd, 10 if quick else 300, bare)) for place in places]
        size = 1 << 20 if quick else 100 << 20
        (cwd / "log").write_bytes(_LINE * (size // len(_LINE)))
        figures += asyncio.run(_flood(cwd, 1 if quick else 5))
        figures.append(asyncio.run(_key(cwd, 3 if quick else 50)))
    return figures


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


@contextlib.asynccontextmanager
async def _terminal(place: Place, cwd: Path, command: str) -> AsyncIterator[SessionTerminal]:
    """Run a command in a terminal of a session's table, and yield the terminal."""
    environment = place.open(cwd)
    table = ProcessTable(environment, "bench")
    try:
        await table.start("one", command, environment.cwd, size=_SIZE)
        terminal = table.terminals.get("one")
        if terminal is None:
            raise CannotMeasureError(f"{place.name}: no terminal was opened")
        yield terminal
    finally:
        await table.close()
        await environment.close()


async def _until(is_so: Callable[[], object], pause: float) -> None:
    give_up = time.monotonic() + 120
    while not is_so():
        if time.monotonic() > give_up:
            raise CannotMeasureError("a terminal showed nothing for two minutes")
        await asyncio.sleep(pause)


async def _press(terminal: SessionTerminal, key: str) -> None:
    await terminal.press(typing(terminal.typed, keys_of([key])))


# -- echo ------------------------------------------------------------------------------------------------------------


async def _echo(place: Place, cwd: Path, rounds: int, bare: float) -> Figure:
    """Time from a key to the screen, for a program that prints each key."""
    took: list[float] = []
    async with _terminal(place, cwd, _RAW) as terminal:
        await _until(lambda: terminal.screen(str).startswith("ready"), 0.005)
        for number in range(rounds + 5):
            printed, begin = terminal.printed, time.perf_counter()
            await _press(terminal, "x")
            while terminal.printed == printed and time.perf_counter() < begin + 10:
                time.sleep(0.0002)  # the reader has a thread of its own, which a busy one would hold up
            if number >= 5:
                took.append((time.perf_counter() - begin) * 1e3)
            await asyncio.sleep(0.01)
        if "xxx" not in terminal.screen(str):
            raise CannotMeasureError(f"{place.name}: the keys are not on the screen: {terminal.screen(str)!r}")
    against = f"a bare PTY here, read and written by one thread; measured: p95 of {rounds} keys"
    return Figure(f"pty.echo_{place.name}", _p95(took), "ms", bare, _ECHO[place.name], "value", against)


@contextlib.contextmanager
def _bare(command: str, cwd: Path | None = None) -> Iterator[int]:
    """Run a command in a PTY without a screen, and yield the master."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        ["bash", "-c", command], stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True
    ) as one:
        os.close(slave)
        try:
            yield master
        finally:
            one.kill()
            os.close(master)


def _bare_echo(rounds: int) -> float:
    took: list[float] = []
    with _bare(_RAW) as master:
        tty.setraw(master)
        said = b""
        while b"ready" not in said:
            said += os.read(master, 100)
        for _ in range(rounds):
            begin = time.perf_counter()
            os.write(master, b"x")
            os.read(master, 100)
            took.append((time.perf_counter() - begin) * 1e3)
            time.sleep(0.01)
    return _p95(took)


# -- a flood ---------------------------------------------------------------------------------------------------------


async def _flood(cwd: Path, rounds: int) -> list[Figure]:
    """Time a long log through a terminal, and through a bare PTY, in turns; and the memory that the first takes."""
    size = (cwd / "log").stat().st_size >> 20
    took: dict[str, list[float]] = {"ours": [], "bare": []}
    grown = 0.0
    for _ in range(rounds):
        took["bare"].append(_drained(cwd))
        async with _terminal(_places.local(), cwd, "read -n1; cat log; sleep 1000") as terminal:
            await asyncio.sleep(0.2)
            printed, before, most, begin = (cwd / "log").stat().st_size, _memory(), 0.0, time.perf_counter()
            await _press(terminal, "x")
            while terminal.printed < printed:  # each line feed has a carriage return too
                most = max(most, _memory())
                await asyncio.sleep(0.01)
            terminal.screen(str)
            took["ours"].append(time.perf_counter() - begin)
            grown = max(grown, most - before)
    middle = {name: statistics.median(times) for name, times in took.items()}
    return [
        Figure("pty.flood", middle["ours"], "s", middle["bare"], _FLOOD, "ratio", f"{size} MB of a log through a bare PTY"),
        Figure("pty.flood_memory", grown, "MB", float(size or 1), _MEMORY, "value", "the log; measured: growth of this process"),
    ]


def _drained(cwd: Path) -> float:
    printed = (cwd / "log").stat().st_size
    with _bare("read -n1; cat log; sleep 1000", cwd) as master:
        time.sleep(0.2)
        begin = time.perf_counter()
        os.write(master, b"x")
        while printed > 0:
            printed -= len(os.read(master, 1 << 16))
        return time.perf_counter() - begin


def _memory() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _has_title(terminal: SessionTerminal, title: str) -> bool:
    with terminal._lock:
        return terminal._screen.title == title


async def _key(cwd: Path, rounds: int) -> Figure:
    """Time from a key to the program's answer, while the program floods its terminal."""
    took: list[float] = []
    (cwd / "counts.py").write_text(_COUNTS)
    async with _terminal(_places.local(), cwd, "python3 counts.py") as terminal:
        await _until(lambda: terminal.printed > 1 << 20, 0.01)
        for number in range(1, rounds + 1):
            begin = time.perf_counter()
            await _press(terminal, "x")
            await _until(partial(_has_title, terminal, f"{number} keys"), 0.002)
            took.append((time.perf_counter() - begin) * 1e3)
            await asyncio.sleep(0.01)
    against = f"the bar of {_KEY:g} ms; measured: p95 of {rounds} keys during a flood"
    return Figure("pty.flood_key", _p95(took), "ms", _KEY, _KEY, "value", against)
