"""Copies of the store: when they are made, how many are kept, and that they do not keep deleted data."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import shake_128
from pathlib import Path

import pytest

from agent.store import _backup, _database, _schema
from agent.store.repair import repair
from agent.store.sqlite import SqliteStore

Open = Callable[..., SqliteStore]
HOUR = 3600.0


async def say(store: SqliteStore, *texts: str, session: str = "s") -> None:
    await store.sessions.create(session, platform="cli", user="me")
    await store.sessions.append_many(session, [{"role": "user", "text": text} for text in texts])


async def close_after(open_file: Open, *texts: str) -> None:
    store = open_file(backups=True)
    await say(store, *texts)
    store.close()


def copies(file: Path) -> dict[str, int]:
    """Return the number of messages in each copy."""
    found = {}
    for path in sorted(path for path in file.parent.glob("store.db-backup*") if "new" not in path.name):
        assert path.stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(path)) as connection:
            found[path.name] = connection.execute("SELECT count(*) FROM messages").fetchone()[0]
    return found


def grow_old(path: Path, hours: float) -> None:
    then = time.time() - hours * HOUR
    os.utime(path, (then, then))


async def test_a_store_that_is_closed_is_copied_every_ten_minutes_at_most(open_file: Open, file: Path) -> None:
    await close_after(open_file, "a")
    assert copies(file) == {"store.db-backup": 1}
    grow_old(file.with_name("store.db-backup"), 9 / 60)
    await close_after(open_file, "b")
    assert copies(file) == {"store.db-backup": 1}
    grow_old(file.with_name("store.db-backup"), 11 / 60)
    await close_after(open_file, "c")
    assert copies(file) == {"store.db-backup": 3, "store.db-backup-before": 1}
    assert len(list(file.parent.iterdir())) == 3


async def test_the_older_copy_is_a_day_older(open_file: Open, file: Path) -> None:
    newest, older = file.with_name("store.db-backup"), file.with_name("store.db-backup-before")
    await close_after(open_file, "a")
    grow_old(newest, 50)
    await close_after(open_file, "b")
    assert copies(file) == {"store.db-backup": 2, "store.db-backup-before": 1}
    grow_old(newest, 10)
    await close_after(open_file, "c")
    assert copies(file) == {"store.db-backup": 3, "store.db-backup-before": 2}  # 50 and 10 hours old
    grow_old(newest, 7)
    grow_old(older, 20)
    await close_after(open_file, "d")
    assert copies(file) == {"store.db-backup": 4, "store.db-backup-before": 2}  # the copies are less than a day apart


@pytest.mark.parametrize(
    "content",
    [os.urandom(9_000), b"", b"SQLite format 3\0" + bytes(9_000), "a pipe", "another database"],
    ids=["random", "empty", "zeros", "pipe", "database"],
)
async def test_another_file_of_that_name_is_no_copy(open_file: Open, file: Path, content: bytes | str) -> None:
    """The file is replaced at once, does not replace the older copy, and restores nothing."""
    newest, older = file.with_name("store.db-backup"), file.with_name("store.db-backup-before")
    await close_after(open_file, "a")
    newest.rename(older)
    grow_old(older, 50)
    if content == "a pipe":
        os.mkfifo(newest)
    elif content == "another database":
        with closing(sqlite3.connect(newest)) as connection:
            connection.execute("CREATE TABLE sessions (a)")
    else:
        assert isinstance(content, bytes)
        newest.write_bytes(content)
    kept = file.read_bytes()
    os.truncate(file, 4_096)
    done = repair(file)
    assert done is not None
    assert done.backup == pytest.approx(older.stat().st_mtime)
    file.write_bytes(kept)
    await close_after(open_file, "b")
    assert copies(file) == {"store.db-backup": 2, "store.db-backup-before": 1}


async def test_a_store_in_which_nobody_said_anything_is_not_copied(open_file: Open, file: Path) -> None:
    store = open_file(backups=True)
    await store.sessions.create("s", platform="cli", user="me")
    store.close()
    assert copies(file) == {}
    await say(open_file(), "a")
    assert copies(file) == {}


async def test_a_store_that_stays_open_is_copied_while_it_is_used(
    open_file: Open, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_database, "_LOOKS_EVERY", 0.0)
    store = open_file(backups=True)
    for number in range(200):
        await say(store, str(number))
        if copies(file):
            break
    assert 0 < copies(file)["store.db-backup"] <= 200
    await say(store, "and on")


async def test_what_is_forgotten_is_in_no_copy(open_file: Open, file: Path) -> None:
    await close_after(open_file, "secret")
    grow_old(file.with_name("store.db-backup"), 50)
    await close_after(open_file, "secret too")
    assert len(copies(file)) == 2
    store = open_file(backups=True)
    assert await store.prune(time.time() + 1) == 1
    assert copies(file) == {}
    await say(store, "new")
    store.close()
    assert copies(file) == {"store.db-backup": 1}
    assert b"secret" not in file.with_name("store.db-backup").read_bytes()


async def test_a_damaged_store_does_not_replace_its_copy(open_file: Open, file: Path) -> None:
    await close_after(open_file, *(shake_128(bytes([n])).hexdigest(3000) for n in range(50)))
    grow_old(file.with_name("store.db-backup"), 7)
    store = open_file(backups=True)
    await say(store, "more")
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'calls_by_id'").fetchone()
    with file.open("r+b") as damaged:
        damaged.seek((page - 1) * 4096)
        damaged.write(b"\xff" * 4096)
    store.close()
    assert copies(file) == {"store.db-backup": 50}


async def test_a_disk_with_little_room_gets_no_copy(open_file: Open, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store itself needs the space."""
    usage = shutil.disk_usage(file.parent.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=200 * 1024 * 1024))
    await close_after(open_file, "a")
    assert copies(file) == {}


async def test_a_process_that_wrote_nothing_makes_no_copy(open_file: Open, file: Path) -> None:
    with closing(open_file()) as store:
        await say(store, "a")
    with closing(open_file(backups=True)) as store:
        await store.sessions.list()
    assert copies(file) == {}


@pytest.mark.parametrize(("megabytes", "minutes"), [(1, 10), (50, 26), (500, 267)])
async def test_the_larger_a_store_is_the_rarer_it_is_copied(
    file: Path, megabytes: int, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume of copies stays bounded."""
    usage = shutil.disk_usage(file.parent.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 40))
    file.parent.mkdir()
    newest = file.with_name("store.db-backup")
    for path in (file, newest):
        path.write_bytes(b"SQLite format 3\0".ljust(68, b"\0") + _schema.APPLICATION_ID.to_bytes(4, "big"))
        os.truncate(path, megabytes * 1024 * 1024)
    for age, is_due in ((minutes - 1, False), (minutes + 1, True)):
        grow_old(newest, age / 60)
        assert _backup.Backups(file).is_due() is is_due
    os.truncate(file, _backup.LARGEST + 1)
    assert not _backup.Backups(file).is_due()
