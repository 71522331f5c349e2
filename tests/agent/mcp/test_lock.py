"""The lock file (003-5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.mcp.lock import Lock, LockedServer, LockedTool, digest_of_run, lock_path, offered_names, read_lock, write_server
from toolcrib.contract.errors import ConfigError

SERVER = LockedServer(
    "0" * 64, [LockedTool("send", "mail.send", {"description": "Send.", "inputSchema": {"type": "object"}})], "mail 1"
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = lock_path(tmp_path / "config.yaml")
    assert read_lock(path) == Lock()
    write_server(path, "mail", SERVER)
    write_server(path, "other", LockedServer("1"))
    assert read_lock(path).servers["mail"] == SERVER
    assert read_lock(path).offered() == {"mail.send"}
    assert read_lock(path).offered(without="mail") == frozenset()
    assert path.stat().st_mode & 0o777 == 0o600
    write_server(path, "mail", None)
    assert list(read_lock(path).servers) == ["other"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2, "servers": {}}', '{"version": 1, "servers": {"a": {}}}', '{"version": 1, "servers": 3}'],
)
def test_a_broken_file_is_an_error_that_names_the_fix(text: str, tmp_path: Path) -> None:
    path = lock_path(tmp_path / "config.yaml")
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"mcp-lock.json: expected the file that toolcrib wrote: .* toolcrib mcp lock"):
        read_lock(path)


def test_the_digest_covers_the_files_that_a_command_names(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("one")
    before = digest_of_run(["python3", "server.py", "-v"], "", tmp_path)
    assert digest_of_run(["python3", "server.py", "-v"], "", tmp_path) == before
    (tmp_path / "server.py").write_text("two")
    assert digest_of_run(["python3", "server.py", "-v"], "", tmp_path) != before
    assert digest_of_run(["python3", "server.py"], "", tmp_path) != before
    assert digest_of_run([], "https://a.example", tmp_path) != digest_of_run([], "https://b.example", tmp_path)


def test_a_taken_name_gets_the_servers_name_before_it() -> None:
    """001-17: a name that is free stays."""
    names = offered_names("mail", ["send", "terminal", "mail.terminal"], frozenset({"terminal"}))
    assert names == {"send": "send", "terminal": "mail.terminal", "mail.terminal": "mail.mail.terminal"}
