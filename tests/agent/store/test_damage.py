"""A store that was truncated or is gone: it is never silently created again, and its copies are not replaced."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.store import _backup, _damage, _file
from agent.store._backup import Backups
from agent.store._damage import StoreDamaged
from agent.store.repair import examine, repair
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed

Open = Callable[..., SqliteStore]


async def talk(store: SqliteStore, *names: str) -> None:
    for name in names:
        await store.sessions.create(name, platform="cli", user="me")
        await store.sessions.append_many(name, [{"role": "user", "text": f"{name} says"}])


async def names(store: SqliteStore) -> list[str]:
    return sorted(info.id for info in await store.sessions.list(100))


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for another process that may be creating the file: there is none."""
    monkeypatch.setattr(_damage, "_BEING_MADE", 0.0)


@pytest.fixture
def used(open_file: Open, file: Path) -> Path:
    """A closed store with four sessions, and its copy."""
    store = open_file(backups=True)
    asyncio.run(talk(store, "a", "b", "c", "d"))
    store.close()
    assert file.with_name("store.db-backup").exists()
    return file


@pytest.mark.parametrize("size", [0, 1, 50, 71, 99, 100, 511])
async def test_a_store_that_was_cut_to_less_than_a_page_is_restored(used: Path, open_file: Open, size: int) -> None:
    os.truncate(used, size)
    with pytest.raises(StoreDamaged, match=r"it (is empty|has only \d+ bytes? left), but .*-backup shows.*--repair-store"):
        open_file(backups=True)
    assert used.stat().st_size == size
    done = repair(used)
    assert done is not None
    assert done.backup is not None
    assert await names(open_file()) == ["a", "b", "c", "d"]


async def test_a_short_file_that_is_no_store_is_left_alone(file: Path, open_file: Open) -> None:
    """SQLite treats any file of less than 512 bytes as empty, and overwrites it."""
    file.parent.mkdir()
    file.write_text("dear diary")
    with pytest.raises(StoreFailed, match=r"too short for a database.*otherwise move it away"):
        open_file()
    assert file.read_text() == "dear diary"


async def test_a_store_that_is_gone_is_restored_or_begun_anew_by_a_named_way(used: Path, open_file: Open) -> None:
    kept = used.parent.with_name("kept")
    shutil.copytree(used.parent, kept)
    used.unlink()
    named = r"it is missing, but .*-backup shows.*--repair-store.*to start with an empty store, remove the files .*-\* too"
    with pytest.raises(StoreDamaged, match=named):
        open_file(backups=True)
    with pytest.raises(StoreDamaged, match="it is missing"):
        examine(used)
    assert not used.exists()
    assert repair(used) is not None
    store = open_file(backups=True)
    assert await names(store) == ["a", "b", "c", "d"]
    store.close()
    for path in [used, *used.parent.glob("store.db-*")]:
        path.unlink()
    assert await names(open_file(backups=True)) == []


async def test_a_repair_that_fails_leaves_no_file_where_none_was(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used.unlink()

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(StoreFailed, match="No space left"):
        repair(used)
    assert [path.name for path in used.parent.iterdir()] == ["store.db-backup"]


async def test_a_copy_is_not_replaced_by_one_with_far_fewer_sessions(
    used: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Only deletion by the user reduces the number of sessions, and a deletion also removes the copies."""
    backup = used.with_name("store.db-backup")
    before = backup.read_bytes()
    used.unlink()
    store = open_file()
    await talk(store, "new")
    store.close()
    os.utime(backup, (1, 1))
    store = open_file(backups=True)
    await store.sessions.append_many("new", [{"role": "user", "text": "more"}])
    with caplog.at_level(logging.WARNING, "agent.store"):
        store.close()
    assert backup.read_bytes() == before
    assert "has 1 sessions, but its backup" in caplog.text
    store = open_file(backups=True)
    await talk(store, "newer")
    store.close()  # half as many
    assert backup.read_bytes() != before
    with closing(sqlite3.connect(used.with_name("store.db-backup-before"))) as older:
        assert older.execute("SELECT count(*) FROM sessions").fetchone() == (4,)


async def test_a_copy_that_is_being_made_is_forgotten_too(used: Path) -> None:
    """A killed process or a living one may have begun the copy, so it may hold deleted data."""
    left = used.with_name(f"store.db-backup-new-{os.getppid()}")
    left.write_bytes(b"secret")
    Backups(used).forget()
    assert [path.name for path in used.parent.iterdir()] == ["store.db"]


async def test_a_copy_of_what_was_forgotten_meanwhile_is_not_kept(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = _backup._copied

    def forgotten(connection: sqlite3.Connection, target: Path) -> None:
        copied(connection, target)
        Backups(used).forget()

    monkeypatch.setattr(_backup, "_copied", forgotten)
    with closing(sqlite3.connect(used)) as connection:
        Backups(used).make(connection)
    assert Backups(used).found() == []


async def test_a_damaged_store_whose_first_page_is_foreign_is_restored_from_its_copy(used: Path, open_file: Open) -> None:
    with closing(sqlite3.connect(used.with_name("other.db"), isolation_level=None)) as other:
        other.execute("CREATE TABLE t (a TEXT)")
        other.execute("PRAGMA application_id = 5")
    foreign = used.with_name("other.db").read_bytes()
    used.write_bytes(foreign[:4096])
    assert repair(used) is not None
    assert await names(open_file()) == ["a", "b", "c", "d"]


async def test_a_file_that_could_not_be_made_whole_is_no_emptied_one(
    file: Path, open_file: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the file stays empty; once there is room the store is created."""
    evidence = tmp_path / "contents.db"
    evidence.write_bytes(b"old contents")

    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(_file, "_use_wal", full)
        with pytest.raises(StoreFailed, match="disk is full"):
            open_file(evidence=[evidence])
    assert not file.exists()
    assert await names(open_file(evidence=[evidence])) == []
