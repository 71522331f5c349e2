"""Repairs at the same time as another process, another repair, or their own death."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import shake_128
from pathlib import Path

import pytest

from agent.store import _damage, _file, _locking
from agent.store import repair as repairing
from agent.store._damage import StoreDamaged
from agent.store._mending import mend
from agent.store.repair import examine, repair
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed

Open = Callable[..., SqliteStore]
OnFile = Callable[[Path], None]
TEXTS = [f"{number} " + shake_128(bytes([number])).hexdigest(300) for number in range(60)]


async def talk(store: SqliteStore, name: str = "s") -> None:
    await store.sessions.create(name, platform="cli", user="me")
    await store.sessions.append_many(name, [{"role": "user", "text": text} for text in TEXTS])


@pytest.fixture
def used(open_file: Open, file: Path) -> Path:
    store = open_file()
    asyncio.run(talk(store))
    store.close()
    return file


async def texts(store: SqliteStore, name: str = "s") -> list[str]:
    return [record["text"] for record in await store.sessions.messages(name)]


REPAIRS = """
import sys
from pathlib import Path
from agent.store.repair import repair
print(repair(Path(sys.argv[1])))
"""


def repair_elsewhere(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", REPAIRS, str(file)], check=False, capture_output=True, text=True, timeout=60)


@contextmanager
def stopped(monkeypatch: pytest.MonkeyPatch, name: str, file: Path) -> Iterator[None]:
    """Begin a repair in a thread that waits before its step ``name``; at the exit, let it continue and end."""
    reached, may_go = threading.Event(), threading.Event()
    step = getattr(repairing, name)

    def wait(*args: object) -> object:
        reached.set()
        assert may_go.wait(60)
        return step(*args)

    monkeypatch.setattr(repairing, name, wait)
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(repair(file)))
    thread.start()
    try:
        assert reached.wait(60)
        yield
    finally:
        may_go.set()
        thread.join(60)
    assert isinstance(done[0], repairing.Repaired)


@pytest.mark.parametrize("step", ["_read_out", "mend", "_examine"])
async def test_of_two_repairs_at_once_one_is_refused(
    used: Path, open_file: Open, monkeypatch: pytest.MonkeyPatch, step: str, spoil: OnFile
) -> None:
    spoil(used)
    with stopped(monkeypatch, step, used):
        other = repair_elsewhere(used)
        assert "in use by another process" in other.stderr
    assert repair(used) is None
    assert await texts(open_file()) == TEXTS


@pytest.mark.parametrize("emptied", [False, True])
async def test_a_draft_that_loses_its_rows_is_not_used(
    used: Path, monkeypatch: pytest.MonkeyPatch, spoil: OnFile, *, emptied: bool
) -> None:
    """An empty store must not replace a damaged one if another process removes or replaces the draft."""
    spoil(used)
    data = used.read_bytes()

    def removed(connection: sqlite3.Connection, now: float) -> object:
        done = mend(connection, now)
        (fresh,) = used.parent.glob(f"store.db-repairing-{os.getpid()}")
        fresh.unlink()
        if emptied:
            fresh.write_bytes(b"")
        return done

    monkeypatch.setattr(repairing, "mend", removed)
    with pytest.raises(StoreFailed, match=r"could not be repaired|is not used; run the repair again"):
        repair(used)
    assert used.read_bytes() == data
    assert [path.name for path in used.parent.iterdir()] == ["store.db"]


async def test_who_opens_during_a_repair_waits_and_writes_to_the_new_file(
    used: Path, open_file: Open, monkeypatch: pytest.MonkeyPatch, spoil: OnFile
) -> None:
    """The other process's writes are there afterwards."""
    spoil(used)
    opened = threading.Event()
    tries = _locking._try

    def tried(descriptor: int, how: int) -> bool:
        got = tries(descriptor, how)
        if threading.current_thread().name == "opens":
            opened.set()
        return got

    monkeypatch.setattr(_locking, "_try", tried)
    stores: list[SqliteStore] = []
    thread = threading.Thread(target=lambda: stores.append(open_file()), name="opens")
    with stopped(monkeypatch, "mend", used):
        thread.start()
        assert opened.wait(60)
        assert stores == []
    thread.join(60)
    await talk(stores[0], "later")
    stores[0].close()
    store = open_file()
    assert await texts(store) == TEXTS
    assert await texts(store, "later") == TEXTS


async def test_who_waits_too_long_for_a_repair_is_told_so(used: Path, open_file: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_file, "BUSY_SECONDS", 0.1)
    with _locking.replacing(used), pytest.raises(StoreFailed, match="is being repaired by another process; try again"):
        open_file()


# -- its own death -----------------------------------------------------------------------------------------------------

DIES = """
import os, signal, sys
from pathlib import Path
from agent.store.repair import repair
left = int(sys.argv[2])
def dying(step):
    def act(*args, **options):
        global left
        done = step(*args, **options)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return act
def refused(*args):
    raise OSError("no hard links here")
os.link = refused if sys.argv[3] == "rename" else dying(os.link)
Path.rename, Path.replace = dying(Path.rename), dying(Path.replace)
repair(Path(sys.argv[1]))
"""


