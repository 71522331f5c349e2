"""The identity of a host: known_hosts is enforced, whatever other settings contain."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import EnvironmentFailed
from tools.environments.ssh import known_hosts
from tools.environments.ssh.target import Wish, resolve


def test_an_unknown_host_is_refused(sshd, open_link, tmp_path: Path) -> None:
    """003-29"""
    empty = tmp_path / "none"
    with pytest.raises(EnvironmentFailed) as refused:
        open_link(known_hosts=str(empty)).open(["true"])
    key = (sshd.folder / "hostkey.pub").read_text().split()
    expected = known_hosts.fingerprint(base64.b64decode(key[1]))
    for part in (str(empty), expected, f"ssh -p {sshd.port} -o UserKnownHostsFile={empty} {sshd.user}@127.0.0.1", "is unknown"):
        assert part in str(refused.value)
    assert not empty.exists()


@pytest.mark.parametrize("setting", ["no", "accept-new", "off"])
def test_no_setting_loosens_it(sshd, open_link, home: Path, setting: str) -> None:
    (home / ".ssh" / "config").write_text(f"Host *\n  StrictHostKeyChecking {setting}\n  UserKnownHostsFile /dev/null\n")
    with pytest.raises(EnvironmentFailed, match="is unknown"):
        open_link(known_hosts="").open(["true"])


def test_a_changed_key_is_refused(start_sshd: Callable, open_link, finish) -> None:
    server = start_sshd()
    link = open_link(server.wish())
    assert finish(link.open(["echo", "one"]))[0] == b"one\n"
    for command in ("stop", "newkey", "start"):
        server.control(command)
    assert finish(link.open(["echo", "two"]))[0] == b"two\n"  # the open connection was verified before
    with pytest.raises(EnvironmentFailed) as refused:
        open_link(server.wish()).open(["true"])
    text = str(refused.value)
    for part in ("has changed", f"{server.folder}/known_hosts:1", "ssh-keygen -R", f"[127.0.0.1]:{server.port}", "SHA256:"):
        assert part in text


def _listed(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n")


def test_marks_names_and_patterns(tmp_path: Path) -> None:
    file = tmp_path / "known"
    key = b"\0\0\0\x0bssh-ed25519" + b"k" * 36
    text = f"ssh-ed25519 {base64.b64encode(key).decode()}"
    hop = resolve(Wish("Far.example.org", user="me", known_hosts=str(file)))[-1]
    salt = b"s" * 20
    digest = hmac.new(salt, b"far.example.org", hashlib.sha1).digest()
    hashed = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    for names in ("far.example.org", "other,far.example.org", "*.example.org", "far.example.or?", "FAR.example.org", hashed):
        _listed(file, f"{names} {text}")
        known_hosts.check(hop, "ssh-ed25519", key)
    for names in (
        "*.example.org,!far.example.org",
        "example.org",
        "[far.example.org]:22",
        "far.example.org:22",
        "|1|x|y",
        "f[a]r.*",
    ):
        _listed(file, f"{names} {text}")
        with pytest.raises(EnvironmentFailed, match="is unknown"):
            known_hosts.check(hop, "ssh-ed25519", key)
    _listed(file, f"far.example.org {text}", f"@revoked * {text}")
    with pytest.raises(EnvironmentFailed, match="revoked"):
        known_hosts.check(hop, "ssh-ed25519", key)
    for line in (f"@cert-authority * {text}", "far.example.org ssh-ed25519 !!!", "# far.example.org", f"#far.example.org {text}"):
        _listed(file, line)
        with pytest.raises(EnvironmentFailed, match="is unknown"):
            known_hosts.check(hop, "ssh-ed25519", key)


def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    hop = resolve(Wish("far", user="me", known_hosts=str(tmp_path)))[-1]
    with pytest.raises(EnvironmentFailed, match="cannot be read"):
        known_hosts.check(hop, "ssh-ed25519", b"key")


# -- ~/.ssh/config -------------------------------------------------------------------------------------------------


def test_the_config_of_ssh_is_followed(sshd, open_link, home: Path, finish) -> None:
    (home / ".ssh" / "more").write_text(f"Host short\n  HostName {sshd.host}\n  Port {sshd.port}\n  User {sshd.user}\n")
    (home / ".ssh" / "config").write_text(
        f"Include more\nHost *\n  IdentityFile {sshd.folder}/id\n  UserKnownHostsFile ~/.ssh/none {sshd.folder}/known_hosts\n"
        "  ForwardAgent yes\n  ForwardX11 yes\n  SendEnv *\n  IdentitiesOnly yes\n"
    )
    link = open_link(Wish("short"))
    assert link.where == f"ssh:{sshd.user}@short:{sshd.port}"
    out = finish(link.open(["env"]))[0]
    assert b"SSH_AUTH_SOCK" not in out
    assert b"DISPLAY" not in out


def test_what_is_asked_for_wins(home: Path) -> None:
    (home / ".ssh" / "config").write_text(
        "Host far\n  User them\n  Port 1\n  HostName elsewhere\n  IdentityFile ~/k\n  ProxyJump gate\n"
    )
    plain = resolve(Wish("far"))
    assert [(hop.user, hop.host, hop.port, hop.keys) for hop in plain[1:]] == [("them", "elsewhere", 1, (home / "k",))]
    asked = resolve(Wish("me@far:2", identity_file="~/other", jump="none"))
    assert [(hop.user, hop.host, hop.port, hop.keys) for hop in asked] == [("me", "elsewhere", 2, (home / "other",))]
    assert [hop.name for hop in resolve(Wish("far", jump="a@one:3,two"))] == ["one", "two", "far"]
    assert resolve(Wish("far", user="me", port=7))[-1].where == "me@far:7"


@pytest.mark.parametrize(
    ("config", "host", "words"),
    [
        ("Host far\n  ProxyCommand nc %h %p\n", "far", "ProxyCommand"),
        ("Host far\n  ProxyJump near\nHost near\n  ProxyJump far\n", "far", "loop: far -> near -> far"),
        ("Host far\n  Port many\n", "far", "'many' is not a port"),
        ("Host far\n  Nonsense\n", "far", "can't be parsed"),
        ("", "-oProxyCommand=touch", "not the name of a host"),
        ("", "a b@[c", "not the name of a host"),
        ("", "", "no host is named: set environments"),
    ],
)
def test_faults_of_the_config_are_named(home: Path, config: str, host: str, words: str) -> None:
    (home / ".ssh" / "config").write_text(config)
    with pytest.raises(EnvironmentFailed, match=words):
        resolve(Wish(host))


# -- jump hosts ----------------------------------------------------------------------------------------------------


def test_through_jump_hosts(sshd, start_sshd: Callable, open_link, finish, home: Path, tmp_path: Path) -> None:
    gate = start_sshd()
    (gate.folder / "authorized_keys").write_text((sshd.folder / "id.pub").read_text())
    both = tmp_path / "known"
    both.write_text((sshd.folder / "known_hosts").read_text() + (gate.folder / "known_hosts").read_text())
    wish = sshd.wish(jump=f"{gate.user}@{gate.host}:{gate.port}", known_hosts=str(both))
    link = open_link(wish)
    data = bytes(range(256)) * 20_000
    assert finish(link.open(["cat"]), data) == (data, b"", 0)
    both.write_text((sshd.folder / "known_hosts").read_text())
    with pytest.raises(EnvironmentFailed, match=f"{gate.user}@{gate.host}:{gate.port} is unknown"):
        open_link(wish).open(["true"])
    both.write_text((gate.folder / "known_hosts").read_text())
    through = f"ssh -J {gate.user}@{gate.host}:{gate.port} -p {sshd.port}"
    with pytest.raises(EnvironmentFailed, match=f"{sshd.user}@{sshd.host}:{sshd.port} is unknown.* accept it: {through}"):
        open_link(wish).open(["true"])


def test_through_jump_hosts_of_the_config(sshd, start_sshd: Callable, open_link, finish, home: Path) -> None:
    """The config has two jump hosts, each with its own settings."""
    gate, inner = start_sshd(), start_sshd()
    text = f"Host *\n  UserKnownHostsFile {sshd.folder}/known_hosts {gate.folder}/known_hosts {inner.folder}/known_hosts\n"
    for name, server, jump in (("inner", inner, "ProxyJump middle"), ("middle", sshd, "ProxyJump gate"), ("gate", gate, "")):
        where = f"HostName {server.host}\n  Port {server.port}\n  User {server.user}\n  IdentityFile {server.folder}/id\n  {jump}"
        text += f"Host {name}\n  {where}\n"
    (home / ".ssh" / "config").write_text(text)
    assert finish(open_link(Wish("inner")).open(["whoami"])) == (f"{inner.user}\n".encode(), b"", 0)
    gate.control("stop")
    with pytest.raises(EnvironmentFailed, match=f"port {gate.port}, refuses connections"):
        open_link(Wish("inner")).open(["true"])


def test_a_jump_host_that_cannot_reach_the_host(sshd, open_link, free_port: int) -> None:
    jump = f"{sshd.user}@{sshd.host}:{sshd.port}"
    with pytest.raises(EnvironmentFailed, match=f"can't be reached from the jump host {jump}"):
        open_link(host="127.0.0.1", port=free_port, jump=jump).open(["true"])


# -- hosts that cannot be reached --------------------------------------------------------------------------------------


def test_there_is_no_such_host(open_link) -> None:
    with pytest.raises(EnvironmentFailed, match=r"there is no host 'no-such-host\.invalid'"):
        open_link(host="no-such-host.invalid").open(["true"])


def test_nobody_listens(open_link, free_port: int) -> None:
    with pytest.raises(EnvironmentFailed, match=rf"127.0.0.1, port {free_port}, refuses connections: is sshd running"):
        open_link(port=free_port).open(["true"])


def test_somebody_else_listens(open_link, chatter: Callable[[bytes], int], caplog: pytest.LogCaptureFixture) -> None:
    """The error is one sentence: paramiko's traces belong to a debug log."""
    with pytest.raises(EnvironmentFailed, match="does not answer as an ssh server"):
        open_link(port=chatter(b"220 mail.example.org ESMTP\r\n")).open(["true"])
    assert caplog.text == ""
