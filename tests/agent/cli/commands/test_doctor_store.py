"""``toolcrib doctor`` and the store's file: the damage that it finds, and ``--repair-store``."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.store.sqlite import SqliteStore
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async


@pytest.fixture
def store_file(run: Any, tmp_path: Path) -> Path:
    """Run a task that writes a file, and return the path of its store."""
    with ChatServer(ChatServer.calls(("write_file", {"path": "a.txt", "content": "new"})), ChatServer.text("done")) as server:
        done = run("run", "write it", "--model", "m", "--base-url", server.base_url)
    assert (done.code, done.out) == (0, "done\n")
    with assemble() as crib:
        path = crib.config.store_path
    backup = path.with_name("toolcrib.db-backup")
    assert backup.stat().st_mode & 0o777 == 0o600
    assert (path.with_name("undo") / "contents.db").exists()
    return path


def titles(path: Path) -> list[str]:
    store = SqliteStore(path)
    try:
        return [info.title for info in run_async(store.sessions.list())]
    finally:
        store.close()


def test_a_sound_store_has_its_line(run: Any, store_file: Path) -> None:
    done = run("doctor")
    assert (done.code, done.err) == (0, "")
    assert f"✓ store {store_file}, backup of 2" in done.out
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.out) == (0, f"no damage found, nothing was changed: {store_file}\n")


def test_a_shortened_store_is_one_fault(run: Any, store_file: Path) -> None:
    os.truncate(store_file, 100_000)
    done = run("doctor")
    assert done.code == 1
    assert done.out.count(f"{store_file} is damaged") == 1
    assert done.out.endswith("\n1 problem found\n")


def test_an_emptied_store_is_reported_at_start_and_restored(run: Any, store_file: Path) -> None:
    """First only the undo data shows that the store was used; then the backup exists too."""
    backup = store_file.with_name("toolcrib.db-backup")
    kept = backup.read_bytes()
    backup.unlink()
    os.truncate(store_file, 0)
    with ChatServer(ChatServer.text("no")) as server:
        done = run("run", "more", "--model", "m", "--base-url", server.base_url)
        assert server.requests == []
    assert (done.code, done.out) == (1, "")
    assert "toolcrib.db is damaged: it is empty, but" in done.err
    assert "`toolcrib doctor --repair-store` restores it" in done.err
    assert "Traceback" not in done.err
    done = run("doctor")
    assert done.code == 1
    assert done.out.count("it is empty, but") == 1
    assert "fix: end the processes that use it, then run `toolcrib doctor --repair-store`" in done.out
    assert store_file.stat().st_size == 0
    backup.write_bytes(kept)
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"repaired {store_file} from its backup of 2" in done.out
    assert "  from the backup; their later messages are lost: 1 conversation\n" in done.out
    assert " write it (4 messages)\n" in done.out
    assert "saved: 1 session, 4 messages, " in done.out
    assert titles(store_file) == ["write it"]
    done = run("doctor")
    assert done.code == 0, done.out


def test_each_conversation_is_named_with_its_source(run: Any, store_file: Path) -> None:
    store = SqliteStore(store_file)
    run_async(store.sessions.create("later", platform="cli", user="me"))
    run_async(store.sessions.append_many("later", [{"role": "user", "text": "say \x1b[2Jmore"}]))
    store.close()
    with closing(sqlite3.connect(store_file, isolation_level=None)) as other:
        other.execute("DELETE FROM messages WHERE session = 1 AND seq > 0")
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"repaired {store_file} from its readable parts"))
    assert " and its backup of 2" in lines[at]
    assert lines[at + 1] == "  from the damaged file, with more than the backup: 1 conversation"
    assert lines[at + 2] == "    later say ^[[2Jmore (1 message)"
    assert lines[at + 3] == "  from the backup; their later messages are lost: 1 conversation"
    assert lines[at + 4].endswith(" write it (4 messages)")
    assert titles(store_file) == ["say \x1b[2Jmore", "write it"]


def test_without_a_backup_what_can_be_read_is_saved_and_counted(run: Any, store_file: Path) -> None:
    store_file.with_name("toolcrib.db-backup").unlink()
    with closing(sqlite3.connect(store_file, isolation_level=None)) as other:
        other.execute("UPDATE messages SET body = '{\"role' WHERE seq = 3")
    data = store_file.read_bytes()
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"repaired {store_file} from its readable parts\n" in done.out
    assert "saved: 1 session, 3 messages, " in done.out
    assert "1 undo step, " in done.out
    assert "lost: 1 row that could not be read, 1 message\n" in done.out
    (kept,) = store_file.parent.glob("toolcrib.db-damaged-*")
    assert f"the damaged file is kept: {kept}" in done.out
    assert kept.read_bytes() == data
    assert titles(store_file) == ["write it"]
    with ChatServer(ChatServer.text("hello again")) as server:
        done = run("run", "more", "--continue", "--model", "m", "--base-url", server.base_url)
    assert (done.code, done.out) == (0, "hello again\n")
    assert run("undo", "--yes").code == 0


def test_without_a_backup_a_store_that_cannot_be_read_begins_empty_and_says_so(run: Any, store_file: Path) -> None:
    store_file.with_name("toolcrib.db-backup").unlink()
    store_file.write_bytes(bytes(100) + store_file.read_bytes()[100:])
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "saved: nothing: no data could be read, and there is no backup\n" in done.out
    assert titles(store_file) == []
    assert run("doctor").code == 0


def test_tables_that_cannot_be_read_whole_are_named_with_the_time_of_the_backup(run: Any, store_file: Path) -> None:
    with closing(sqlite3.connect(f"{store_file.as_uri()}?immutable=1", uri=True)) as other:
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
    with store_file.open("r+b") as damaged:
        damaged.seek((page - 1) * 4096)
        damaged.write(b"\xff" * 4096)
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "lost since 2" in done.out
    assert ", except readable parts: messages\n" in done.out
    assert " write it (4 messages)\n" in done.out
    assert run("doctor").code == 0


def test_it_asks_first_and_says_so_where_nobody_can_be_asked(run: Any, store_file: Path) -> None:
    os.truncate(store_file, 0)
    done = run("doctor", "--repair-store")
    assert done.code == 2
    assert "No user can be asked here: add --yes" in done.err
    assert store_file.stat().st_size == 0
    assert "--yes needs --repair-store" in run("doctor", "--yes").err


def test_damaged_undo_data_is_put_aside(run: Any, store_file: Path) -> None:
    contents = store_file.with_name("undo") / "contents.db"
    os.truncate(contents, 2 * 4096)
    done = run("doctor")
    assert done.code == 1
    assert f"✗ {contents} is damaged" in done.out
    done = run("doctor", "--repair-store", "--yes")
    assert done.code == 0
    assert "undo data is lost; the damaged file is kept: " in done.out
    done = run("doctor")
    assert done.code == 0, done.out
    assert titles(store_file) == ["write it"]


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


def test_it_refuses_while_another_process_uses_the_store(run: Any, store_file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(store_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "open\n"
        os.truncate(store_file, 5 * 4096)
        done = run("doctor", "--repair-store", "--yes")
        assert done.code == 2
        assert "toolcrib.db is in use by another process; stop it" in done.err
        process.stdin.close()
    assert run("doctor", "--repair-store", "--yes").code == 0


def test_a_store_on_a_server_is_not_repaired_here(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_STORE_URL", "postgresql://127.0.0.1:1/none")
    assert "its own tools check, back up and restore it" in run("doctor", "--repair-store", "--yes").err


def test_prune_names_the_damaged_files_that_it_does_not_forget(run: Any, store_file: Path) -> None:
    os.truncate(store_file, 3 * 4096)
    assert run("doctor", "--repair-store", "--yes").code == 0
    (kept,) = store_file.parent.glob("toolcrib.db-damaged-*")
    done = run("sessions", "prune", "--older-than", "0s", "--yes")
    assert "not deleted: data in damaged files that repairs of the store kept" in done.out
    assert f"  {kept}\n" in done.out


@pytest.fixture
def without_rights(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run toolcrib as a user whom file modes restrict; root bypasses them."""
    unprivileged: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to drop root's rights")
        rights = "-dac_override,-dac_read_search"
        unprivileged = ["setpriv", "--bounding-set", rights, "--inh-caps", rights]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*unprivileged, sys.executable, "-c", "import sys; from agent.cli import main; sys.exit(main())", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)

    return run


