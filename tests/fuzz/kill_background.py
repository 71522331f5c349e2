"""Kill toolcrib at random moments while it has background processes, and check that they are found, and that nothing is left.

    python -m tests.fuzz.kill_background [--kills 40] [--starts 1000] [--seed N] [--minutes M] [--place NAME ...]

On each of this machine, a sandbox, a container and a host behind ssh, a process (tests/fuzz/background_worker.py) starts five
background processes: one that sleeps, one that exits at once, one that reads lines, one that prints more than its log may hold,
and one whose descendants leave its session. The process is killed (SIGKILL) while it starts one, between a start and its record,
while it writes a line, while it ends one, or at any time. Another table then finds the processes, and:

- all recorded ones are there, each that has ended with its exit code, the beginning and the end of its log, and its length;
- every line whose write was acknowledged was read once, in order; the reader continues to read, and its input can be closed;
- the others can be ended; after the session's end, none of their processes, keepers and folders is left.

Then many processes are started, awaited and removed in one session, and a stranger gets the number of a killed process: no signal
may reach it, and the process must not count as running. Prints a line for each fault, and a table. Exits with 1 if there was a
fault. Needs root, bubblewrap, docker and sshd.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import _places
from benchmarks._places import Place
from tests.fuzz import background_worker as worker
from tools.environments import open_environment
from tools.processes.process import Process
from tools.processes.table import ProcessTable

MOMENTS = {
    "while one starts": ("starting", 0.04),
    "between start and record": ("started", 0.0),
    "while a line is written": ("writing", 0.02),
    "while one ends": ("ending", 0.1),
    "at any time": ("", 1.5),
}
"""The first word of the line that a kill waits for, and the greatest delay in seconds after it."""
PLACES = ("local", "bubblewrap", "docker", "ssh")
_LIMIT = 60.0
_NUMBERS = Path("/proc/sys/kernel/ns_last_pid")
_TRIES = 100
"""Attempts to get a process number again: other programs may take it."""


class FaultError(Exception):
    """A condition that does not hold."""


@dataclass
class Row:
    """A row of the table."""

    place: str
    what: str
    tried: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


@contextlib.contextmanager
def opened(name: str, cwd: Path) -> Iterator[Place]:
    """Yield a backend, with the server that it needs."""
    with contextlib.ExitStack() as stack:
        if name == "docker":
            place = stack.enter_context(_places.docker(cwd))
        else:
            place = stack.enter_context(_places.ssh()) if name == "ssh" else getattr(_places, name)()
        yield place if name == "ssh" else place.with_options(cwd=str(cwd))


def options_of(place: Place, session: str) -> dict[str, Any]:
    """Return options that keep a session's processes after a kill of toolcrib."""
    if place.name == "docker":
        return {**place.options, "keep": "reuse", "session": session}
    records = Path(place.options.get("cwd", "")).parent / "records"
    return {**place.options, **({"session": session, "records": str(records)} if place.name == "bubblewrap" else {})}


def need(holds: object, text: str) -> None:
    """Raise FaultError with the text if a condition does not hold."""
    if not holds:
        raise FaultError(text)


