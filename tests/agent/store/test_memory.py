"""The store in memory: it has no file and no thread, and it outlives loops, forks and ``close``."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.store._memory_database import MemoryDatabase
from agent.store.memory import MemoryStore
from toolcrib import LeaseLost, StoreFailed
from toolcrib.contract.store import Fence, Grant


async def say(store: MemoryStore, session: str, *texts: str) -> None:
    await store.sessions.create(session, platform="cli", user="me")
    await store.sessions.append_many(session, [{"role": "user", "text": text} for text in texts])


async def said(store: MemoryStore, session: str) -> list[object]:
    return [message["text"] for message in await store.sessions.messages(session)]


async def use_all(store: MemoryStore) -> None:
    await say(store, "a", "the needle", "x" * 100_000)
    digest = await store.artifacts.put("a", b"large")
    assert await store.artifacts.get("a", digest[:8]) == b"large"
    assert [hit.seq for hit in await store.search.find("needle")] == [0]
    assert await store.delete(["a"]) == ["a"]
    assert await store.search.find("needle") == []
    assert await store.artifacts.get("a", digest) is None
    assert await store.prune(float("inf")) == 0
    assert await store.free()


async def test_it_makes_no_file_and_no_thread_and_never_suspends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    threads = threading.enumerate()
    store = MemoryStore()
    with pytest.raises(StopIteration):  # it finishes without suspending, though a loop runs
        use_all(store).send(None)
    store.close()
    assert threading.enumerate() == threads
    assert list(tmp_path.iterdir()) == []


def test_it_outlives_close_and_a_closed_loop() -> None:
    store = MemoryStore()
    asyncio.run(say(store, "a", "one"))
    store.close()
    asyncio.run(say(store, "a", "two"))
    assert asyncio.run(said(store, "a")) == ["one", "two"]


def test_a_fork_has_a_copy() -> None:
    store = MemoryStore()
    asyncio.run(say(store, "a", "one"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn about a fork with threads
        child = os.fork()
    if not child:
        status = 1
        try:
            asyncio.run(say(store, "a", "two"))
            status = int(asyncio.run(said(store, "a")) != ["one", "two"])
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(said(store, "a")) == ["one"]


def test_threads_use_it_in_turn() -> None:
    store = MemoryStore()
    asyncio.run(say(store, "a"))

    def use(number: int) -> None:
        for text in range(50):
            asyncio.run(say(store, "a", f"{number} {text}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert len(set(asyncio.run(said(store, "a")))) == 400


async def test_a_write_is_whole_or_not_at_all() -> None:
    database = MemoryDatabase()

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO leases (name, owner, token, expires_at) VALUES ('a', '', 1, 0)")
        raise KeyError("a")

    with pytest.raises(KeyError):
        await database.write(work)
    assert await database.row("SELECT count(*) FROM leases") == (0,)
    with pytest.raises(StoreFailed, match="no such table"):
        await database.run("DELETE FROM unknown")


async def test_its_connection_is_closed_with_it() -> None:
    database = MemoryDatabase()
    connection = await database.read(lambda connection: connection)
    del database
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


async def test_grants_that_are_kept_elsewhere_need_the_lease_too() -> None:
    elsewhere = MemoryStore().grants
    store = MemoryStore(elsewhere)
    await say(store, "s", "hello")
    lease = await store.leases.take("s", "me", 60.0)
    assert lease is not None
    mine = store.fenced(Fence(lease))
    await mine.grants.add(Grant("g", "session", "k", "/", session_id="s"))
    await mine.grants.add(Grant("p", "always", "k", "/"))
    await store.leases.release(lease)
    assert await store.leases.take("s", "other", 60.0) is not None
    with pytest.raises(LeaseLost):
        await mine.grants.revoke("g")
    assert [grant.id for grant in await mine.fenced(Fence()).grants.all("s")] == ["g", "p"]
    assert await store.delete(["s"]) == ["s"]
    assert [grant.id for grant in await elsewhere.all("s")] == ["p"]
