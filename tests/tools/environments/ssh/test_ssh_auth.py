"""Keys and agents for a login, and the error if none is accepted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib import EnvironmentFailed


@pytest.fixture
def key(sshd, tmp_path: Path) -> Path:
    """A copy of the accepted key."""
    path = tmp_path / "key"
    shutil.copy(sshd.folder / "id", path)
    return path


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    while not socket.exists():
        assert process.poll() is None
    yield
    process.terminate()
    process.wait(30)


def _make(path: Path, *options: str, phrase: str = "") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-N", phrase, "-f", str(path), *options], check=True)
    return path


def _add(path: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(path)], check=True, stderr=subprocess.DEVNULL)


def test_a_key_of_the_agent(open_link, finish, agent, key: Path, home: Path) -> None:
    _add(key)
    assert finish(open_link(identity_file="").open(["true"]))[2] == 0


def test_an_encrypted_key(sshd, open_link, finish, key: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "phrase", "-f", str(key)], check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(EnvironmentFailed, match=rf"{key} is encrypted.*ssh-add {key}"):
        open_link(identity_file=str(key)).open(["true"])


def test_an_encrypted_key_that_the_agent_holds(sshd, open_link, finish, agent, key: Path) -> None:
    _add(key)
    shutil.copy(sshd.folder / "id.pub", f"{key}.pub")
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "phrase", "-f", str(key)], check=True, stdout=subprocess.DEVNULL)
    assert finish(open_link(identity_file=str(key)).open(["true"]))[2] == 0


@pytest.mark.parametrize("kind", [("-t", "rsa", "-b", "2048"), ("-t", "rsa", "-b", "2048", "-m", "PEM"), ("-t", "ecdsa")])
def test_other_kinds_of_key(start_sshd, open_link, finish, tmp_path: Path, kind: tuple[str, ...]) -> None:
    server = start_sshd()
    path = _make(tmp_path / "other", *kind)
    (server.folder / "authorized_keys").write_text(Path(f"{path}.pub").read_text())
    assert finish(open_link(server.wish(identity_file=str(path))).open(["true"]))[2] == 0


def test_what_was_tried_is_told(sshd, open_link, tmp_path: Path) -> None:
    path = _make(tmp_path / "stranger", "-t", "ed25519")
    with pytest.raises(EnvironmentFailed) as refused:
        open_link(identity_file=str(path)).open(["true"])
    assert f"none of these keys is accepted for {sshd.user}: {path} (it accepts publickey)" in str(refused.value)


def test_no_key_at_all(open_link) -> None:
    with pytest.raises(EnvironmentFailed, match=r"there is no key to try \(it accepts publickey\): name one \(identity_file\)"):
        open_link(identity_file="").open(["true"])


def test_a_key_that_is_not_there(open_link, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=f"{tmp_path}/gone does not exist"):
        open_link(identity_file=str(tmp_path / "gone")).open(["true"])


def test_a_file_that_is_no_key(open_link, key: Path) -> None:
    key.write_text("not a key\n")
    with pytest.raises(EnvironmentFailed, match=f"{key} is not a usable key"):
        open_link(identity_file=str(key)).open(["true"])


def test_a_key_that_others_can_read(open_link, key: Path) -> None:
    key.chmod(0o644)
    with pytest.raises(EnvironmentFailed, match=f"{key} is readable by other users, so it was not used: chmod 600 {key}"):
        open_link(identity_file=str(key)).open(["true"])


def test_too_many_keys(start_sshd, open_link, agent, tmp_path: Path) -> None:
    server = start_sshd("--set", "MaxAuthTries=2")
    for number in range(4):
        _add(_make(tmp_path / f"k{number}", "-t", "ed25519"))
    with pytest.raises(EnvironmentFailed, match=r"hung up after \d keys .*IdentitiesOnly"):
        open_link(server.wish(identity_file="")).open(["true"])


def test_an_account_that_may_not_run_programs(start_sshd, open_link, finish) -> None:
    server = start_sshd("--set", "ForceCommand=internal-sftp")
    out, _, _ = finish(open_link(server.wish()).open(["echo", "here"]), b"")
    assert out != b"here\n"
