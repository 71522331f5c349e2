"""Conformance of every store for artifacts: contents by digest, kept while a session refers to them."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.store.sqlite import SqliteStore
from toolcrib import Principal, StoreFailed
from toolcrib.contract.search import SearchFilter
from toolcrib.contract.store import Store

ODD = "odd \udc80\0"
LARGE = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(20_000))


async def begun(store: Store, *sessions: str) -> None:
    for session in sessions:
        await store.sessions.create(session, platform="cli", user="")
        await store.sessions.append(session, {"role": "user", "text": "hello"})


@pytest.mark.parametrize("data", [b"", b"\0\xff", b"a" * 100_000, LARGE], ids=["empty", "bytes", "alike", "unlike"])
async def test_a_content_comes_back_by_its_digest(store: Store, data: bytes) -> None:
    await begun(store, "s", ODD)
    for session in ("s", ODD):
        digest = await store.artifacts.put(session, data)
        assert digest == hashlib.sha256(data).hexdigest()
        assert await store.artifacts.get(session, digest) == await store.artifacts.get(session, digest[:16]) == data
        assert await store.artifacts.of(session) == {digest: len(data)}


async def test_only_a_session_that_refers_to_it_reads_it(store: Store) -> None:
    await begun(store, "mine", "theirs")
    digest = await store.artifacts.put("mine", b"private")
    assert await store.artifacts.get("theirs", digest) is None
    assert await store.artifacts.of("theirs") == {}
    assert await store.artifacts.get("mine", "0" * 16) is None
    other = await store.artifacts.put("mine", b"more")
    assert await store.artifacts.get("mine", "") is None, "which of the two is meant is not known"
    await store.artifacts.share("mine", "theirs")
    await store.artifacts.share("mine", "theirs")
    assert await store.artifacts.of("theirs") == await store.artifacts.of("mine") == {digest: 7, other: 4}


async def test_it_goes_with_the_last_session_that_refers_to_it(store: Store) -> None:
    await begun(store, "one", "two", "three")
    shared, own = await store.artifacts.put("one", b"shared"), await store.artifacts.put("one", b"own")
    await store.artifacts.put("two", b"shared")
    assert await store.delete(["one"]) == ["one"]
    assert await store.artifacts.get("one", own) is None
    assert await store.artifacts.get("two", shared) == b"shared"
    assert await store.delete(["two"]) == ["two"]
    assert await store.artifacts.get("two", shared) is None
    assert await store.artifacts.put("three", b"shared") == shared
    assert await store.artifacts.get("three", shared) == b"shared"


async def test_old_sessions_take_theirs_with_them(make_store: Callable[..., Store]) -> None:
    now = [100.0]
    store = make_store(clock=lambda: now[0])
    await begun(store, "old")
    digest = await store.artifacts.put("old", b"old")
    now[0] = 300.0
    await begun(store, "new")
    kept = await store.artifacts.put("new", b"new")
    if await store.prune(200.0):  # a store in memory holds nothing old
        assert await store.artifacts.get("old", digest) is None
    assert await store.artifacts.get("new", kept) == b"new"


async def test_one_that_is_put_while_another_is_forgotten_stays(store: Store) -> None:
    await begun(store, "stays", *map(str, range(8)))
    for number in range(8):
        await store.artifacts.put(str(number), LARGE)

    async def forget() -> None:
        for number in range(8):
            assert await store.delete([str(number)]) == [str(number)]

    async def put() -> str:
        digest = ""
        for _ in range(8):
            digest = await store.artifacts.put("stays", LARGE)
            assert await store.artifacts.get("stays", digest) == LARGE
        return digest

    _, digest = await asyncio.gather(forget(), put())
    assert await store.artifacts.get("stays", digest) == LARGE


async def test_the_newest_are_listed_of_those_that_a_filter_lets_through(make_store: Callable[..., Store]) -> None:
    now = [100.0]
    store = make_store(clock=lambda: now[0])
    people = {
        "mine": ("cli", ""),
        "also": ("api", ""),
        "anns": ("telegram", "ann"),
        "nobodys": ("telegram", ""),
        ODD: ("cli", ""),
    }
    for session, (platform, user) in people.items():
        await store.sessions.create(session, platform=platform, user=user, cwd=f"/{session[:3]}/src")
        await store.sessions.append(session, {"role": "user", "text": f"hello {session}"})
    await store.sessions.label("also", tags=["web"])
    digests = {}
    for session in people:
        now[0] += 10
        digests[session] = await store.artifacts.put(session, session[:3].encode())
    await store.artifacts.put("mine", b"mor")
    await store.artifacts.put("mine", b"min")

    async def named(limit: int = 99, **where: Any) -> list[str]:
        return [one.session_id for one in await store.artifacts.newest(SearchFilter(**where), limit)]

    odd = "odd \udc80\0"
    assert await named() == ["mine", odd, "nobodys", "anns", "also", "mine"]
    assert await named(2) == ["mine", odd]
    assert await named(principal=Principal()) == ["mine", odd, "also", "mine"]
    assert await named(principal=Principal("telegram", "ann")) == ["anns"]
    assert await named(principal=Principal("telegram")) == ["nobodys"]
    assert await named(session_id=ODD) == [odd]
    assert await named(platform="api") == await named(tags=["web"]) == await named(cwd="/als") == ["also"]
    assert await named(since=120.0, until=140.0) == ["anns", "also"]
    (found,) = await store.artifacts.newest(SearchFilter(session_id="anns"), 9)
    assert (found.title, found.digest, found.size, found.name) == (
        "hello anns",
        digests["anns"],
        3,
        f"artifact:{digests['anns'][:16]}",
    )
    assert found.at == 130.0


# -- a file beside the store -------------------------------------------------------------------------------------------


def beside(store: SqliteStore) -> Path:
    return store.path.with_name(f"{store.path.name}-artifacts")


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def test_equal_contents_are_kept_once_in_a_file_of_the_owners(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        await begun(store, "one", "two")
        assert not beside(store).exists(), "it is made when it is needed"
        for session in ("one", "two", "one"):
            await store.artifacts.put(session, LARGE)
        await store.artifacts.put("one", b"a" * 1_000_000)
    assert beside(store).stat().st_mode & 0o777 == 0o600
    assert len(LARGE) < beside(store).stat().st_size < 1.5 * len(LARGE)


async def test_nothing_of_it_is_in_a_file_once_it_is_forgotten(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db", backups=True)) as store:
        await begun(store, "one", "two")
        await store.artifacts.put("one", LARGE)
        await store.artifacts.put("two", b"apricots")
        backup = tmp_path / "store.db-artifacts-backup"
        with closing(sqlite3.connect(beside(store))) as connection, closing(sqlite3.connect(backup)) as copy:
            connection.backup(copy)
        await store.delete(["one"])
        assert not backup.exists()
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert LARGE[1000:1040] not in kept
    assert b"apricots" in kept


async def test_a_content_that_is_not_what_its_digest_says_is_not_read(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        await begun(store, "s")
        digest = await store.artifacts.put("s", b"the truth")
        change(beside(store), "UPDATE contents SET body = x'00' || 'a lie'", "UPDATE contents SET body = CAST(body AS BLOB)")
        with pytest.raises(StoreFailed, match=f"the artifact {digest[:16]} is damaged: .* match its digest.*--repair-store"):
            await store.artifacts.get("s", digest)


async def test_where_there_is_no_room_nothing_refers_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.store import _artifacts

    def full(data: bytes) -> bytes:
        raise sqlite3.OperationalError("database or disk is full")

    with closing(SqliteStore(tmp_path / "store.db")) as store:
        await begun(store, "s")
        with monkeypatch.context() as patch:
            patch.setattr(_artifacts, "pack", full)
            with pytest.raises(StoreFailed, match=r"store\.db-artifacts .*disk is full"):
                await store.artifacts.put("s", b"x")
        assert await store.artifacts.of("s") == {}
        digest = await store.artifacts.put("s", b"x")
        assert await store.artifacts.get("s", digest) == b"x"


async def test_a_copy_is_made_of_it_too(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db", backups=True)) as store:
        await begun(store, "s")
        await store.artifacts.put("s", b"x" * 500)
    with closing(sqlite3.connect(tmp_path / "store.db-artifacts-backup")) as copy:
        assert copy.execute("SELECT size FROM contents").fetchall() == [(500,)]


async def test_where_the_file_cannot_be_the_store_goes_on(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        await begun(store, "s")
        beside(store).mkdir()
        with pytest.raises(StoreFailed, match=r"store\.db-artifacts"):
            await store.artifacts.put("s", b"x")
        assert await store.artifacts.of("s") == {}
        assert await store.delete(["s"]) == ["s"]
