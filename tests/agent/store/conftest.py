"""Fixtures of every store. A new store needs its name in STORES, and its opening in ``make_store``."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.store.memory import MemoryStore
from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from toolcrib.contract.store import Store

STORES = ("memory", "sqlite", "postgres")


@pytest.fixture(params=STORES)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Return a function that opens a store. Except in memory, each call opens the same contents."""
    made: list[Store] = []
    url = request.getfixturevalue("emptied_url") if request.param == "postgres" else ""

    def make(clock: Callable[[], float] = time.time) -> Store:
        if request.param == "memory":
            made.append(MemoryStore(clock=clock))
        elif request.param == "sqlite":
            made.append(SqliteStore(tmp_path / "store.db", clock=clock))
        else:
            made.append(PostgresStore(url, clock=clock))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture(scope="session")
def shared_url(postgres: Any) -> str:
    """The URL of a database with the tables."""
    url: str = postgres.new_database()
    PostgresStore(url).close()
    return url


@pytest.fixture
def emptied_url(shared_url: str) -> str:
    """The URL of the same database with empty tables, which is far faster than a new one."""
    import psycopg

    with psycopg.connect(shared_url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'toolcrib' AND tablename <> 'version'")
        tables = [name for (name,) in found]
        connection.execute("; ".join(f"DELETE FROM toolcrib.{name}" for name in sorted(tables, reverse=True)).encode())  # noqa: S608 - ours
    return shared_url


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    return make_store()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.db"


@pytest.fixture
def open_file(file: Path) -> Iterator[Callable[..., SqliteStore]]:
    """Return a function that opens the store of ``file`` any number of times; all are closed at the end."""
    made: list[SqliteStore] = []

    def make(**options: Any) -> SqliteStore:
        made.append(SqliteStore(file, **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


_LEAVES = """
import asyncio, os, signal, sys
from hashlib import shake_128
from pathlib import Path
from agent.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
async def go():
    await store.sessions.create("killed", platform="cli", user="me")
    texts = [f"{n} " + shake_128(bytes([n])).hexdigest(500) for n in range(50)]
    await store.sessions.append_many("killed", [{"role": "user", "text": text} for text in texts])
asyncio.run(go())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def leave_log() -> Callable[[Path], None]:
    """Return a function that writes the session ``killed`` in a process that is killed: its 50 messages are in the log."""

    def leave(file: Path) -> None:
        done = subprocess.run([sys.executable, "-c", _LEAVES, str(file)], check=False, timeout=60)
        assert done.returncode == -9
        log = file.resolve()
        assert log.with_name(f"{log.name}-wal").stat().st_size > 25_000

    return leave


@pytest.fixture
def spoil() -> Callable[[Path], None]:
    """Return a function that damages a file without losing data: in an index that no query uses."""

    def spoil(file: Path) -> None:
        with closing(sqlite3.connect(f"{file.as_uri()}?immutable=1", uri=True)) as connection:
            (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tickets_by_call_row'").fetchone()
        with file.open("r+b") as damaged:
            damaged.seek((page - 1) * 4096)
            damaged.write(b"\xff" * 4096)

    return spoil


@pytest.fixture
def lose_all() -> Callable[[Path], None]:
    """Return a function that damages a file so that SQLite can't read any of it."""

    def lose_all(file: Path) -> None:
        file.write_bytes(b"GIF89a" + file.read_bytes()[6:])

    return lose_all
