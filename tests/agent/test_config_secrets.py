"""Secrets: their sources, and that they do not leave them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.api import assemble
from agent.config import (
    Secrets,
    read_secrets,
    secret,
    secrets_path,
    write_secret,
)
from agent.store.memory import MemoryStore
from toolcrib import ConfigError


def write_secrets(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "secrets.env"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_secret_comes_from_the_environment_then_from_the_file(tmp_path: Path) -> None:
    write_secrets(tmp_path, "# mine\nexport A=1\n B = 'two words' # c\nC=\"#x\"\nD=a=b#c\nE=\n")
    assert dict(read_secrets(tmp_path)) == {"A": "1", "B": "two words", "C": "#x", "D": "a=b#c", "E": ""}
    assert secret("A", {"A": "env"}, tmp_path) == "env"
    assert secret("A", {"A": ""}, tmp_path) == "1"
    assert secret("E", {}, tmp_path) is None
    assert secret("F", {}, tmp_path) is None
    assert secret("F", {}, tmp_path / "nowhere") is None


def test_the_file_lies_beside_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "c.yaml"))
    assert secrets_path() == tmp_path / "secrets.env"
    write_secrets(tmp_path, "MY_KEY=x\n")
    assert secret("MY_KEY") == "x"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_is_not_used(tmp_path: Path, mode: int) -> None:
    file = write_secrets(tmp_path, "A=hush-hush\n", mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
        secret("A", {}, tmp_path)
    assert secret("A", {"A": "env"}, tmp_path) == "env"


@pytest.mark.parametrize("text", ["A=1\nhush-hush\n", "A=1\nB='hush-hush\n", "A=1\nB='x' hush-hush\n", "A=1\n1B=hush-hush\n"])
def test_a_line_that_cannot_be_read_is_told_but_not_shown(tmp_path: Path, text: str) -> None:
    file = write_secrets(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_secrets(tmp_path)
    assert f"{file}:2" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_secrets_are_not_in_their_repr() -> None:
    secrets = Secrets({"A": "hush"})
    assert (repr(secrets), str(secrets), f"{secrets}") == ("Secrets(<1>)",) * 3


def test_pipes_folders_and_large_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secrets.env", 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_secrets(tmp_path)
    (tmp_path / "secrets.env").unlink()
    write_secrets(tmp_path, "A=" + "x" * 64_000)
    with pytest.raises(ConfigError, match="larger than"):
        read_secrets(tmp_path)
    write_secrets(tmp_path, "").write_bytes(b"A=1\nB=\xff")
    with pytest.raises(ConfigError, match=r"secrets\.env:2: not UTF-8"):
        read_secrets(tmp_path)


def test_secrets_need_no_yaml(tmp_path: Path) -> None:
    program = (
        f"import sys; from agent.config import secret; secret('A', {{}}, {str(tmp_path)!r}); assert 'yaml' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_the_files_and_the_store_s_url_hold_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's results are redacted by its workspace's redactor."""
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("TOOLCRIB_STORE_URL", "postgresql://me:hush%2Dhush-1@db.test/crib")
    monkeypatch.setenv("SOME_TOKEN", "hush-hush-2")
    write_secrets(tmp_path, "ANY_NAME=hush-hush-3\n")
    with assemble(project_dir=tmp_path, store=MemoryStore()) as crib:
        session = crib.open_session(platform="api")
        told = str(
            session.call("terminal", {"command": "echo hush-hush-1 hush%2Dhush-1 hush-hush-2 hush-hush-3 other"}).result.data
        )
        session.close_sync()
    assert "hush" not in told
    assert "other" in told


def test_a_key_is_kept_beside_all_other_lines(tmp_path: Path) -> None:
    assert write_secret("A_KEY", "one", tmp_path) == tmp_path / "secrets.env"
    file = write_secrets(tmp_path, "# mine\nB_KEY='two words'  # b\nexport A_KEY=old\n\nA_KEY=older\n")
    write_secret("A_KEY", "new", tmp_path)
    assert file.read_text() == "# mine\nB_KEY='two words'  # b\nA_KEY=new\n\n"
    write_secret("C_KEY", "three", tmp_path)
    assert dict(read_secrets(tmp_path)) == {"A_KEY": "new", "B_KEY": "two words", "C_KEY": "three"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "kept" / "mine.env"
    real.parent.mkdir()
    write_secrets(real.parent, "B_KEY=two\n").rename(real)
    (tmp_path / "secrets.env").symlink_to(real)
    write_secret("A_KEY", "one", tmp_path)
    assert (tmp_path / "secrets.env").is_symlink()
    assert real.read_text() == "B_KEY=two\nA_KEY=one\n"


@pytest.mark.parametrize("value", ["", "hush hush", "hush\nB=1", "'hush", "h\u00fcsh"])
def test_what_is_no_key_is_not_kept_nor_shown(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="this is not a key") as caught:
        write_secret("A_KEY", value, tmp_path)
    assert "hush" not in str(caught.value)
    assert not (tmp_path / "secrets.env").exists()


def test_no_key_goes_to_a_file_that_others_may_read(tmp_path: Path) -> None:
    file = write_secrets(tmp_path, "A=1\n", 0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        write_secret("A_KEY", "hush", tmp_path)
    assert file.read_text() == "A=1\n"
