"""The Hermes agent's sessions as records."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.importing import hermes
from agent.importing.session_files import ForeignSession, ImportFault
from tests.agent.importing.samples import write_hermes
from toolcrib import ToolcribError


def read(path: Path) -> tuple[list[ForeignSession], list[str]]:
    faults: list[ImportFault] = []
    return list(hermes.read(path, faults.append)), [f"{fault.place}: {fault.why}" for fault in faults]


@pytest.mark.parametrize("old", [False, True])
def test_sessions_are_read(tmp_path: Path, old: bool) -> None:
    write_hermes(tmp_path / "state.db", old=old)
    (found, second), faults = read(tmp_path)
    assert (found.title, found.cwd) == (("", "") if old else ("Medlars", "/home/made/h"))
    assert (found.name, found.model, second.name) == ("20260709_made_1", "made/x", "20260709_made_2")
    said = [(record["role"], record.get("text", "")) for record in found.records]
    assert said == [
        ("user", "Is the medlar ripe?"),
        ("assistant", ""),
        ("results", ""),
        ("assistant", "It is."),
        ("user", "and this?"),
    ]
    assert found.records[1]["calls"] == [{"id": "call_1", "name": "web_search", "args": {"q": "medlar"}}]
    assert found.records[2]["results"][0]["text"] == '{"found": true}'
    assert found.records[4]["images"][0]["media_type"] == "image/png"
    assert (found.began, found.ended) == (1_752_000_002.0, 1_752_000_006.0)
    assert faults == ["7: the calls of the message are not a JSON list"]


def test_the_file_is_only_read(tmp_path: Path) -> None:
    path = write_hermes(tmp_path / "state.db")
    path.chmod(0o400)
    before = path.read_bytes()
    assert len(read(path)[0]) == 2
    assert path.read_bytes() == before


def test_what_a_running_tool_has_in_its_log_is_read(tmp_path: Path) -> None:
    path = write_hermes(tmp_path / "state.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('20260709_empty', 'user', 'Late', 1)"
        )
        connection.commit()
        assert [found.records[0]["text"] for found in read(path)[0]] == ["Is the medlar ripe?", "Second", "Late"]


def test_what_is_no_state_db_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolcribError, match=r"state\.db does not exist; give the file"):
        read(tmp_path)
    (tmp_path / "state.db").write_text("no database, but some text that is longer than its header would be" * 30)
    with pytest.raises(ToolcribError, match=r"cannot be read as a state\.db of Hermes: file is not a database"):
        read(tmp_path)
    for script in (
        "CREATE TABLE t (x)",
        "CREATE VIEW sessions AS SELECT 1 AS id; CREATE TABLE messages (id)",
        "CREATE TABLE sessions (x)",
    ):
        path = tmp_path / "other.db"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
        with pytest.raises(ToolcribError, match="it has no table 'sessions' with the column 'id'"):
            read(path)


def test_it_looks_where_the_tool_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hermes.default_path() == Path.home() / ".hermes" / "state.db"
    monkeypatch.setenv("HERMES_HOME", "/made")
    assert hermes.default_path() == Path("/made/state.db")
