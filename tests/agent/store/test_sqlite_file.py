"""The file: its permissions, older and newer versions, foreign and broken files, a full disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import shake_128
from pathlib import Path
from typing import Any

import pytest

from agent.policy.allowlist import PermanentGrants
from agent.store import _codec, _schema
from agent.store._sessions import BY_PREFIX
from agent.store.sqlite import SqliteStore
from toolcrib import InvalidTransition, StoreFailed, SuspendTicket, ToolCall, ToolResult
from toolcrib.contract.store import Fence, Grant, TicketRecord

Open = Callable[..., SqliteStore]


async def talk(store: SqliteStore, *texts: str) -> None:
    await store.sessions.create("s", platform="cli", user="me")
    await store.sessions.append_many("s", [{"role": "user", "text": text} for text in texts])


async def texts(store: SqliteStore) -> list[str]:
    return [message["text"] for message in await store.sessions.messages("s")]


def change(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_only_the_owner_may_read_it(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store, "hi")
    modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    assert file.parent.stat().st_mode & 0o777 == 0o700
    store.close()
    assert [path.name for path in file.parent.iterdir()] == ["store.db"]
    file.chmod(0o644)
    open_file()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    SqliteStore(tmp_path / "a ?%20#b.db").close()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["a ?%20#b.db"]


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
async def test_what_was_kept_is_there_again(open_file: Open, synchronous: str) -> None:
    """003-26: the session's grants too."""
    store = open_file(synchronous=synchronous)
    await talk(store, "a", "b")
    grant = Grant("g", "session", "recursive delete", "/", session_id="s")
    await PermanentGrants(store.grants).add(grant)
    store.close()
    again = open_file(synchronous=synchronous)
    assert await texts(again) == ["a", "b"]
    assert list(await PermanentGrants(again.grants).all("s")) == [grant]
    assert list(await PermanentGrants(again.grants).all("another")) == []


async def test_a_closed_store_says_so(open_file: Open, file: Path) -> None:
    store = open_file()
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match=r"store\.db is closed"):
        await store.sessions.list()
    with pytest.raises(ValueError, match="NORMAL or FULL"):
        SqliteStore(file, synchronous="OFF")


# -- versions --------------------------------------------------------------------------------------------------------


def newer(folder: Path, script: str) -> Path:
    """Return the SQL files of a later release."""
    shutil.copytree(_schema.FOLDER, folder)
    number = len(_schema.steps(folder)) + 1
    (folder / f"{number:04d}_later.sql").write_text(script)
    return folder


