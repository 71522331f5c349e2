"""Damage of the file: found when it is opened and by the full check, repaired from a backup and the readable rest."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import shake_128
from pathlib import Path
from typing import Any

import pytest

from agent.store import _schema
from agent.store._backup import Backups
from agent.store._codec import dump, dump_call, dump_result
from agent.store.repair import Repaired, examine, repair
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.mail import ChatRecord, Mail, Post
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import Fence, Grant, InboxItem, RunRecord, TicketRecord
from toolcrib.contract.undo import ChangeStep, FileChange, FileState

Open = Callable[..., SqliteStore]
OnFile = Callable[[Path], None]
PAGE = 4096
SESSIONS, EACH = 6, 40


def noise(size: int) -> str:
    """Return text that takes that many bytes even if it is packed."""
    return shake_128().hexdigest(size)


OUTPUT = {"output": noise(300), "exit_code": 0}
"""Result that is stored packed."""


async def use(store: SqliteStore, *, sessions: int = SESSIONS, each: int = EACH, first: int = 0) -> None:
    """Make some sessions with messages, calls and related records; the long texts fill their own pages."""
    for number in range(first, first + sessions):
        name = f"session-{number}"
        await store.sessions.create(name, platform="cli", user="me", cwd="/work")
        for turn in range(each // 4):
            call = {"id": f"c{turn}", "name": "terminal", "args": {"command": f"make {turn}"}}
            result = {"call_id": call["id"], "name": "terminal", "text": f'"{number}/{turn} done"', "is_error": False}
            await store.sessions.append_many(
                name,
                [
                    {"role": "user", "text": f"{number}/{turn} please"},
                    {"role": "assistant", "text": "", "calls": [call]},
                    {"role": "results", "results": [result]},
                    {"role": "assistant", "text": f"{number}/{turn} " + noise(9000 if turn == 3 else 300), "calls": []},
                ],
            )
            done = ToolCall(f"c{turn}", "terminal", {"command": f"make {turn}"})
            await store.ledger.open(done, name, ToolCallStatus.RUNNING)
            await store.ledger.handler_started(name, done.id)
            await store.ledger.finish(name, done.id, ToolCallStatus.SUCCEEDED, ToolResult.success("terminal", OUTPUT))
        await store.origins.remember(name, {f"/work/{number}.sh": 1})
        step = ChangeStep(name, 1, "c0", "write_file", 5.0, (FileChange("/work/a", "", None, FileState("d", 1, 0o600)),))
        await store.changes.begin(step)


async def leave_open(store: SqliteStore) -> None:
    """Leave a waiting call, run, ticket, message and grant."""
    name, call = "session-0", ToolCall("open", "terminal", {"command": f"rm -rf build  # {noise(300)}"})
    await store.ledger.open(call, name, ToolCallStatus.RUNNING)
    await store.tickets.put(TicketRecord(SuspendTicket("approve", "?", call, id="t"), name, at=5.0))
    await store.ledger.move(name, call.id, ToolCallStatus.SUSPENDED)
    await store.runs.commit(RunRecord("session-0-7", name, "parked", 3, {"phase": "parked", "batch": [1], "shell": {}}, 5.0))
    await store.inbox.put(InboxItem(name, "do more", key="k"))
    await store.grants.add(Grant("g", "session", "recursive delete", "/work", session_id=name))


@pytest.fixture(scope="module")
def once_used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a closed file with 6 conversations in it, for copies."""
    file = tmp_path_factory.mktemp("used") / "state" / "store.db"
    store = SqliteStore(file)
    asyncio.run(use(store))
    store.close()
    return file.parent


@pytest.fixture
def used(once_used: Path, file: Path) -> Path:
    """Return a closed file with 6 conversations in it."""
    shutil.copytree(once_used, file.parent)
    return file


async def conversation_texts(store: SqliteStore) -> dict[str, list[str]]:
    """Return the texts of each conversation, in order."""
    found = {}
    for info in await store.sessions.list(100):
        records = await store.sessions.messages(info.id)
        assert info.messages == len(records)
        found[info.id] = [str(record.get("text", "")) or str(record.get("results", "")) for record in records]
    return found