async def until(what: str, holds: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a condition holds, and return its value. Raises FaultError after a generous time."""
    give_up = time.monotonic() + _LIMIT
    while not (value := await holds()):
        need(time.monotonic() < give_up, f"never came true: {what}")
        await asyncio.sleep(0.02)
    return value


def of_session(*marks: str) -> list[int]:
    """Return the processes on this machine whose command or environment has one of these texts."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if int(entry.name) != os.getpid() and any(mark.encode() in text for mark in marks):
                found.append(int(entry.name))
    return found


# -- kills -----------------------------------------------------------------------------------------------------------


class Killed:
    """A killed worker, and what it printed."""

    def __init__(self, place: Place, moment: str, chance: random.Random) -> None:
        self.session, self.token = f"soak-{secrets.token_hex(6)}", f"300.{secrets.randbelow(10**12):012}"
        self.kind, self.given = place.kind, options_of(place, self.session)
        job = json.dumps([self.kind, self.given, self.session, self.token])
        word, most = MOMENTS[moment]
        skipped = chance.randrange({"starting": 5, "started": 5, "writing": 40}.get(word, 1))
        delay = chance.uniform(0, most)
        argv = [sys.executable, "-m", "tests.fuzz.background_worker", job]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if not word or line.startswith(f"{word} "):
                    skipped -= 1
                if skipped < 0 or line.startswith("idle"):
                    break
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        self.at = f"{moment}, {delay * 1000:.0f} ms after {lines[-1].strip() if lines else 'its start'!r}"
        self.steps = [tuple(line.split()) for line in lines if line.endswith("\n")]

    def did(self, step: str) -> list[str]:
        """Return the words after ``step`` of each line that begins with it."""
        return [" ".join(words[1:]) for words in self.steps if words[0] == step]

    def records(self) -> dict[str, dict[str, int]]:
        """Return the records that were written before the kill."""
        found = (text.split() for text in self.did("record"))
        return {name: dict(zip(("pid", "start", "locks"), map(int, numbers), strict=True)) for name, *numbers in found}

    async def check(self) -> None:
        """Find, use and end the processes. Raises FaultError."""
        environment = open_environment(self.kind, **self.given)
        table = ProcessTable(environment, self.session, log_bytes=worker.KEPT)
        table.know(self.records())
        try:
            found = await table.look()
            need(found.keys() >= self.records().keys(), f"recorded {[*self.records()]}, found {[*found]}")
            for name in sorted(found):
                await getattr(self, f"_{name}")(table)
        finally:
            await table.close()
            folder = table.folder
            left = await environment.stat(folder) if folder else None
            await environment.close()
        need(left is None, f"its folder {folder} is left")
        marks = (f"sleep\0{self.token}", table.session)
        await until(f"no process is left of {of_session(*marks)}", lambda: _value(not of_session(*marks)))

    async def _ended(self, table: ProcessTable, name: str) -> Process:
        async def ended() -> Process | None:
            one = await table.one(name)
            return None if one.writes or one.runs else one

        one: Process = await until(f"{name} has ended", ended)
        code = worker.CODES[name]
        need(one.exit_code is not None, f"the exit code of {name} is lost: {one}")
        need(code in (None, one.exit_code), f"{name} ended with {one.exit_code}, not {code}")
        return one

    async def _long(self, table: ProcessTable) -> None:
        one = await table.one("long")
        need(one.runs or self.did("ending"), f"it does not run: {one}")
        need(not one.runs or not self.did("ended"), f"it was ended, and runs: {one}")
        await table.end("long")
        one = await self._ended(table, "long")
        need(await table.read(one, 0, one.printed) in (b"begun\n", b""), "its log is wrong")

    async def _quick(self, table: ProcessTable) -> None:
        one = await self._ended(table, "quick")
        need(await table.read(one, 0, one.printed) == b"said\n", "its log is wrong")

    async def _reader(self, table: ProcessTable) -> None:
        await table.write("reader", "\nafter\n")  # the first line feed ends a line that was written in part
        mark = f"\n{worker.said('after')}\n".encode()

        async def has_read() -> bool:
            one = await table.one("reader")
            return mark in b"\n" + await table.read(one, 0, one.printed)

        await until("the reader read a line", has_read)
        await table.close_input("reader")
        one = await self._ended(table, "reader")
        lines = (await table.read(one, 0, one.printed)).decode().splitlines()
        need(lines[-2:] == [worker.said("after"), "over"], f"the reader ended with {lines[-2:]}")
        wrote = [worker.said(worker.line(int(number))) for number in self.did("wrote")]
        need(lines[: len(wrote)] == wrote, f"{len(wrote)} lines were written, and it read {lines}")
        need(len(lines) - len(wrote) <= 4, f"it read more than was written: {lines[len(wrote) :]}")

    async def _flood(self, table: ProcessTable) -> None:
        one = await self._ended(table, "flood")
        size = sum(len(f"{number} ") + 31 for number in range(1, worker.LINES + 1)) + len("last\n")
        need(one.printed == size, f"it printed {one.printed} of {size} bytes")
        kept = one.printed - one.missing
        need(one.missing > 0 and kept <= 2 * worker.KEPT, f"the log keeps {kept} bytes of {one.printed}")
        need((await table.read(one, 0, 4)) == b"1 xx", "the beginning of the log is wrong")
        need((await table.read(one, size - 7, size)) == b"x\nlast\n"[-7:], "the end of the log is wrong")

    async def _family(self, table: ProcessTable) -> None:
        async def ended() -> bool:
            return (await table.one("family")).exit_code is not None

        await until("the first process of the family ended", ended)
        await table.end("family")
        await self._ended(table, "family")


async def _value(value: object) -> object:
    return value


def killed_often(place: Place, number: int, chance: random.Random, give_up: float) -> list[Row]:
    """Kill a worker ``number`` times, each kind of moment as often as the others, and return a row for each kind."""
    rows = {moment: Row(place.name, f"killed {moment}") for moment in MOMENTS}
    for _, moment in zip(range(number), _moments(chance), strict=False):
        if time.monotonic() > give_up:
            break
        begin, row = time.monotonic(), rows[moment]
        killed = Killed(place, moment, chance)
        _try(row, killed.at, killed.check())
        row.seconds += time.monotonic() - begin
    return list(rows.values())


def _moments(chance: random.Random) -> Iterator[str]:
    while True:
        yield from chance.sample(list(MOMENTS), len(MOMENTS))


def _try(row: Row, at: str, work: Any) -> None:
    row.tried += 1
    try:
        asyncio.run(work)
    except Exception as error:  # noqa: BLE001 - a fault of the product, which the table shows
        row.faults.append(f"{at}: {error if isinstance(error, FaultError) else repr(error)}")
        print(f"FAULT {row.place}: {row.faults[-1]}", flush=True)


# -- many, and numbers that are used again ---------------------------------------------------------------------------


def many(place: Place, number: int, give_up: float) -> Row:
    """Start, await and remove processes in one session, some of them at once."""
    row, begin = Row(place.name, "started and removed"), time.monotonic()

    async def go() -> None:
        session = f"soak-{secrets.token_hex(6)}"
        environment = open_environment(place.kind, **options_of(place, session))
        table = ProcessTable(environment, session)
        try:
            for first in range(0, number, 10):
                if time.monotonic() > give_up:
                    break
                names = [f"p{at}" for at in range(first, first + 10)]
                for at, name in enumerate(names, first):
                    await table.start(name, f"echo {at}; exit {at % 256}", environment.cwd)
                for at, name in enumerate(names, first):
                    one = await until(f"{name} has ended", functools.partial(_done, table, name))
                    need(one.exit_code == at % 256, f"{name}: {one}")
                    need(await table.read(one, 0, one.printed) == f"{at}\n".encode(), f"the log of {name} is wrong")
                    await table.remove(name)
                row.tried += 10
            need(not await table.look(), "a removed process is listed")
        finally:
            await table.close()
            await environment.close()
        await until("no process is left", lambda: _value(not of_session(table.session)))

    _try(row, "many", go())
    row.tried -= 1
    row.seconds = time.monotonic() - begin
    return row


async def _done(table: ProcessTable, name: str) -> Process | None:
    one = await table.one(name)
    return None if one.writes or one.runs else one


def recycled(place: Place, number: int) -> Row:
    """Give the numbers of a killed process and its keeper to strangers."""
    row, begin = Row(place.name, "recycled numbers"), time.monotonic()
    for _ in range(number if _NUMBERS.exists() else 0):
        _try(row, "a recycled number", _recycled(place))
    row.seconds = time.monotonic() - begin
    return row


async def _recycled(place: Place) -> None:
    session = f"soak-{secrets.token_hex(6)}"
    environment = open_environment(place.kind, **options_of(place, session))
    table = ProcessTable(environment, session)
    strangers: list[subprocess.Popen[bytes]] = []
    try:
        one = await table.start("one", "exec sleep 300", environment.cwd)
        (file,) = Path("/tmp").glob(f".toolcrib-processes-*/{table.session}/one/pid")
        pid, _, keeper, _ = map(int, file.read_text().split())
        await until("it leads a session", lambda: _value(os.getsid(pid) == pid))
        for number in (keeper, pid):
            os.kill(number, signal.SIGKILL)
        await until("its exit code is recorded", lambda: _value(file.with_name("status").exists()))
        file.with_name("status").unlink()  # as if the keeper's other shell had been killed too
        strangers = [_stranger(pid)]
        with contextlib.suppress(FaultError):  # the number stays taken while a zombie of its group is left
            strangers.append(_stranger(keeper))
        found = await table.one("one")
        need(found.state == "lost" and not found.writes, f"a stranger counts as the process: {found}")
        need(one.pid == pid and not (await table.use("one")).pids, "a stranger counts as a member")
        need(not await table.signal("one", "KILL"), "a stranger was signalled")
        await table.close()
        need(all(each.poll() is None for each in strangers), "a stranger was ended")
    finally:
        for each in strangers:
            each.kill()
            each.wait()
        await table.close()
        await environment.close()


def _stranger(pid: int) -> subprocess.Popen[bytes]:
    """Start a process with this number. Raises FaultError if others always get it."""
    for _ in range(_TRIES):
        _NUMBERS.write_text(str(pid - 1))
        process = subprocess.Popen(["sleep", "300"], start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    raise FaultError(f"the number {pid} is not available again")


# -- the whole -------------------------------------------------------------------------------------------------------


def run(places: Sequence[str], *, kills: int, starts: int, seed: int, minutes: float) -> list[Row]:
    """Try everything on each place, and return the rows of the table. After ``minutes`` nothing more begins."""
    chance, rows = random.Random(seed), list[Row]()  # noqa: S311 - a test's dice
    begin, share = time.monotonic(), minutes * 60 / len(places)
    for at, name in enumerate(places):
        give_up = begin + share * (at + 1)
        with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as made, contextlib.ExitStack() as stack:
            (cwd := Path(made).resolve() / "work").mkdir()
            place = stack.enter_context(opened(name, cwd))
            rows += killed_often(place, kills, chance, give_up - share / 4)
            rows.append(many(place, starts if name == "local" else starts // 10, give_up))
            if name in ("local", "ssh"):  # elsewhere, numbers belong to a namespace
                rows.append(recycled(place, max(1, kills // 8)))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Try everything, and print the table. Return 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=40, help="on each place")
    parser.add_argument("--starts", type=int, default=1000, help="on this machine, and a tenth of that elsewhere")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing more after this time")
    parser.add_argument("--place", action="append", choices=PLACES, help="only this one; may be repeated")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}", flush=True)
    rows = run(options.place or PLACES, kills=options.kills, starts=options.starts, seed=options.seed, minutes=options.minutes)
    print(f"{'place':12} {'what':32} {'tried':>6} {'faults':>6} {'seconds':>8}")
    for row in rows:
        print(f"{row.place:12} {row.what:32} {row.tried:6} {len(row.faults):6} {row.seconds:8.1f}")
    faults = sum(len(row.faults) for row in rows)
    print(f"{sum(row.tried for row in rows)} cases on {len(options.place or PLACES)} backends, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