async def test_an_older_file_is_upgraded_and_keeps_what_it_holds(
    open_file: Open, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_file()
    await talk(store, "hi")
    store.close()
    script = "ALTER TABLE sessions ADD COLUMN note TEXT NOT NULL DEFAULT 'a;b';\n-- and;\nUPDATE sessions SET user = 'you; me';"
    monkeypatch.setattr(_schema, "FOLDER", newer(tmp_path / "sql", script))
    upgraded = open_file()
    assert await texts(upgraded) == ["hi"]
    info = await upgraded.sessions.get("s")
    assert info is not None
    assert info.user == "you; me"
    upgraded.close()
    monkeypatch.undo()
    before = file.read_bytes()
    newest = len(_schema.steps(_schema.FOLDER))
    words = rf"store\.db was written by a newer toolcrib \(version {newest + 1} .* up to {newest}\).*upgrade toolcrib"
    with pytest.raises(StoreFailed, match=words):
        open_file()
    assert file.read_bytes() == before


async def test_a_file_of_before_leases_keeps_all_it_holds(
    open_file: Open, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fourth file creates new tables of calls and tickets."""
    folder = tmp_path / "sql"
    folder.mkdir()
    for path in sorted(_schema.FOLDER.glob("000[123]_*")):
        shutil.copy(path, folder)
    monkeypatch.setattr(_schema, "FOLDER", folder)
    open_file().close()
    monkeypatch.undo()
    call, ticket = ToolCall("c", "terminal", {"command": "ls"}), SuspendTicket("approve", "?", ToolCall("c", "terminal"), id="t")
    earlier = sqlite3.connect(file, isolation_level=None)
    earlier.execute(
        "INSERT INTO sessions (id, platform, user, model, cwd, created_at, updated_at) VALUES ('s','cli','','','',1,2)"
    )
    columns = "session_id, call_id, call, status, handler_started, result, owner, opened_at"
    add = f"INSERT INTO calls ({columns}) VALUES (?,?,?,?,?,?,?,?)"  # noqa: S608 - ours
    result = _codec.dump_result(ToolResult.success("terminal", "done"))
    earlier.execute(add, ("s", "c", _codec.dump_call(call), "succeeded", 1, result, "1:2:3", 4.0))
    earlier.execute(add, ("s", "c", _codec.dump_call(call), "suspended", 0, None, "1:2:3", 5.0))
    earlier.execute(add, ("s", "d", _codec.dump_call(call), "running", 1, None, "1:2:3", 6.0))
    earlier.execute(
        "INSERT INTO tickets (id, session_id, call_id, call_row, state, ticket, at) VALUES ('t', 's', 'c', 2, 'pending', ?, 7)",
        (_codec.dump_ticket(ticket),),
    )
    grant = "INSERT INTO grants (id, session_id, scope, body) VALUES ('g', '', 'always', ?)"
    earlier.execute(grant, (_codec.dump_grant(Grant("g", "always", "k", "/", argv=("ls",))),))
    earlier.close()

    store = open_file()
    calls = await store.ledger.calls("s")
    assert [(one.call.id, one.status.value, one.opened_at) for one in calls] == [
        ("c", "succeeded", 4.0), ("c", "suspended", 5.0), ("d", "running", 6.0)
    ]  # fmt: skip
    assert calls[0].result == ToolResult.success("terminal", "done")
    assert list(await store.tickets.of_call("s", "c")) == [TicketRecord(ticket, "s", at=7.0)]
    assert list(await store.grants.all("s")) == [Grant("g", "always", "k", "/", argv=("ls",))]
    lease = await store.leases.take("s", "me", 60.0)
    assert [one.call.id for one in await store.fenced(Fence(lease)).recover("s")] == ["d"]
    with pytest.raises(InvalidTransition):
        await store.ledger.open(call, "s")
    store.close()
    upgraded = sqlite3.connect(file)
    assert upgraded.execute("PRAGMA foreign_key_check").fetchall() == []
    assert upgraded.execute("PRAGMA foreign_key_list(tickets)").fetchone()[2:5] == ("calls", "call_row", "row")
    upgraded.close()


async def test_an_upgrade_that_fails_changes_nothing(open_file: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_file()
    await talk(store, "hi")
    store.close()
    monkeypatch.setattr(_schema, "FOLDER", newer(tmp_path / "sql", "DROP TABLE messages;\nDROP TABLE no_such_table;"))
    with pytest.raises(StoreFailed, match=r"store\.db is unusable .*no_such_table"):
        open_file()
    monkeypatch.undo()
    assert await texts(open_file()) == ["hi"]


def test_the_sql_files_are_numbered_one_by_one() -> None:
    assert list(_schema.steps(_schema.FOLDER)) == list(range(1, 17))


async def test_many_threads_open_a_fresh_file_at_once(open_file: Open) -> None:
    gate, failed = threading.Barrier(8), []

    def run() -> None:
        gate.wait()
        try:
            asyncio.run(talk(open_file(), "hi"))
        except StoreFailed as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert await texts(open_file()) == ["hi"] * 8


# -- files that can't be used ----------------------------------------------------------------------------------------


def test_another_program_s_database_is_left_alone(open_file: Open, file: Path) -> None:
    file.parent.mkdir()
    for statement in ("CREATE TABLE t (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 5"):
        file.unlink(missing_ok=True)
        change(file, statement, "VACUUM")
        before = file.read_bytes()
        with pytest.raises(StoreFailed, match=r"store\.db is a database of another program.*name another file"):
            open_file()
        assert file.read_bytes() == before


def test_what_is_no_database_is_left_alone(open_file: Open, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("dear diary, " * 400)
    with pytest.raises(StoreFailed, match=r"store\.db is not a database.*move it away"):
        open_file()
    assert file.read_text() == "dear diary, " * 400
    file.unlink()
    file.mkdir()
    with pytest.raises(StoreFailed, match="is not a file"):
        open_file()


async def test_a_damaged_file_is_named(open_file: Open, file: Path) -> None:
    store = open_file()
    await talk(store, *(shake_128(bytes([n])).hexdigest(3000) for n in range(50)))
    store.close()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + b"\xff" * (len(whole) - len(whole) // 2))
    with pytest.raises(StoreFailed, match=r"store\.db is damaged.*was not changed.*`toolcrib doctor --repair-store`"):
        open_file()
    file.write_bytes(whole)
    change(file, "UPDATE messages SET body = '{' WHERE seq = 1")
    with pytest.raises(StoreFailed, match=r"store\.db has an unreadable record \(JSONDecodeError"):
        await texts(open_file())


async def test_a_file_kept_locked_is_named(open_file: Open, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.store._file.BUSY_SECONDS", 0.05)
    store = open_file()
    await talk(store, "a")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed, match="locked by another process"):
        await talk(store, "b")
    with pytest.raises(StoreFailed, match="locked by another process"):
        await store.ledger.open(ToolCall("c", "x"), "s")
    assert await texts(store) == ["a"]
    other.close()
    await talk(store, "b")
    assert await texts(store) == ["a", "b"]


async def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(StoreFailed, match=r"plain/store\.db can't be opened: .*make its folder writable.*TOOLCRIB_STATE"):
        SqliteStore(tmp_path / "plain" / "store.db")


WRITE = """
import asyncio, sys
from pathlib import Path
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed
{prepare}
async def write(store):
    await store.sessions.create("s", platform="cli", user="me")
    try:
        for number in range(1000):
            await store.sessions.append("s", {{"role": "user", "text": str(number) + " " * 3000}})
            print(number, flush=True)
    except StoreFailed as error:
        print(error)
        print(len(await store.sessions.messages("s")))
try:
    asyncio.run(write(SqliteStore(Path(sys.argv[1]))))
except StoreFailed as error:
    print(error)
"""


def run(command: list[str], file: Path, root: Path, prepare: str = "") -> list[str]:
    done = subprocess.run(
        [*command, sys.executable, "-c", WRITE.format(prepare=prepare), str(file)],
        cwd=root, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


async def test_a_full_disk_loses_nothing(open_file: Open, file: Path, root: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))"
    *written, told, left = run([], file, root, limit)
    assert "full" in told
    assert str(file) in told
    assert 10 < len(written) < 1000
    assert int(left) == len(written)
    store = open_file()
    assert [text.split()[0] for text in await texts(store)] == written
    await talk(store, "again")


async def test_late_it_is_made_by_what_first_needs_it(file: Path) -> None:
    store = SqliteStore(file, late=True)
    assert not file.parent.exists()
    assert await store.sessions.list(1) == []
    assert file.exists()
    store.close()
    unused = SqliteStore(file.with_name("other.db"), late=True)
    unused.close()
    with pytest.raises(StoreFailed, match="is closed"):
        await unused.sessions.list(1)
    assert not unused.path.exists()


async def test_late_a_fault_is_told_at_each_use_until_it_is_mended(file: Path) -> None:
    file.parent.write_text("in the way")
    store = SqliteStore(file, late=True)
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"can't be opened: .*; make its folder writable"):
            await store.sessions.list(1)
    file.parent.unlink()
    assert await store.sessions.list(1) == []
    store.close()


def test_a_folder_that_may_not_be_written_is_named(file: Path, root: Path) -> None:
    unprivileged: list[str] = []
    if os.geteuid() == 0:  # file modes do not stop root
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to drop root's rights")
        unprivileged = [
            "setpriv",
            "--bounding-set",
            "-dac_override,-dac_read_search",
            "--inh-caps",
            "-dac_override,-dac_read_search",
        ]
    file.parent.mkdir(mode=0o500)
    told = run(unprivileged, file, root)[0]
    assert "store.db can't be opened: Permission denied; make its folder writable" in told
    file.parent.chmod(0o700)
    SqliteStore(file).close()
    file.parent.chmod(0o500)
    assert "store.db can't be written; make it and its folder writable" in run(unprivileged, file, root)[0]
    file.parent.chmod(0o700)


# -- what it costs ---------------------------------------------------------------------------------------------------


async def test_a_long_session_stands_in_memory_once(open_file: Open) -> None:
    """10,000 messages, each reply with its native form, in at most three times their text."""
    store, size = open_file(), 600
    await store.sessions.create("s", platform="cli", user="me")
    reply = {"role": "assistant", "calls": [], "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 7}}

    def messages() -> Iterator[dict[str, Any]]:
        for number in range(5000):
            text = f"{number:<{size}}"
            yield {"role": "user", "text": text}
            yield {**reply, "text": text, "native": {"wire": "chat", "message": {"role": "assistant", "content": text}}}

    await store.sessions.append_many("s", messages())
    tracemalloc.start()
    try:
        found = await store.sessions.messages("s")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 10_000
    assert peak <= 3 * size * len(found)


def test_a_session_that_is_new_is_not_looked_for_among_all(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as connection:
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {BY_PREFIX}", ("a", "b", 1, "a", "a", 6))]
    assert any("sqlite_autoindex_sessions_1 (id>? AND id<?)" in step for step in plan), plan