async def whole(open_file: Open, file: Path) -> dict[str, list[str]]:
    store = open_file()
    try:
        return await conversation_texts(store)
    finally:
        store.close()


def back_up(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        Backups(file).make(connection)
    assert Backups(file).found()


def swap(data: bytes, one: int, other: int) -> bytes:
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    pages[one], pages[other] = pages[other], pages[one]
    return b"".join(pages)


def reported(open_file: Open, file: Path) -> str:
    """Open the damaged file, and check it; return the message. Both must name the repair, and leave the file unchanged."""
    before = file.read_bytes()
    with pytest.raises(StoreFailed, match=r"toolcrib doctor --repair-store") as opened:
        open_file()
    with pytest.raises(StoreFailed, match=r"toolcrib doctor --repair-store"):
        examine(file)
    assert file.read_bytes() == before
    return str(opened.value)


# -- reported ----------------------------------------------------------------------------------------------------------


async def test_a_sound_file_is_not_reported(open_file: Open, used: Path) -> None:
    open_file()
    examine(used)
    examine(used.with_name("none.db"))
    assert not used.with_name("none.db").exists()


async def test_an_emptied_file_is_reported_beside_undo_data(open_file: Open, file: Path, tmp_path: Path) -> None:
    """An empty file without a trace of earlier use is a new one."""
    evidence = tmp_path / "contents.db"
    file.parent.mkdir()
    file.write_bytes(b"")
    evidence.write_bytes(b"old contents")
    with pytest.raises(StoreFailed, match=r"store\.db is damaged: it is empty, but .*contents\.db shows.*--repair-store"):
        open_file(evidence=[evidence])
    with pytest.raises(StoreFailed, match="it is empty"):
        examine(file, [evidence])
    assert file.stat().st_size == 0
    open_file(evidence=[tmp_path / "another.db"])
    assert file.stat().st_size > 0


async def test_an_emptied_file_is_reported_beside_its_backup_and_beside_its_log(open_file: Open, used: Path) -> None:
    """SQLite would delete the log, which may hold all of the data."""
    back_up(used)
    used.write_bytes(b"")
    with pytest.raises(StoreFailed, match=r"it is empty, but .*store\.db-backup shows"):
        open_file(backups=True)
    Backups(used).forget()
    log = used.with_name("store.db-wal")
    log.write_bytes(b"log")
    with pytest.raises(StoreFailed, match=r"it is empty, but .*-wal shows"):
        open_file()
    assert log.read_bytes() == b"log"


async def test_a_file_cut_in_half_is_reported(open_file: Open, used: Path) -> None:
    os.truncate(used, used.stat().st_size // 2)
    assert "malformed" in reported(open_file, used)


@pytest.mark.full
async def test_any_two_pages_that_changed_places_are_reported(open_file: Open, used: Path) -> None:
    data = used.read_bytes()
    count = len(data) // PAGE
    pairs = [*itertools.pairwise(range(count)), *((one, count - 1 - one) for one in range(count // 2))]
    for one, other in pairs:
        if any(data[page * PAGE + 3 : page * PAGE + 5] != b"\0\0" for page in (one, other)):  # otherwise both are empty
            used.write_bytes(swap(data, one, other))
            reported(open_file, used)


async def test_in_a_large_file_the_ends_of_each_table_are_looked_at(open_file: Open, file: Path) -> None:
    store = open_file()
    await use(store, sessions=60)
    store.close()
    assert file.stat().st_size > 1024 * 1024
    open_file().close()
    data, roots = file.read_bytes(), sqlite3.connect(file)
    (one, other) = [
        row[0] for row in roots.execute("SELECT rootpage FROM sqlite_master WHERE name IN ('messages', 'calls_by_id')").fetchall()
    ]
    roots.close()
    file.write_bytes(swap(data, one - 1, other - 1))
    reported(open_file, file)


async def test_a_file_without_its_header_is_reported(open_file: Open, used: Path, lose_all: OnFile) -> None:
    lose_all(used)
    assert "is not a database" in reported(open_file, used)


async def test_a_lost_log_is_reported(open_file: Open, used: Path, leave_log: OnFile) -> None:
    leave_log(used)
    used.with_name("store.db-wal").unlink()
    assert "its log store.db-wal is missing" in reported(open_file, used)


@pytest.mark.parametrize("left", [0, 20, 32, 30_000, -10])
async def test_a_log_that_was_emptied_or_cut_is_reported(open_file: Open, used: Path, leave_log: OnFile, left: int) -> None:
    """The log's index counts the committed pages; SQLite continues without them."""
    leave_log(used)
    log = used.with_name("store.db-wal")
    os.truncate(log, left if left >= 0 else log.stat().st_size + left)
    told = reported(open_file, used)
    assert re.search(r"\d+ pages? of its log store\.db-wal, with the latest data, (is|are) gone", told)
    mended(used)
    assert len(await whole(open_file, used)) >= SESSIONS


async def test_a_log_that_lost_nothing_is_not_reported(
    open_file: Open, used: Path, leave_log: OnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_log(used)
    shutil.copytree(used.parent, used.parent.with_name("kept"))
    examine(used)
    store = open_file()
    assert len(await store.sessions.messages("killed")) == 50
    await store.sessions.append_many("killed", [{"role": "user", "text": "and more"}])
    examine(used)  # while this process has it open
    other = open_file()
    assert len(await other.sessions.messages("killed")) == 51
    store.close()
    other.close()
    kept = used.parent.with_name("kept") / "store.db"
    os.truncate(kept.with_name("store.db-wal"), 0)
    os.utime(kept.with_name("store.db-shm"), (5, 5))  # from before the machine was started: it proves nothing
    examine(kept)


async def test_a_log_of_another_state_of_the_file_is_reported(open_file: Open, used: Path, leave_log: OnFile) -> None:
    """The file was replaced by an older one, but its log was not."""
    older = used.read_bytes()
    store = open_file()
    await use(store, sessions=3, first=6)
    store.close()
    leave_log(used)
    used.write_bytes(older)
    reported(open_file, used)


async def test_damage_that_shows_later_is_reported_too(open_file: Open, used: Path) -> None:
    store = open_file()
    data = used.read_bytes()
    with used.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xff" * (len(data) - PAGE))
    with pytest.raises(StoreFailed, match=r"store\.db is damaged .*toolcrib doctor --repair-store"):
        await store.sessions.list()
    store.close()


# -- repaired ----------------------------------------------------------------------------------------------------------


def mended(file: Path) -> Repaired:
    """Repair the file; the damaged one is kept, and only its owner may read the new one."""
    before = file.read_bytes()
    done = repair(file)
    assert done is not None
    assert done.kept.read_bytes() == before
    assert done.kept.name.startswith("store.db-damaged-2")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path for path in file.parent.iterdir() if "repairing" in path.name] == []
    examine(file)
    return done


async def test_every_row_that_sqlite_can_read_is_saved(open_file: Open, used: Path, spoil: OnFile) -> None:
    before, rows = await whole(open_file, used), {"sessions": SESSIONS, "messages": SESSIONS * EACH}
    spoil(used)
    done = mended(used)
    assert {name: done.saved[name] for name in rows} == rows
    assert (done.unreadable, list(done.cut), done.mended.messages, done.backup) == (0, [], 0, None)
    store = open_file()
    assert await conversation_texts(store) == before
    assert await store.origins.of("session-3") == {"/work/3.sh": 1}
    (step,) = await store.changes.steps("session-3")
    assert step.changes[0].path == "/work/a"
    calls = await store.ledger.calls("session-3")
    assert [(one.call.args, one.status.value) for one in calls][3] == ({"command": "make 3"}, "succeeded")
    assert [one.result for one in calls] == [ToolResult.success("terminal", OUTPUT)] * (EACH // 4)


async def test_a_file_of_which_nothing_can_be_read_and_without_a_backup_begins_empty(
    open_file: Open, used: Path, lose_all: OnFile
) -> None:
    lose_all(used)
    done = mended(used)
    assert (done.saved, done.unreadable, done.cut, done.backup) == ({}, 0, (), None)
    assert await whole(open_file, used) == {}


async def test_a_table_with_a_damaged_page_is_read_from_both_ends(open_file: Open, used: Path) -> None:
    """The newest rows are at the table's end."""
    before = await whole(open_file, used)
    lose(used, 2)
    done = mended(used)
    assert list(done.cut) == ["messages"]
    assert done.backup is None
    after = await whole(open_file, used)
    assert {name: after[name] for name in ("session-0", "session-5")} == {
        name: before[name] for name in ("session-0", "session-5")
    }
    assert len(after["session-2"]) < EACH


async def test_every_table_is_saved(open_file: Open, used: Path, spoil: OnFile) -> None:
    with closing(open_file()) as store:
        said = {"role": "assistant", "text": "", "usage": {"input": 5, "output": 2}, "model": "m", "cost": 0.5}
        await store.sessions.append_many("session-0", [said])
        await store.artifacts.put("session-0", b"x" * 50_000)
        await store.state.write([StateWrite("session", "session-0", "n", noise(300)), StateWrite("profile", "", "n", None)])
        await store.mail.enter(ChatRecord("chat", "/rooms/1", "session-1", {"title": noise(300)}, 5.0, 6.0))
        mail = await store.mail.arrived(Mail("chat", "/rooms/1", "/1", {"text": noise(300)}, 1.0))
        assert mail is not None
        await store.mail.done([mail.id])
        post = await store.mail.post(Post("chat", "/rooms/1", "/p1", {"text": noise(300)}))
        await store.mail.moved(post.id, "shown", shown_as="/m1")
    before = contents(used)
    assert {name for name, rows in before.items() if rows} >= {"usage", "artifacts", "state", "mail", "posts", "chats"}
    spoil(used)
    mended(used)
    assert contents(used) == before


def contents(file: Path) -> dict[str, list[Any]]:
    """Return all rows of each table."""
    with closing(sqlite3.connect(file)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}  # noqa: S608 - ours


async def test_what_a_chat_waited_for_is_neither_answered_nor_shown_twice(open_file: Open, used: Path, spoil: OnFile) -> None:
    with closing(open_file()) as store:
        await store.mail.arrived(Mail("chat", "c", "1", {"text": "hello"}))
        sending = await store.mail.post(Post("chat", "c", "sending", {"text": "an answer"}))
        await store.mail.moved(sending.id, "sending")
        await store.mail.post(Post("chat", "c", "waits", {"text": "an answer"}))
    spoil(used)
    done = mended(used).mended
    assert (done.waiting, done.posts) == (1, 2)
    with closing(open_file()) as store:
        assert await store.mail.waiting("chat") == []
        assert await store.mail.arrived(Mail("chat", "c", "1", {"text": "hello"})) is None
        assert await store.mail.pending("chat") == []
        post = await store.mail.get("chat", "sending")
        assert post is not None
        assert (post.state, post.body) == ("failed", {"text": "an answer"})
        assert "it is unknown whether it was shown" in post.problem


async def test_of_a_copy_come_the_chats_that_the_file_has_lost(open_file: Open, used: Path) -> None:
    with closing(open_file()) as store:
        await store.mail.enter(ChatRecord("chat", "old", "session-1", {}, 5.0, 6.0))
        await store.mail.post(Post("chat", "old", "p", {"text": "an answer"}))
    back_up(used)
    with closing(open_file()) as store:
        await store.mail.enter(ChatRecord("chat", "old", "session-2", {}, 5.0, 7.0))
    used.write_bytes(used.read_bytes()[:PAGE])
    mended(used)
    with closing(open_file()) as store:
        assert await store.mail.chats() == [ChatRecord("chat", "old", "session-1", {}, 5.0, 6.0)]
        assert await store.mail.chat_of("session-1") is not None
        post = await store.mail.get("chat", "p")
        assert post is not None
        assert post.state == "failed"


async def test_a_part_of_a_file_gives_a_part_of_its_rows_and_says_how_many(open_file: Open, used: Path) -> None:
    before = await whole(open_file, used)
    os.truncate(used, used.stat().st_size * 3 // 4)  # the empty tables and their indexes fill nearly half of it
    done = mended(used)
    assert "messages" in done.cut
    assert 0 < done.saved["messages"] < SESSIONS * EACH
    after = await whole(open_file, used)
    assert after
    texts = {text for each in before.values() for text in each}
    for name, each in after.items():
        lost = [text for text in each if text not in texts]
        assert all("its result was lost when the store was damaged" in text for text in lost), name


async def test_what_lay_in_the_log_is_read(open_file: Open, used: Path, leave_log: OnFile, spoil: OnFile) -> None:
    """The log has rows that the file lacks."""
    leave_log(used)
    spoil(used)
    done = mended(used)
    assert done.kept.with_name(f"{done.kept.name}-wal").stat().st_size > 25_000
    after = await whole(open_file, used)
    assert [text.split()[0] for text in after["killed"]] == [str(number) for number in range(50)]


async def test_a_conversation_with_a_hole_is_whole_again(open_file: Open, used: Path) -> None:
    """Every call has its result, and every result its call: a model's server refuses anything else."""
    connection = sqlite3.connect(used, isolation_level=None)
    for seq in (2, 5, 20):
        connection.execute("DELETE FROM messages WHERE seq = ? AND session = 2", (seq,))
    connection.execute("DELETE FROM sessions WHERE row = 4")
    connection.close()
    with pytest.raises(StoreFailed, match="a row of messages refers to a missing row of sessions"):
        examine(used)
    assert mended(used).mended.messages == 3 + EACH
    store = open_file()
    for info in await store.sessions.list(100):
        records = await store.sessions.messages(info.id)
        for record, after in itertools.pairwise(records):
            calls = [call["id"] for call in record.get("calls") or ()]
            assert calls == [one["call_id"] for one in after.get("results") or ()]
    assert "it may have run" in str((await store.sessions.messages("session-1"))[2])
    assert len(await store.sessions.list(100)) == SESSIONS - 1


async def test_nothing_that_waited_runs_and_nothing_agreed_holds(open_file: Open, used: Path, spoil: OnFile) -> None:
    """The backup may be older than the last events. A waiting call would run twice, or a used grant would count again."""
    store = open_file()
    await leave_open(store)
    store.close()
    spoil(used)
    done = mended(used).mended
    assert (done.calls, done.runs, done.tickets, done.waiting, done.grants) == (1, 1, 1, 1, 1)
    store = open_file()
    call = await store.ledger.get("session-0", "open")
    assert call is not None
    assert call.result is not None
    assert "may have run" in str(call.result.message)
    assert await store.runs.current("session-0") is None
    assert await store.grants.all("session-0") == []
    assert [record.state for record in await store.tickets.of_call("session-0", "open")] == ["expired"]
    assert await store.inbox.waiting("session-0") == []
    assert await store.inbox.put(InboxItem("session-0", "do more", key="k")) is None
    item = await store.inbox.put(InboxItem("session-0", "else"))
    assert item is not None
    assert item.id > 7
    lease = await store.leases.take("session-0", "me", 60.0)
    assert await store.fenced(Fence(lease)).recover("session-0") == []


async def test_an_older_file_is_repaired_as_it_was_and_upgraded(
    open_file: Open, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sql"
    folder.mkdir()
    for path in sorted(_schema.FOLDER.glob("000[12]_*")):
        shutil.copy(path, folder)
    monkeypatch.setattr(_schema, "FOLDER", folder)
    open_file().close()
    monkeypatch.undo()
    earlier = sqlite3.connect(file, isolation_level=None)
    earlier.execute(
        "INSERT INTO sessions (row, id, platform, user, model, cwd, spoken, messages, created_at, updated_at)"
        " VALUES (1, 's', 'cli', '', '', '', 1, 1, 1, 2)"
    )
    earlier.execute("INSERT INTO messages (session, seq, body) VALUES (1, 0, ?)", (dump({"role": "user", "text": "hi"}),))
    earlier.execute(
        "INSERT INTO calls (session_id, call_id, call, status, result, owner, opened_at)"
        " VALUES ('s', 'c', ?, 'succeeded', ?, 'x', 1)",
        (dump_call(ToolCall("c", "t")), dump_result(ToolResult.success("t", 1))),
    )
    earlier.execute("UPDATE sessions SET messages = 2")
    earlier.close()
    done = mended(file)
    assert (done.saved["sessions"], done.saved["messages"], done.saved["calls"]) == (1, 1, 1)
    assert await whole(open_file, file) == {"s": ["hi"]}


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 40))])
async def test_whatever_is_written_over_it_the_repaired_file_is_sound(open_file: Open, used: Path, seed: int) -> None:
    """Every conversation can be read, and each call has its result. Nothing in a backup is lost."""
    has_backup = bool(seed % 2)
    if has_backup:
        back_up(used)
    wild, data = random.Random(seed), bytearray(used.read_bytes())  # noqa: S311 - no secret comes of it
    for _ in range(wild.choice((1, 3, 30, 300))):
        at, length = wild.randrange(len(data)), wild.choice((1, 2, 8, 400, PAGE))
        data[at : at + length] = wild.choice((bytes(length), wild.randbytes(length), data[:length], data[-length:]))
    used.write_bytes(data)
    done = repair(used)
    examine(used)
    store = open_file()
    texts = await conversation_texts(store)
    assert done is None or sum(map(len, texts.values())) == done.saved.get("messages", 0)
    assert not has_backup or {name: len(each) for name, each in texts.items()} == {f"session-{n}": EACH for n in range(SESSIONS)}
    for info in await store.sessions.list(100):
        await store.ledger.calls(info.id)
        await store.changes.steps(info.id)
        records = await store.sessions.messages(info.id)
        for record, after in itertools.pairwise(records):
            calls = [call["id"] for call in record.get("calls") or ()]
            assert calls == [one["call_id"] for one in after.get("results") or ()]


@pytest.mark.parametrize("change", [lambda kept: kept[:-3], lambda kept: b"\x09" + kept[1:], lambda kept: kept.hex()[:20]])
async def test_a_result_that_cannot_be_read_is_found_and_left_out(
    open_file: Open, used: Path, change: Callable[[bytes], bytes | str]
) -> None:
    with closing(sqlite3.connect(used, isolation_level=None)) as connection:
        row, kept = connection.execute("SELECT row, result FROM calls WHERE session_id = 'session-3'").fetchone()
        assert isinstance(kept, bytes)
        connection.execute("UPDATE calls SET result = ? WHERE row = ?", (change(kept), row))
    with pytest.raises(StoreFailed, match="calls"):
        examine(used)
    before = count(used)
    done = mended(used)
    assert (done.unreadable, done.saved["calls"]) == (1, before - 1)
    assert len(await open_file().ledger.calls("session-3")) == EACH // 4 - 1


async def test_a_call_that_is_no_text_is_found_and_left_out(used: Path) -> None:
    """One byte of the call was changed in a way that SQLite does not notice."""
    begin, end = b'{"name":"te', b'minal","args":{"command":"make 2"}'
    used.write_bytes(used.read_bytes().replace(b"%br%b" % (begin, end), b"%b\xff%b" % (begin, end), 1))
    with pytest.raises(StoreFailed, match="calls"):
        examine(used)
    assert mended(used).unreadable == 1


def count(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        number: int = connection.execute("SELECT count(*) FROM calls").fetchone()[0]
    return number


# -- from a backup -----------------------------------------------------------------------------------------------------


async def test_an_emptied_file_is_restored_from_its_backup(open_file: Open, used: Path) -> None:
    before = await whole(open_file, used)
    back_up(used)
    used.write_bytes(b"")
    done = mended(used)
    assert done.backup is not None
    assert abs(done.backup - time.time()) < 60
    assert await whole(open_file, used) == before


async def test_a_file_that_still_has_more_than_its_backup_is_read_instead(open_file: Open, used: Path, spoil: OnFile) -> None:
    back_up(used)
    store = open_file()
    await use(store, sessions=2, first=6)
    store.close()
    spoil(used)
    done = mended(used)
    assert (done.backup, done.saved["sessions"]) == (None, 8)
    assert sorted((one.id, one.source) for one in done.restored if one.source != "both") == [
        ("session-6", "file"),
        ("session-7", "file"),
    ]


def lose(file: Path, *sessions: int) -> None:
    """Overwrite the pages with messages of these sessions."""
    data = file.read_bytes()
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    texts = [f'"text":"{number}/'.encode() for number in sessions]
    kept = [b"\xff" * PAGE if any(text in page.replace(b'": "', b'":"') for text in texts) else page for page in pages]
    assert kept != pages
    file.write_bytes(b"".join(kept))


async def test_newer_conversations_of_the_file_are_laid_over_the_backup(open_file: Open, used: Path) -> None:
    """Each conversation is whole, and comes from the file or the backup, whichever has more of it."""
    back_up(used)
    store = open_file()
    await use(store, sessions=1, first=6)
    await store.sessions.append_many("session-5", [{"role": "user", "text": "and more"}])
    store.close()
    before = await whole(open_file, used)
    lose(used, 1, 2, 3)
    done = mended(used)
    sources = {one.id: (one.source, one.messages) for one in done.restored}
    assert {name: sources[name] for name in ("session-1", "session-2", "session-3", "session-5", "session-6")} == {
        "session-1": ("copy", EACH),
        "session-2": ("copy", EACH),
        "session-3": ("copy", EACH),
        "session-5": ("file", EACH + 1),
        "session-6": ("file", EACH),
    }
    assert done.backup is not None
    assert done.mended.messages == 0
    assert await whole(open_file, used) == before
    store = open_file()
    assert await store.origins.of("session-6") == {"/work/6.sh": 1}
    assert len(await store.ledger.calls("session-3")) == EACH // 4


async def test_of_a_conversation_in_both_the_longer_one_is_taken_whole(open_file: Open, used: Path, spoil: OnFile) -> None:
    """The two are not joined: messages of the other one may have other numbers, so they never fill a gap."""
    back_up(used)
    store = open_file()
    more = [{"role": "user", "text": f"later {number}"} for number in range(9)]
    await store.sessions.append_many("session-0", more)
    await store.sessions.append_many("session-1", more)
    store.close()
    with closing(sqlite3.connect(used, isolation_level=None)) as connection:
        connection.execute("DELETE FROM messages WHERE session = 1 AND seq IN (36, 40)")
        connection.execute("DELETE FROM messages WHERE session = 2 AND seq > 30")
    spoil(used)
    done = mended(used)
    sources = {one.id: one.source for one in done.restored}
    assert (sources["session-0"], sources["session-1"], sources["session-2"]) == ("file", "copy", "both")
    after = await whole(open_file, used)
    assert (len(after["session-0"]), after["session-0"][-1]) == (EACH + 7, "later 8")
    assert (len(after["session-1"]), after["session-1"][-1]) == (EACH, "1/9 " + noise(300))


async def test_a_conversation_whose_name_the_file_has_lost_comes_from_the_backup(open_file: Open, used: Path) -> None:
    back_up(used)
    before = await whole(open_file, used)
    with closing(sqlite3.connect(used, isolation_level=None)) as connection:
        connection.execute("DELETE FROM sessions WHERE row = 4")
    done = mended(used)
    assert [one.id for one in done.restored if one.source == "copy"] == ["session-3"]
    assert await whole(open_file, used) == before


async def test_a_token_never_comes_again_whichever_has_the_higher(open_file: Open, used: Path, spoil: OnFile) -> None:
    store = open_file()
    for name, times in (("session-0", 3), ("session-1", 1)):
        for _ in range(times):
            await store.leases.release(await store.leases.take(name, "me", 60.0))
    back_up(used)
    for _ in range(4):
        await store.leases.release(await store.leases.take("session-1", "me", 60.0))
    store.close()
    with closing(sqlite3.connect(used, isolation_level=None)) as connection:
        connection.execute("DELETE FROM leases WHERE name = 'session-0'")
    spoil(used)
    mended(used)
    store = open_file()
    assert (await store.leases.take("session-0", "me", 60.0)).token == 4
    assert (await store.leases.take("session-1", "me", 60.0)).token == 6


async def test_the_backup_of_another_store_gives_its_conversations_only(open_file: Open, used: Path, spoil: OnFile) -> None:
    """A new store was created beside it: equal row numbers mean different rows, and no row refers to the other store's rows."""
    back_up(used)
    used.unlink()
    store = open_file()
    await use(store, sessions=1, first=9)
    store.close()
    spoil(used)
    done = mended(used)
    assert [one.source for one in done.restored if one.id == "session-9"] == ["file"]
    after = await whole(open_file, used)
    assert sorted(after) == [*(f"session-{number}" for number in range(SESSIONS)), "session-9"]
    assert {len(each) for each in after.values()} == {EACH}
    store = open_file()
    assert len(await store.ledger.calls("session-9")) == EACH // 4
    assert await store.ledger.calls("session-0") == []


async def test_a_damaged_backup_is_passed_over(open_file: Open, used: Path) -> None:
    before = await whole(open_file, used)
    back_up(used)
    newest, older = used.with_name("store.db-backup"), used.with_name("store.db-backup-before")
    newest.rename(older)
    newest.write_bytes(older.read_bytes()[: 20 * PAGE])
    used.write_bytes(b"")
    assert mended(used).backup is not None
    assert await whole(open_file, used) == before


async def test_a_grant_that_was_revoked_after_the_backup_does_not_come_back(open_file: Open, used: Path) -> None:
    store = open_file()
    await leave_open(store)
    store.close()
    back_up(used)
    used.write_bytes(b"")
    assert mended(used).mended.grants == 1
    store = open_file()
    assert await store.grants.all("session-0") == []
    assert await store.runs.current("session-0") is None


# -- refused -----------------------------------------------------------------------------------------------------------

HOLDS = """
import asyncio, sys
from pathlib import Path
from agent.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
asyncio.run(store.sessions.list())
print("open", flush=True)
sys.stdin.read()
store.close()
"""


async def test_a_file_that_another_process_uses_is_left_alone(open_file: Open, used: Path, spoil: OnFile) -> None:
    command = [sys.executable, "-c", HOLDS, str(used)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "open\n"
        before = sorted(path.name for path in used.parent.iterdir())
        data = used.read_bytes()
        spoil(used)
        with pytest.raises(StoreFailed, match=r"store\.db is in use by another process; stop it"):
            repair(used)
        assert sorted(path.name for path in used.parent.iterdir()) == before
        used.write_bytes(data)
        process.stdin.close()
    assert repair(used) is None


async def test_a_newer_file_is_left_alone(used: Path) -> None:
    with closing(sqlite3.connect(used, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")
    os.truncate(used, used.stat().st_size // 2)
    before = used.read_bytes()
    with pytest.raises(StoreFailed, match="was written by a newer toolcrib"):
        repair(used)
    assert used.read_bytes() == before
    assert [path.name for path in used.parent.iterdir()] == ["store.db"]


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a TEXT, b TEXT)")
        connection.execute("INSERT INTO t VALUES ('/etc', 'x')")
    os.truncate(file, file.stat().st_size - 10)
    before = file.read_bytes()
    with pytest.raises(StoreFailed, match="is a database of another program"):
        repair(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["other.db"]


async def test_where_there_is_no_room_everything_stays(
    used: Path, open_file: Open, monkeypatch: pytest.MonkeyPatch, leave_log: OnFile
) -> None:
    leave_log(used)
    data = used.read_bytes()[: 3 * PAGE]
    used.write_bytes(data)
    before = sorted(path.name for path in used.parent.iterdir())

    def full(*args: Any, **options: Any) -> Iterator[Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(StoreFailed, match=r"could not be repaired and was not changed: .*No space left"):
        repair(used)
    assert used.read_bytes() == data
    assert sorted(path.name for path in used.parent.iterdir()) == before
