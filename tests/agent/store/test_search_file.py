"""The search index of a SQLite store: a separate file that never blocks it, and is rebuilt whenever it is wrong."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.store.repair import repair
from agent.store.search.sqlite import SqliteSearch
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed

Open = Callable[..., SqliteStore]


async def say(store: SqliteStore, session: str, *texts: str) -> None:
    await store.sessions.create(session, platform="cli", user="")
    await store.sessions.append_many(session, [{"role": "user", "text": text} for text in texts])


async def found(store: SqliteStore, query: str) -> list[tuple[str, int]]:
    return [(hit.session_id, hit.seq) for hit in await store.search.find(query, limit=100)]


def index_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-search")


async def test_it_comes_with_the_first_search_for_its_owner_alone(open_file: Open, file: Path) -> None:
    store = open_file()
    await say(store, "a", "one")
    assert not index_of(file).exists()
    assert await found(store, "one") == [("a", 0)]
    assert index_of(file).stat().st_mode & 0o777 == 0o600


async def test_it_holds_no_text_of_what_was_forgotten(open_file: Open, file: Path) -> None:
    now = [100.0]
    store = open_file(clock=lambda: now[0])
    await say(store, "old", "apricots and more", *(f"filler{number}" for number in range(700)))
    now[0] = 300.0
    await say(store, "new", "and more")
    assert await found(store, "and") == [("new", 0), ("old", 0)]
    assert await store.prune(200.0) == 1
    assert await found(store, "and") == [("new", 0)]
    assert await found(store, "filler*") == []
    await store.sessions.append("new", {"role": "user", "text": "and again"})
    assert await found(store, "and") == [("new", 1), ("new", 0)]
    store.close()
    assert b"apricots" not in index_of(file).read_bytes()
    assert b"again" in index_of(file).read_bytes()


async def test_the_last_messages_may_be_forgotten(open_file: Open) -> None:
    """SQLite gives their numbers to the next messages."""
    now = [300.0]
    store = open_file(clock=lambda: now[0])
    await say(store, "new", "one")
    now[0] = 100.0
    await say(store, "old", "two", "two")
    assert await found(store, "two") == [("old", 1), ("old", 0)]
    assert await store.prune(200.0) == 1
    await say(store, "newest", "three", "three")
    assert await found(store, "two OR three OR one") == [("newest", 1), ("newest", 0), ("new", 0)]


async def test_a_session_that_spoke_while_it_was_forgotten_stays_findable(open_file: Open) -> None:
    store = open_file()
    await say(store, "a", "apricots")
    assert await found(store, "apricots") == [("a", 0)]
    await store.search.forget(["a"])
    assert await found(store, "apricots") == []
    await store.search.forgotten(["a"])
    assert await found(store, "apricots") == [("a", 0)]


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
async def test_a_damaged_one_is_made_again(open_file: Open, file: Path, damage: str) -> None:
    store = open_file()
    await say(store, "a", *(f"word{number} apricots" for number in range(300)))
    await found(store, "apricots")
    store.close()
    whole = index_of(file).read_bytes()
    index_of(file).write_bytes({"cut": whole[: len(whole) // 2], "noise": b"\xa5" * len(whole), "empty": b""}[damage])
    assert len(await found(open_file(), "apricots")) == 100


async def test_one_that_was_made_for_other_messages_is_made_again(open_file: Open, file: Path) -> None:
    store = open_file()
    await say(store, "a", "one", "two")
    await found(store, "one")
    store.close()
    file.unlink()
    store = open_file()
    await say(store, "b", "two", "three", "four")
    assert await found(store, "one") == []
    assert await found(store, "two") == [("b", 0)]


async def test_a_repaired_store_is_searched_as_it_is_then(open_file: Open, file: Path, spoil: Callable[[Path], None]) -> None:
    store = open_file()
    for session in "abc":
        await say(store, session, f"apricots {session}")
    await found(store, "apricots")
    store.close()
    spoil(file)
    assert repair(file) is not None
    names = {name for name, _ in await found(open_file(), "apricots")}
    assert names == {info.id for info in await open_file().sessions.list()} != set()


async def test_where_it_cannot_be_made_the_search_fails_and_the_store_goes_on(open_file: Open, file: Path) -> None:
    store = open_file()
    index_of(file).mkdir()
    await say(store, "a", "one")
    with pytest.raises(StoreFailed, match=r"store\.db-search is not a file"):
        await found(store, "one")
    await store.sessions.append("a", {"role": "user", "text": "two"})
    index_of(file).rmdir()
    assert await found(store, "two") == [("a", 1)]


async def test_a_message_that_cannot_be_read_hides_no_other(open_file: Open, file: Path) -> None:
    store = open_file()
    await say(store, "a", "apricots", "more apricots", "again apricots")
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE messages SET body = '{' WHERE seq = 1")
    assert await found(store, "apricots") == [("a", 2), ("a", 0)]


async def test_several_take_in_the_same_messages_once(open_file: Open, file: Path) -> None:
    """Open one file in several stores, as several processes do."""
    stores = [open_file() for _ in range(4)]
    await say(stores[0], "a", *(f"apricots {number}" for number in range(1_200)))
    counts = await asyncio.gather(*(found(store, "apricots") for store in stores for _ in range(3)))
    assert {len(set(one)) for one in counts} == {100}
    with closing(sqlite3.connect(index_of(file))) as index:
        assert index.execute("SELECT count(*) FROM words WHERE words MATCH 'apricots'").fetchone() == (1_200,)


async def test_a_copy_of_the_store_alone_is_searched(open_file: Open, file: Path, tmp_path: Path) -> None:
    store = open_file()
    await say(store, "a", "apricots")
    store.close()
    copy = tmp_path / "copy.db"
    shutil.copy(file, copy)
    store = SqliteStore(copy)
    assert isinstance(store.search, SqliteSearch)
    assert await found(store, "apricots") == [("a", 0)]
    store.close()


async def test_an_index_of_words_in_json_is_made_anew(open_file: Open, file: Path) -> None:
    """In the index's first version, the words of results contained the letters of JSON escapes."""
    store = open_file()
    await store.sessions.create("a", platform="cli", user="")
    answer = '{"output": "the\\nharbour"}'
    await store.sessions.append("a", {"role": "results", "results": [{"call_id": "1", "name": "t", "text": answer}]})
    assert await found(store, "harbour") == [("a", 0)]
    store.close()
    with closing(sqlite3.connect(index_of(file))) as index:
        index.execute("INSERT INTO words (words) VALUES ('delete-all')")
        index.execute("INSERT INTO words (rowid, said, place) VALUES (1, 'output the nharbour', 's1 rresults')")
        index.execute("PRAGMA user_version = 1")
        index.commit()
    store = open_file()
    assert await found(store, "harbour") == [("a", 0)]
    assert await found(store, "nharbour") == []