@pytest.mark.full
@pytest.mark.parametrize("how", ["link", "rename"])
async def test_a_repair_that_dies_after_any_step_is_finished_by_the_next(
    used: Path, open_file: Open, how: str, leave_log: OnFile, spoil: OnFile
) -> None:
    """After each step, the log with the last messages is still beside the file, or has been read."""
    leave_log(used)
    spoil(used)
    log = used.with_name("store.db-wal").read_bytes()
    kept = used.parent.with_name("kept")
    shutil.copytree(used.parent, kept)
    for steps in range(1, 10):
        shutil.rmtree(used.parent)
        shutil.copytree(kept, used.parent)
        done = subprocess.run([sys.executable, "-c", DIES, str(used), str(steps), how], check=False, timeout=60)
        if done.returncode == 0:
            break
        assert done.returncode == -9
        if used.with_name("store.db-repaired").exists():
            for _ in range(2):  # no new store is created
                with pytest.raises(StoreDamaged, match=r"repair was not finished.*--repair-store"):
                    open_file()
            finished = repair(used)
            assert finished is not None
            assert finished.is_finished_only
        assert repair(used) is None
        examine(used)
        store = open_file()
        assert len(await texts(store, "killed")) == 50
        store.close()
        names = {path.name for path in used.parent.iterdir()}
        assert len(names) == 4, names  # the new file, and the damaged one with its log and index
        (saved,) = used.parent.glob("store.db-damaged-*-wal")
        assert saved.read_bytes() == log
    assert steps == 6  # prepare it, keep the old file, its log, its index, move it into place


async def test_a_full_disk_in_the_last_steps_leaves_a_repair_to_finish(
    used: Path, open_file: Open, monkeypatch: pytest.MonkeyPatch, spoil: OnFile
) -> None:
    spoil(used)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(StoreFailed, match=r"is not finished .*No space left.*run the repair again"):
            repair(used)
    assert repair(used) is not None
    assert await texts(open_file()) == TEXTS


async def test_the_draft_of_a_process_that_died_is_removed(used: Path, spoil: OnFile) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        pass
    left = used.with_name(f"store.db-repairing-{process.pid}")
    left.write_bytes(b"half")
    ours = used.with_name(f"store.db-repairing-{os.getppid()}")
    ours.write_bytes(b"of one that lives")
    spoil(used)
    repair(used)
    assert (left.exists(), ours.exists()) == (False, True)


# -- links -------------------------------------------------------------------------------------------------------------


async def test_a_store_behind_a_symbolic_link_has_its_log_where_the_file_is(
    used: Path, open_file: Open, tmp_path: Path, leave_log: OnFile, spoil: OnFile
) -> None:
    real = tmp_path / "elsewhere" / "real.db"
    real.parent.mkdir()
    used.rename(real)
    used.symlink_to(real)
    leave_log(used)
    spoil(real)
    done = repair(used)
    assert done is not None
    assert used.is_symlink()
    assert done.kept.parent == real.parent
    store = open_file(backups=True)
    assert len(await texts(store, "killed")) == 50
    await talk(store, "later")
    store.close()
    assert real.with_name("real.db-backup").exists()
    assert [path.name for path in used.parent.iterdir()] == ["store.db"]


# -- what is not damaged -----------------------------------------------------------------------------------------------


async def test_a_sound_file_is_not_repaired(used: Path, open_file: Open) -> None:
    before = used.read_bytes()
    assert repair(used) is None
    store = open_file()
    await store.sessions.list()
    assert repair(used) is None  # while it is in use
    store.close()
    assert used.read_bytes() == before
    assert [path.name for path in used.parent.iterdir()] == ["store.db"]


async def test_a_file_that_is_locked_is_not_taken_for_damaged(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(used, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(_damage, "_PATIENCE", 0.1)
        for act in (examine, repair):
            with pytest.raises(StoreFailed, match="was locked by another process") as raised:
                act(used)
            assert not isinstance(raised.value, StoreDamaged)


async def test_a_record_that_cannot_be_read_is_damage_that_the_whole_check_finds(used: Path, open_file: Open) -> None:
    """SQLite only checks its pages. The other messages are kept."""
    with closing(sqlite3.connect(used, isolation_level=None)) as other:
        other.execute("UPDATE messages SET body = '{\"role' WHERE seq = 59")
    with pytest.raises(StoreDamaged, match="unreadable rows of messages: 1"):
        examine(used)
    assert repair(used) is not None
    assert await texts(open_file()) == TEXTS[:59]


async def test_a_log_with_a_damaged_header_is_reported(used: Path, open_file: Open, leave_log: OnFile) -> None:
    """SQLite silently ignores such a log. Its messages come from a backup or are lost."""
    leave_log(used)
    log = used.with_name("store.db-wal")
    log.write_bytes(bytes(32) + log.read_bytes()[32:])
    with pytest.raises(StoreDamaged, match=r"the header of its log store\.db-wal"):
        open_file()
    assert repair(used) is not None
    assert await texts(open_file()) == TEXTS


async def test_a_damaged_log_gives_the_frames_before_the_damage(
    used: Path, open_file: Open, leave_log: OnFile, spoil: OnFile
) -> None:
    leave_log(used)
    spoil(used)
    log = used.with_name("store.db-wal")
    data = bytearray(log.read_bytes())
    data[-100:] = bytes(100)
    log.write_bytes(data)
    assert repair(used) is not None
    assert await texts(open_file()) == TEXTS
