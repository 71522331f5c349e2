"""TLS to a real ngircd, with a certificate of the tests' own authority. A proxy records the traffic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from plugins.irc.platform import IrcPlatform
from tests.plugins.irc.conftest import Ngircd, Person, platform_of, settings_of
from tests.plugins.lines import lead_here, line_to
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Chat, Outbound
from toolcrib.testing import FakeHost

SECRET = "the secret of a bot"
NAME, OTHER = "irc.crib.test", "other.crib.test"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_here(monkeypatch, NAME, OTHER)


def host_of(ngircd: Ngircd, port: int, *, name: str = NAME, ca_file: str = "ca.pem", tls: str = "true") -> FakeHost:
    where = {"server": f"{name}:{port}", "tls": tls, "ca_file": ca_file and str(ngircd.folder / ca_file)}
    settings = settings_of(0, "crib", "#tls", login="password", **where)
    return FakeHost(settings=settings, secrets={"IRC_PASSWORD": SECRET})


async def test_a_certificate_of_the_file_is_trusted_and_nothing_is_said_beside_tls(ngircd: Ngircd) -> None:
    async with (
        Person(ngircd.port, "alice") as alice,
        line_to(ngircd.tls_port) as line,
        platform_of(host_of(ngircd, line.port)) as platform,
    ):
        await alice.joins("#tls")
        await platform.send(Outbound(Chat("#tls", is_group=True), "hello there", "k"))
        await alice.until(lambda: alice.heard("crib", "#tls") == ["hello there"])
        assert line.said.startswith(b"\x16\x03")  # a TLS handshake, before any other data
        assert not [word for word in (b"CAP", b"NICK", b"hello there", SECRET.encode()) if word in line.said]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ca_file": ""}, r"not trusted \(unable to get local issuer certificate\): name a file .* in settings\.ca_file"),
        ({"ca_file": "unknown.pem"}, r"not trusted .*settings\.ca_file"),
        ({"name": OTHER}, r"for another name \(.*other\.crib\.test.*\): use the certificate's name in settings\.server"),
        ({"ca_file": "key.pem"}, r"settings\.ca_file: expected a file with certificates"),
        ({"ca_file": "nothing.pem"}, r"settings\.ca_file: the file can't be read"),
    ],
)
async def test_another_certificate_is_refused_before_a_word_is_said(ngircd: Ngircd, changes: dict[str, str], said: str) -> None:
    async with line_to(ngircd.tls_port) as line:
        platform = IrcPlatform("irc", host_of(ngircd, line.port, **changes))
        with pytest.raises(ConfigError, match=said):
            await platform.connect()
        await platform.stop()
        assert b"CAP" not in line.said
        assert not line.has_heard(SECRET)


@pytest.mark.parametrize("replace", [bytes, lambda data: b"ERROR :speak plainly\r\n"])
async def test_a_port_without_tls_hears_nothing(
    ngircd: Ngircd, monkeypatch: pytest.MonkeyPatch, replace: Callable[[bytes], bytes]
) -> None:
    """A server without TLS that waits for a line, and an attacker on the way who answers like such a server."""
    monkeypatch.setattr("plugins.irc.link._SECONDS", 2.0)
    async with line_to(ngircd.port if replace is bytes else ngircd.tls_port, replace) as line:
        platform = IrcPlatform("irc", host_of(ngircd, line.port))
        with pytest.raises(ToolcribError, match="in time" if replace is bytes else "TLS with the server failed"):
            await platform.connect()
        await platform.stop()
        assert b"CAP" not in line.said
        assert not line.has_heard(SECRET)


@pytest.mark.parametrize("name", [NAME, "127.crib.test", "localhost.crib.test"])
async def test_no_password_goes_without_tls_to_a_name_that_only_looks_like_this_machine(
    ngircd: Ngircd, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lead_here(monkeypatch, name)
    async with line_to(ngircd.port) as line:
        platform = IrcPlatform("irc", host_of(ngircd, line.port, name=name, tls="false"))
        with pytest.raises(ConfigError, match=r"settings\.tls: without TLS the password"):
            await platform.connect()
        assert line.said == b""
