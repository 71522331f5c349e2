"""The writer's thread: batches, errors within one, whom it keeps waiting, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store._database import Database
from agent.store._jobs import Job
from agent.store._writer import Writer
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed, ToolCall

Open = Callable[..., SqliteStore]


async def talk(store: SqliteStore, *texts: str) -> None:
    await store.sessions.create("s", platform="cli", user="me")
    await store.sessions.append_many("s", [{"role": "user", "text": text} for text in texts])


async def texts(store: SqliteStore) -> list[str]:
    return [str(message["text"]) for message in await store.sessions.messages("s")]


def locked(file: Path) -> sqlite3.Connection:
    """Take the write lock, as another process does."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


async def turns(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_what_waits_is_written_together_and_a_failure_takes_nothing_else_back(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store, "first")
    other = locked(file)
    appends = [asyncio.ensure_future(store.sessions.append("s", {"role": "user", "text": str(number)})) for number in range(10)]
    never = asyncio.ensure_future(store.sessions.append("never", {"role": "user", "text": "x"}))
    more = [asyncio.ensure_future(store.sessions.append("s", {"role": "user", "text": str(number)})) for number in range(10, 20)]
    await turns()
    assert not any(task.done() for task in (*appends, never, *more))
    before = other.execute("PRAGMA data_version").fetchone()
    other.execute("COMMIT")
    await asyncio.wait([*appends, never, *more])
    assert isinstance(never.exception(), KeyError)
    assert await texts(store) == ["first", *map(str, range(20))]
    assert other.execute("PRAGMA data_version").fetchone()[0] == before[0] + 1
    other.close()


async def test_reads_and_the_loop_go_on_while_another_process_holds_the_lock(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store, "a")
    other = locked(file)
    writing = asyncio.ensure_future(store.sessions.append("s", {"role": "user", "text": "b"}))
    for _ in range(20):
        assert await texts(store) == ["a"]
    assert not writing.done()
    other.close()
    await writing
    assert await texts(store) == ["a", "b"]


async def test_all_that_waited_too_long_are_told(open_file: Open, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.store._file.BUSY_SECONDS", 0.05)
    store = open_file()
    await talk(store, "a")
    other = locked(file)
    found = await asyncio.gather(*(talk(store, "b") for _ in range(5)), return_exceptions=True)
    assert [type(error) for error in found] == [StoreFailed] * 5
    assert len({id(error) for error in found}) == 5
    other.close()
    await talk(store, "c")
    assert await texts(store) == ["a", "c"]


async def test_an_awaited_write_is_seen_by_the_next_read(open_file: Open) -> None:
    store = open_file()
    await talk(store)

    async def call(name: str) -> None:
        for number in range(30):
            await store.ledger.open(ToolCall(f"{name} {number}", "x"), "s")
            assert await store.ledger.get("s", f"{name} {number}") is not None

    await asyncio.gather(*(call(str(number)) for number in range(6)))


async def test_a_write_whose_caller_was_cancelled_is_made(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store)
    other = locked(file)
    writing = asyncio.ensure_future(store.sessions.append("s", {"role": "user", "text": "b"}))
    await turns()
    writing.cancel()
    await asyncio.wait({writing})
    other.close()
    await store.sessions.append("s", {"role": "user", "text": "c"})
    assert await texts(store) == ["b", "c"]


async def test_close_waits_for_what_was_handed_over(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store)
    other = locked(file)
    writing = [asyncio.ensure_future(store.sessions.append("s", {"role": "user", "text": str(number)})) for number in range(5)]
    await turns()
    closing = asyncio.ensure_future(asyncio.to_thread(store.close))
    await turns()
    other.close()
    await asyncio.gather(closing, *writing)
    assert await texts(open_file()) == list(map(str, range(5)))


async def test_closing_ends_every_thread(file: Path) -> None:
    before = threading.active_count()
    store = SqliteStore(file, late=True)
    assert threading.active_count() == before
    await asyncio.gather(talk(store), *(store.sessions.list() for _ in range(20)))
    end = store.signals.listen(lambda topic: None)
    assert before + 2 < threading.active_count() <= before + 5
    store.close()
    assert threading.active_count() == before
    end()


def test_a_store_works_where_no_loop_runs_and_in_one_after_another(open_file: Open) -> None:
    store = open_file()
    with pytest.raises(StopIteration):
        talk(store, "a").send(None)
    for _ in range(2):
        asyncio.run(store.sessions.append("s", {"role": "user", "text": "b"}))
    assert asyncio.run(texts(store)) == ["a", "b", "b"]


async def test_a_loop_that_ended_holds_nobody_up(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store)
    other = locked(file)

    def leaves() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(store.sessions.append("s", {"role": "user", "text": "left"}))
        for _ in range(10):
            loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.wait({task}))
        loop.close()

    await asyncio.to_thread(leaves)
    other.close()
    await store.sessions.append("s", {"role": "user", "text": "here"})
    assert await texts(store) == ["left", "here"]


async def test_a_transaction_that_breaks_fails_all_that_are_in_it(file: Path) -> None:
    """A full disk makes SQLite roll back the whole transaction; a limit on pages stands in for it."""
    database = Database(file, "NORMAL")
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    await database.write(lambda connection: connection.execute("PRAGMA max_page_count = 60"))
    gate = threading.Event()
    held = asyncio.ensure_future(database.write(lambda connection: gate.wait()))
    small = [
        asyncio.ensure_future(database.write(lambda connection: connection.execute("INSERT INTO t VALUES (1)"))) for _ in range(3)
    ]
    large = asyncio.ensure_future(
        database.write(lambda connection: connection.execute("INSERT INTO t VALUES (zeroblob(3000000))"))
    )
    await turns()
    gate.set()
    found = await asyncio.gather(held, *small, large, return_exceptions=True)
    told = [error for error in found[1:4] if isinstance(error, StoreFailed)]
    assert isinstance(found[-1], StoreFailed)
    assert "disk is full" in str(found[-1])
    kept = (await database.row("SELECT count(*) FROM t"))[0]
    assert kept == 3 - len(told), "a failed write left nothing in the file, and the others are stored"
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES (2)"))
    assert (await database.row("SELECT count(*) FROM t"))[0] == kept + 1
    database.close()


async def test_whatever_an_operation_raises_the_thread_goes_on(file: Path) -> None:
    database = Database(file, "NORMAL")

    def ends(connection: sqlite3.Connection) -> None:
        raise SystemExit(3)

    for way in (database.write, database.read, database.alone):
        with pytest.raises(SystemExit):
            await way(ends)
    assert await database.row("SELECT 1") == (1,)
    assert await database.run("DELETE FROM sessions") == 0
    database.close()


async def test_what_was_written_is_freed_where_it_was_written(tmp_path: Path) -> None:
    """A cursor that is freed in another thread resets a statement that the writer may already use again."""
    freed: list[str] = []

    class Cursor(sqlite3.Cursor):
        def __del__(self) -> None:
            freed.append(threading.current_thread().name)

    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    writer = Writer(tmp_path / "x.db", lambda: connection)

    def write(connection: sqlite3.Connection) -> sqlite3.Cursor:
        return connection.cursor(Cursor).execute("CREATE TABLE IF NOT EXISTS t (x)")

    def fail(connection: sqlite3.Connection) -> None:
        cursor = write(connection)
        raise ValueError(str(cursor.rowcount))

    for work in (write, fail):
        job: Job[object] = Job(work)
        writer.hand(job)
        with contextlib.suppress(ValueError):
            assert await job is None
    writer.close()
    assert freed == ["writes x.db"] * 2
    connection.close()