@pytest.mark.full
def test_in_a_read_only_state_folder_it_says_so_and_changes_nothing(store_file: Path, without_rights: Any) -> None:
    folder = store_file.parent
    folder.chmod(0o500)
    try:
        done = without_rights("doctor")
        assert (done.returncode, done.stderr) == (1, "")
        assert f"✗ {folder} cannot be written\n    fix: make it writable by you" in done.stdout
        assert f"✓ store {store_file}, backup of 2" in done.stdout
        assert without_rights("doctor", "--repair-store", "--yes").stdout.startswith("no damage found")
        os.truncate(store_file, 2 * 4096)
        before = sorted(path.name for path in folder.iterdir())
        done = without_rights("doctor")
        assert f"✗ {store_file} is damaged" in done.stdout
        done = without_rights("doctor", "--repair-store", "--yes")
        assert done.returncode != 0
        assert "was not changed: permission denied; make it and its folder readable and writable, then run" in done.stderr
        assert "Traceback" not in done.stderr
        assert sorted(path.name for path in folder.iterdir()) == before
        assert store_file.stat().st_size == 2 * 4096
    finally:
        folder.chmod(0o700)
    assert without_rights("doctor", "--repair-store", "--yes").returncode == 0


@pytest.mark.full
def test_a_store_that_may_not_be_read_is_named(store_file: Path, without_rights: Any) -> None:
    for closed in (store_file, store_file.parent):
        mode = closed.stat().st_mode
        closed.chmod(0o000)
        try:
            for words in (["doctor"], ["doctor", "--repair-store", "--yes"]):
                done = without_rights(*words)
                assert done.returncode != 0
                told = done.stdout + done.stderr
                assert f"{store_file} can't be read: Permission denied; make it and its folder readable" in told
                assert "Traceback" not in told
                assert "report it" not in told
        finally:
            closed.chmod(mode)


