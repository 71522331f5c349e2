"""An error in the settings, the password or the servers names the setting to change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from plugins.email.platform import EmailPlatform
from tests.infra.mail import PASSWORD
from tests.infra.served import free_port
from tests.plugins.email.conftest import Post
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import TellsShortcomings
from toolcrib.testing import FakeHost

WHOLE = {
    "address": "bot@crib.test",
    "imap_url": "imaps://mx.crib.test",
    "smtp_url": "smtps://mx.crib.test",
    "authserv_id": "mx.crib.test",
}


def platform_of(folder: Path, secrets: dict[str, str] | None = None, **settings: str) -> EmailPlatform:
    given = {name: value for name, value in {**WHOLE, **settings}.items() if value}
    return EmailPlatform("email", FakeHost(settings=given, secrets=secrets or {"EMAIL_PASSWORD": PASSWORD}, folder=folder))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("adress", "x@y", "did you mean address"),
        ("address", "", "the bot's own address"),
        ("address", "bot", "the bot's own address"),
        ("authserv_id", "", "no sender is authenticated"),
        ("imap_url", "", "an address with a host"),
        ("imap_url", "imap://mx.crib.test", "imaps://"),
        ("imap_url", "imaps://mx.crib.test:x", "an address"),
        ("smtp_url", "https://mx.crib.test", "smtps://"),
        ("link_url", "http://bot.example", "over http"),
        ("link_listen", "8791", "HOST:PORT"),
        ("link_hours", "soon", "a number above 0"),
        ("per_hour", "nan", "a number above 0"),
        ("per_second", "0", "a number above 0"),
        ("mailbox", 'IN"BOX', "name of a mailbox"),
    ],
)
async def test_a_setting_that_is_wrong_is_named(tmp_path: Path, key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        await platform_of(tmp_path, **{key: value}).connect()
    assert says in str(raised.value)
    assert f"settings.{key}" in str(raised.value)


async def test_without_a_password_it_says_which(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="EMAIL_PASSWORD"):
        await platform_of(tmp_path, {"OTHER": ""}).connect()


def test_doctor_is_told_what_it_can_t_do(tmp_path: Path) -> None:
    platform = platform_of(tmp_path, trust_from="true", authserv_id="")
    assert isinstance(platform, TellsShortcomings)
    assert [what for what, _ in platform.shortcomings] == [
        "trusts the From header, which can be forged",
        "can't accept approvals by mail",
    ]
    whole = platform_of(tmp_path, link_url="https://bot.example.org/decide")
    assert (list(whole.shortcomings), whole.traits.buttons, whole.traits.written_approvals) == ([], True, False)


async def _refused(post: Post, folder: Path, kind: type[Exception], **settings: Any) -> str:
    given = {**post.settings(post.accounts()["bot"]), **settings}
    before = asyncio.all_tasks()
    platform = platform_of(folder, **given)
    try:
        with pytest.raises(kind) as raised:
            await platform.connect()
    finally:
        await platform.stop()
    assert asyncio.all_tasks() == before
    return str(raised.value)


async def test_servers_that_refuse_or_are_dead_are_told(mail_servers: Post, tmp_path: Path) -> None:
    assert "no mailbox 'None'" in await _refused(mail_servers, tmp_path, ConfigError, mailbox="None")
    dead = f"127.0.0.1:{free_port()}"
    assert "IMAP" in await _refused(mail_servers, tmp_path, ToolcribError, imap_url=f"imap://{dead}")
    assert "SMTP" in await _refused(mail_servers, tmp_path, ToolcribError, smtp_url=f"smtp://{dead}")
    assert "IMAP" in await _refused(mail_servers, tmp_path, ToolcribError, imap_url=f"imaps://127.0.0.1:{mail_servers.imap}")


async def test_a_wrong_password_is_told(mail_servers: Post, tmp_path: Path) -> None:
    platform = platform_of(tmp_path, {"EMAIL_PASSWORD": "guessed"}, **mail_servers.settings(mail_servers.accounts()["bot"]))
    with pytest.raises(ConfigError, match="refuses the user or the password"):
        await platform.connect()
    await platform.stop()


async def test_from_counts_where_the_operator_says_so(mail_servers: Post, tmp_path: Path) -> None:
    from tests.plugins.email.conftest import Person

    addresses = mail_servers.accounts()
    settings = mail_servers.settings(addresses["bot"], trust_from="true", authserv_id="")
    host = FakeHost(settings=settings, secrets={"EMAIL_PASSWORD": PASSWORD}, folder=tmp_path)
    platform = EmailPlatform("email", host)
    try:
        await platform.connect()
        await platform.start()
        ann = Person(mail_servers, addresses["ann"], addresses["bot"])
        ann.writes("hello there", head="")
        await ann.until(lambda: host.received)
        assert [(one.user, one.text) for one in host.received] == [(ann.address, "hello there")]
    finally:
        await platform.stop()
