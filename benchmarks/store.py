"""The store on disk: the cost of a durable append, the event loop's delay while another process holds the write lock, and
search.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.store import _file, _schema
from agent.store._file import Synchronous
from agent.store.sqlite import SqliteStore
from benchmarks._store_search import figures as large_store
from benchmarks.core import CannotMeasureError, Figure, best_of_each
from toolcrib import StoreFailed
from toolcrib.contract.store import Fence, Store

CALLERS = 20
_HELD = 3.0
_BEAT = 0.001
_HOUR = 3600.0
_MESSAGE: dict[str, Any] = {"role": "assistant", "text": "x" * 300, "model": "m", "usage": {"input": 5, "output": 7}}
_USAGE = (
    "INSERT INTO usage (session_id, at, day, model, provider, tool, input, output, cached, reasoning, seconds, failed)"
    " VALUES ('s', ?, '2026-11-23', ?, '', '', ?, ?, 0, 0, 0.0, 0)"
)
_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""
_HOLD_POSTGRES = """
import psycopg, sys
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("LOCK TABLE toolcrib.messages, toolcrib.sessions IN EXCLUSIVE MODE")
    print("held", flush=True)
    sys.stdin.readline()
"""


def measure(*, quick: bool) -> list[Figure]:
    """Return appends in us of elapsed time, and the event loop's delay in ms."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-store-") as made:
        folder = Path(made)
        number, rounds = (100, 1) if quick else (1000, 15)
        held, times = (0.3, 1) if quick else (_HELD, 3)
        figures = _appends(folder, number, rounds)
        with _opened(folder / "locked.db") as store:
            figures.append(_blocking("store.blocking", store, [_HOLD, str(store.path)], held, times))
        figures += large_store(folder, 2_000 if quick else 100_000, million=0 if quick else 1_000_000)
    return [*figures, *_over_postgres(number // (4 if quick else 1), max(1, rounds // 4), held, times)]


def _over_postgres(number: int, rounds: int, held: float, times: int) -> Iterator[Figure]:
    """Yield the same figures for the PostgreSQL store; if no server can be started here, print why and yield none."""
    try:
        from agent.store.postgres.store import PostgresStore
        from benchmarks._postgres import postgres_url

        with postgres_url() as url, contextlib.closing(PostgresStore(url)) as store:
            yield _append_postgres(store, url, number, rounds)
            yield _blocking("store.blocking_postgres", store, [_HOLD_POSTGRES, url], held, times)
    except (CannotMeasureError, ImportError, StoreFailed) as error:
        print(f"store: the figures of PostgreSQL are skipped: {error}", file=sys.stderr)


# -- appends ---------------------------------------------------------------------------------------------------------


def _appends(folder: Path, number: int, rounds: int) -> list[Figure]:
    """Return the figures of appends by the best times: any excess is other work of the machine."""
    with (
        _direct(folder / "direct.db") as append,
        asyncio.Runner() as runner,
        _opened(folder / "store.db", synchronous="FULL") as store,
    ):
        runner.run(store.sessions.create("s", platform="cli", user=""))
        mine = store.fenced(Fence(runner.run(store.leases.take("s", "benchmark", _HOUR))))

        def direct() -> None:
            for _ in range(number):
                append()

        async def by(callers: int) -> None:
            async def call() -> None:
                for _ in range(number // callers):
                    await mine.sessions.append("s", _MESSAGE)

            await asyncio.gather(*(call() for _ in range(callers)))

        runs = {
            "direct": _each(direct, number, time.perf_counter),
            "alone": _each(lambda: runner.run(by(1)), number, time.perf_counter),
            "several": _each(lambda: runner.run(by(CALLERS)), number, time.perf_counter),
        }
        took = {name: seconds * 1e6 for name, seconds in best_of_each(runs, rounds).items()}
        kept = len(runner.run(store.sessions.messages("s")))
        if kept != 2 * rounds * number:
            raise CannotMeasureError(f"{kept} messages were kept of {2 * rounds * number}")
    against = "sqlite3 alone, with the same pragmas (synchronous=FULL), indexes and lease check; durable, elapsed time, "
    return [
        _figure("store.append", took, "alone", "direct", 2.0, f"{against}one caller"),
        _figure("store.append_shared", took, "several", "direct", 0.3, f"{against}one caller; measured: {CALLERS} callers"),
    ]


def _append_postgres(store: Store, url: str, number: int, rounds: int) -> Figure:
    """Return the figure in elapsed time, which is mostly the server's."""
    import psycopg

    names = [f"append{caller}" for caller in range(CALLERS)]
    with asyncio.Runner() as runner, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE direct (session text, seq serial, body text, PRIMARY KEY (session, seq))")
        for name in names:
            runner.run(store.sessions.create(name, platform="cli", user=""))

        def direct() -> None:
            for _ in range(number):
                connection.execute("INSERT INTO direct (session, body) VALUES ('s', %s)", (json.dumps(_MESSAGE),))

        async def each(name: str) -> None:
            for _ in range(number // CALLERS):
                await store.sessions.append(name, _MESSAGE)

        async def all_of_them() -> None:
            await asyncio.gather(*map(each, names))

        runs = {
            "direct": _each(direct, number, time.perf_counter),
            "store": _each(lambda: runner.run(all_of_them()), number, time.perf_counter),
        }
        took = {name: seconds * 1e6 for name, seconds in best_of_each(runs, rounds).items()}
    against = f"one INSERT on a connection, in the calling thread; elapsed time, {CALLERS} callers"
    return _figure("store.append_postgres", took, "store", "direct", 1.0, against)


def _figure(name: str, took: dict[str, float], value: str, baseline: str, bar: float, against: str) -> Figure:
    return Figure(name, took[value], "us", took[baseline], bar, "ratio", against)


def _each(work: Callable[[], None], number: int, clock: Callable[[], float]) -> Callable[[], float]:
    def run() -> float:
        begin = clock()
        work()
        return (clock() - begin) / number

    return run


@contextlib.contextmanager
def _direct(path: Path) -> Iterator[Callable[[], None]]:
    """Yield an append as a program without a store would make it, with the store's tables and all that it writes for a
    message.
    """
    _file.open_writer(path, "FULL", _schema.FOLDER).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    add = "INSERT INTO sessions (id, platform, user, model, cwd, created_at, updated_at) VALUES ('s', '', '', '', '', 0, 0)"
    connection.execute(add)
    connection.execute("INSERT INTO leases (name, owner, token, expires_at) VALUES ('s', 'benchmark', 1, 1e12)")

    def append() -> None:
        connection.execute("BEGIN IMMEDIATE")
        held = connection.execute("SELECT 1 FROM leases WHERE name = 's' AND token = 1").fetchone()
        row, count = connection.execute("SELECT row, messages FROM sessions WHERE id = 's'").fetchone()
        now, body = time.time(), json.dumps(_MESSAGE)
        connection.execute("INSERT INTO messages (session, seq, body, at) VALUES (?, ?, ?, ?)", (row, count, body, now))
        connection.execute("UPDATE sessions SET messages = messages + 1, updated_at = ? WHERE row = ?", (now, row))
        connection.execute(_USAGE, (now, _MESSAGE["model"], *_MESSAGE["usage"].values()))
        connection.execute("COMMIT" if held else "ROLLBACK")

    yield append
    connection.close()


@contextlib.contextmanager
def _opened(path: Path, synchronous: Synchronous = "NORMAL") -> Iterator[SqliteStore]:
    store = SqliteStore(path, synchronous=synchronous)
    yield store
    store.close()


# -- another process's lock ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Delay:
    """The longest delay of the event loop, in seconds."""

    worst: float = 0.0

    async def watch(self) -> None:
        while True:
            due = time.perf_counter() + _BEAT
            await asyncio.sleep(_BEAT)
            self.worst = max(self.worst, time.perf_counter() - due)


def _blocking(name: str, store: Store, holder: list[str], seconds: float, rounds: int) -> Figure:
    """Return the longest delay while a turn's writes wait for the lock and reads continue; the best of several rounds."""
    with asyncio.Runner() as runner:
        runner.run(store.sessions.create("s", platform="cli", user=""))
        idle = min(runner.run(_longest_delay(asyncio.sleep(seconds / 3))) for _ in range(rounds))
        locked = min(runner.run(_while_locked(store, holder, seconds)) for _ in range(rounds))
        if len(runner.run(store.sessions.messages("s"))) != rounds:
            raise CannotMeasureError("the writes that waited for the lock are not there")
    against = f"an idle event loop; measured: the longest delay in {seconds:g} s, the best of {rounds}"
    return Figure(name, locked * 1e3, "ms", idle * 1e3, 20, "value", against)


async def _while_locked(store: Store, holder: list[str], seconds: float) -> float:
    """Return the longest delay. ``holder`` is a program and its argument; it reports when it holds the lock, and releases it when
    it reads a line.
    """
    process = subprocess.Popen([sys.executable, "-c", *holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        writing = asyncio.ensure_future(store.sessions.append("s", _MESSAGE))
        end = time.monotonic() + seconds

        async def read() -> None:
            while time.monotonic() < end:
                await store.sessions.messages("s")
                await asyncio.sleep(0.02)

        delay = await _longest_delay(read())
        if writing.done():
            raise CannotMeasureError("the other process's lock delayed nothing")
    finally:
        await asyncio.to_thread(process.communicate, b"\n")
    await writing
    return delay


async def _longest_delay(meanwhile: Awaitable[None]) -> float:
    delay = _Delay()
    watching = asyncio.ensure_future(delay.watch())
    try:
        await meanwhile
    finally:
        watching.cancel()
        await asyncio.wait({watching})
    return delay.worst