def test_another_program_s_database_is_not_called_sound(run: Any, store_file: Path) -> None:
    store_file.unlink()
    with closing(sqlite3.connect(store_file)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    done = run("doctor", "--repair-store", "--yes")
    assert done.code == 2
    assert "is a database of another program and was not changed" in done.err


@pytest.fixture
def artifacts(store_file: Path) -> tuple[Path, list[bytes]]:
    """Return the path of the artifacts' file, which has a backup, and its contents."""
    store = SqliteStore(store_file, backups=True)
    (session,) = run_async(store.sessions.list())
    kept = [f"large result {number} ".encode() * 5_000 + os.urandom(3_000) for number in range(6)]
    for data in kept[:4]:
        run_async(store.artifacts.put(session.id, data))
    store.close()
    store = SqliteStore(store_file, backups=True)
    for data in kept[4:]:
        run_async(store.artifacts.put(session.id, data))
    store.close()
    return store_file.with_name("toolcrib.db-artifacts"), kept


def readable(store_file: Path) -> int:
    """Return the number of the session's artifacts that can be read."""
    store = SqliteStore(store_file)
    try:
        (session,) = run_async(store.sessions.list())
        return sum(
            run_async(store.artifacts.get(session.id, one)) is not None for one in run_async(store.artifacts.of(session.id))
        )
    finally:
        store.close()


@pytest.mark.parametrize("damage", ["a content", "no readable header", "emptied"])
def test_artifacts_are_checked_by_digest_and_saved(run: Any, store_file: Path, artifacts: Any, damage: str) -> None:
    """Each artifact is checked by its digest; lost ones are restored from the backup."""
    path, kept = artifacts
    done = run("doctor")
    assert done.code == 0, done.out
    if damage == "a content":
        with closing(sqlite3.connect(path)) as connection, connection:
            digest = hashlib.sha256(kept[5]).hexdigest()
            connection.execute("UPDATE contents SET body = CAST(body || 'x' AS BLOB) WHERE digest = ?", (digest,))
            connection.execute("UPDATE contents SET body = CAST(substr(body, 2) AS BLOB) WHERE digest = ?", (digest,))
    else:
        path.write_bytes(bytes(100) + path.read_bytes()[100:] if damage == "no readable header" else b"")
    done = run("doctor")
    assert done.code == 1
    assert f"✗ {path} is " in done.out
    done = run("doctor", "--repair-store", "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"repaired {path} from its intact parts and its backup\n" in done.out
    saved = {"a content": 5, "no readable header": 4, "emptied": 4}[damage]
    assert f"  saved: {saved} artifacts\n" in done.out
    assert ("  lost: " in done.out) is (saved < 6)
    assert readable(store_file) == saved
    done = run("doctor")
    assert done.code == 0
    gone = f"· {6 - saved} large result{'' if saved == 5 else 's'} of sessions cannot be read: their content is missing in {path}"
    assert (gone in done.out) is (saved < 6)
    assert run("doctor", "--repair-store").out.startswith("no damage found")


def test_a_damaged_search_index_is_a_note_and_is_removed(run: Any, store_file: Path) -> None:
    store = SqliteStore(store_file)
    found = run_async(store.search.find("write"))
    store.close()
    index = store_file.with_name("toolcrib.db-search")
    index.write_bytes(b"no database" * 500)
    done = run("doctor")
    assert done.code == 0
    assert f"· {index} is not a database" in done.out
    done = run("doctor", "--repair-store", "--yes")
    assert f"removed {index}, which has no data of its own: the next search rebuilds it\n" in done.out
    assert not index.exists()
    store = SqliteStore(store_file)
    assert run_async(store.search.find("write")) == found != []
    store.close()
