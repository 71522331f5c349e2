"""TLS to a real Dovecot and a real OpenSMTPD, with a certificate of the tests' own authority. Proxies record the traffic."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugins.email.platform import EmailPlatform
from plugins.email.smtp import check_account, submit
from tests.infra.mail import PASSWORD
from tests.plugins.email.conftest import Person, Post
from tests.plugins.lines import Line, lead_here, line_to
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import NotSent, Outbound
from toolcrib.testing import FakeHost

NAME, OTHER = "mx.crib.test", "other.crib.test"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_here(monkeypatch, NAME, OTHER)


class Lines:
    """Proxies to the servers; ``smtp`` uses TLS from the start, or STARTTLS."""

    def __init__(self, post: Post, folder: Path, imap: Line, smtp: Line, scheme: str) -> None:
        self.imap, self.smtp = imap, smtp
        self._post, self._folder, self._scheme = post, folder, scheme
        addresses = post.accounts()
        self.bot, self.ann = addresses["bot"], Person(post, addresses["ann"], addresses["bot"])

    def host(self, *, imap: str = NAME, smtp: str = NAME, ca_file: str = "ca.pem", password: str = PASSWORD) -> FakeHost:
        where = {"imap_url": f"imaps://{imap}:{self.imap.port}", "smtp_url": f"{self._scheme}://{smtp}:{self.smtp.port}"}
        given = {**where, "ca_file": ca_file and str(self._post.folder / ca_file)}
        settings = self._post.settings(self.bot, **given)
        return FakeHost(settings=settings, secrets={"EMAIL_PASSWORD": password}, folder=self._folder)

    def have_heard(self, secret: str = PASSWORD) -> bool:
        return any(
            line.has_heard(secret, self.bot) or b"LOGIN" in line.said or b"AUTH" in line.said for line in (self.imap, self.smtp)
        )


@pytest.fixture(params=["smtps", "smtp"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def lines(post: Post, folder: Path, scheme: str) -> AsyncIterator[Lines]:
    async with line_to(post.imaps) as imap, line_to(post.smtps if scheme == "smtps" else post.starttls) as smtp:
        yield Lines(post, folder, imap, smtp, scheme)


async def refused(host: FakeHost, said: str, kind: type[Exception] = ConfigError) -> None:
    platform = EmailPlatform("email", host)
    try:
        with pytest.raises(kind, match=said):
            await platform.connect()
    finally:
        await platform.stop()


async def test_a_certificate_of_the_file_is_trusted_and_nothing_is_said_beside_tls(
    mail_servers: Post, tmp_path: Path, scheme: str
) -> None:
    async with lines(mail_servers, tmp_path, scheme) as to:
        host = to.host()
        platform = EmailPlatform("email", host)
        try:
            await platform.connect()
            await platform.start()
            to.ann.writes("hello there")
            await to.ann.until(lambda: [one.text for one in host.received] == ["hello there"])
            await platform.send(Outbound(host.received[0].chat, "and to you", "k"))
            await to.ann.until(lambda: to.ann.texts() == ["and to you"])
        finally:
            await platform.stop()
        assert to.imap.said.startswith(b"\x16\x03")  # a TLS handshake, before any other data
        clear, _, _ = to.smtp.said.partition(b"\x16\x03")
        commands = [line.partition(b" ")[0] for line in clear.split(b"\r\n")]
        assert commands == ([b"EHLO", b"STARTTLS", b""] if scheme == "smtp" else [b""])
        assert not to.have_heard()
        assert not [word for word in (b"hello there", b"and to you") if word in to.imap.said + to.smtp.said]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ca_file": ""}, r"IMAP: .*not trusted \(unable to get local issuer certificate\): name a file .* in settings\.ca_file"),
        ({"ca_file": "unknown.pem"}, r"IMAP: .*not trusted .*settings\.ca_file"),
        ({"ca_file": "key.pem"}, r"settings\.ca_file: expected a file with certificates"),
        ({"ca_file": "nothing.pem"}, r"settings\.ca_file: the file can't be read"),
        ({"imap": OTHER}, r"IMAP: .*for another name \(.*other\.crib\.test.*\): use .* in settings\.imap_url"),
        ({"smtp": OTHER}, r"SMTP: .*for another name \(.*other\.crib\.test.*\): use .* in settings\.smtp_url"),
    ],
)
async def test_another_certificate_is_refused_before_a_password_is_said(
    mail_servers: Post, tmp_path: Path, scheme: str, changes: dict[str, str], said: str
) -> None:
    async with lines(mail_servers, tmp_path, scheme) as to:
        await refused(to.host(**changes), said)
        assert not to.have_heard()


async def test_what_is_handed_in_later_meets_the_same(mail_servers: Post, tmp_path: Path, scheme: str) -> None:
    """The certificate may change between two mails."""
    async with lines(mail_servers, tmp_path, scheme) as to:
        platform = EmailPlatform("email", to.host(ca_file="unknown.pem"))
        _, account = platform._settings.accounts()
        with pytest.raises(NotSent, match=r"SMTP: .*not trusted .*settings\.ca_file") as raised:
            await submit(account, to.bot, to.ann.address, b"Subject: x\r\n\r\nthe words of a person")
        assert (raised.value.for_good, raised.value.perhaps_sent) == (False, False)
        assert b"the words" not in to.smtp.said
        assert not to.have_heard()


async def test_the_password_is_checked_behind_tls(mail_servers: Post, tmp_path: Path, scheme: str) -> None:
    async with lines(mail_servers, tmp_path, scheme) as to:
        _, account = EmailPlatform("email", to.host(password="guessed"))._settings.accounts()
        with pytest.raises(ConfigError, match="refuses the user or the password"):
            await check_account(account)
        assert not to.have_heard("guessed")


@pytest.mark.parametrize("instead", [b"X-NOTHING", b"X"])
async def test_who_hides_starttls_on_the_way_gets_no_password(mail_servers: Post, tmp_path: Path, instead: bytes) -> None:
    async with (
        line_to(mail_servers.imaps) as imap,
        line_to(mail_servers.starttls, lambda data: data.replace(b"STARTTLS", instead)) as smtp,
    ):
        to = Lines(mail_servers, tmp_path, imap, smtp, "smtp")
        await refused(to.host(), "offers no STARTTLS")
        assert smtp.said.partition(b" ")[0] == b"EHLO"
        assert not to.have_heard()


async def test_who_answers_plainly_on_the_way_gets_no_password(mail_servers: Post, tmp_path: Path) -> None:
    """An attacker takes the server's place and speaks no TLS, from the start and after STARTTLS."""
    plain = b"* OK ready\r\n"
    async with line_to(mail_servers.imaps, lambda data: plain) as imap, line_to(mail_servers.smtps) as smtp:
        to = Lines(mail_servers, tmp_path, imap, smtp, "smtps")
        await refused(to.host(), "TLS with the IMAP server failed", ToolcribError)
        assert not to.have_heard()
    async with line_to(mail_servers.imaps) as imap, line_to(mail_servers.smtp) as smtp:
        to = Lines(mail_servers, tmp_path, imap, smtp, "smtps")
        await refused(to.host(), "SMTP server failed: TLS failed", ToolcribError)
        assert not to.have_heard()


async def test_injected_answers_before_tls_are_not_taken(mail_servers: Post, tmp_path: Path) -> None:
    """An attacker appends lines to the server's answer to STARTTLS, so that they might be read as if they came over TLS."""

    injected: list[bytes] = []

    def inject(data: bytes) -> bytes:
        if not data.startswith(b"220 2.0.0"):
            return data
        injected.append(data)
        return data + b"250-mx.crib.test\r\n250 AUTH PLAIN\r\n"

    async with line_to(mail_servers.imaps) as imap, line_to(mail_servers.starttls, inject) as smtp:
        to = Lines(mail_servers, tmp_path, imap, smtp, "smtp")
        platform = EmailPlatform("email", to.host())
        with contextlib.suppress(ToolcribError):  # these lines end the connection, unless they are discarded before TLS begins
            await platform.connect()
        await platform.stop()
        assert injected
        assert not to.have_heard()
