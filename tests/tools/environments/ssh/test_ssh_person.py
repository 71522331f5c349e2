"""A shell for the user, with OpenSSH's own client (003-29)."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import EnvironmentFailed
from tools.environments.ssh import person_argv


def _typed(argv: list[str], text: str) -> str:
    """Return the terminal's output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    os.write(ours, text.encode())
    said = b""
    try:
        while chunk := _read(ours):
            said += chunk
    finally:
        os.close(ours)
        process.wait(60)
    return said.decode(errors="replace")


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # a terminal ends like this on Linux
        return b""


@pytest.fixture
def odd(sshd, tmp_path: Path) -> Path:
    """A folder whose name needs quotes, with the key and known_hosts."""
    folder = tmp_path / "100% it's"
    folder.mkdir()
    for name in ("id", "known_hosts"):
        (folder / name).write_text((sshd.folder / name).read_text())
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture
def gate(start_sshd: Callable, sshd, odd: Path) -> Any:
    gate = start_sshd()
    (gate.folder / "authorized_keys").write_text((sshd.folder / "id.pub").read_text())
    with (odd / "known_hosts").open("a") as file:
        file.write((gate.folder / "known_hosts").read_text())
    return gate


def _options(sshd, odd: Path, **more: object) -> dict[str, object]:
    return {**sshd.options, "identity_file": str(odd / "id"), "known_hosts": str(odd / "known_hosts"), **more}


def test_a_person_reaches_the_same_account(sshd, odd: Path) -> None:
    shown = _typed(person_argv(**_options(sshd, odd)), "tty; echo $USER:$PWD; exit\n")
    assert f"{sshd.user}:{sshd.folder}/home\r\n" in shown
    assert "/dev/pts/" in shown
    (sshd.folder / "home" / "a b").mkdir(exist_ok=True)
    for cwd, where in (("~/a b", f"{sshd.folder}/home/a b"), ("/usr/lib", "/usr/lib"), ("/none", f"{sshd.folder}/home")):
        shown = _typed(person_argv(cwd=cwd, env={"SECRET": "hidden"}, **_options(sshd, odd)), "echo here:$PWD\nexit\n")
        assert f"here:{where}\r\n" in shown, cwd
    assert "No such file" in shown
    assert "hidden" not in str(person_argv(env={"SECRET": "hidden"}, **_options(sshd, odd)))


def test_a_person_goes_through_two_jump_hosts(sshd, gate, odd: Path) -> None:
    jump = f"{gate.user}@{gate.host}:{gate.port}"
    argv = person_argv(cwd="/usr", **_options(sshd, odd, jump=f"{jump},{sshd.user}@{sshd.host}:{sshd.port}"))
    assert f"{sshd.user}:/usr\r\n" in _typed(argv, "echo $USER:$PWD\nexit\n")


def test_a_person_is_not_asked_to_trust_a_host(sshd, gate, odd: Path, home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host *\n  StrictHostKeyChecking no\n  ForwardAgent yes\n")
    (odd / "known_hosts").write_text((sshd.folder / "known_hosts").read_text())
    jump = f"{gate.user}@{gate.host}:{gate.port}"
    for argv in (person_argv(**_options(gate, odd)), person_argv(**_options(sshd, odd, jump=jump))):
        shown = _typed(argv, "echo $((6*7)):in\nexit\n")
        assert "Host key verification failed" in shown
        assert "42:in" not in shown
    with pytest.raises(EnvironmentFailed, match="no host is named"):
        person_argv(host="")
