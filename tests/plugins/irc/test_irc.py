"""IRC on a real ngircd, through the whole gateway. A server of the tests, linked to it, reports logged-in users."""

from __future__ import annotations

import asyncio
import time

import pytest

from agent.gateway.gateway import Gateway
from agent.gateway.platform_runner import ChatLine
from plugins.irc.platform import IrcPlatform
from plugins.irc.writing import lines_of, text_of
from tests.plugins.houses import all_asked
from tests.plugins.irc.conftest import IrcHouse, Ngircd, Person, Services, fake_irc, platform_of, settings_of
from toolcrib import ConfigError
from toolcrib.chat import Chat, NotSent, Outbound
from toolcrib.testing import FakeHost


def line_of(gateway: Gateway) -> ChatLine:
    assert gateway.lines[0].problem == ""
    return gateway.lines[0]


async def _there(house: IrcHouse, services: Services, *people: Person) -> None:
    """Log the users in, and wait until they and the bot are in the channel."""
    for one in people:
        await services.login(one.nick, one.id)
        await one.joins(house.channel)
    await people[0].until(lambda: any(house.nick in line for line in people[0].lines))


async def test_a_message_is_answered_by_whole_paragraphs(house: IrcHouse, ngircd: Ngircd) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice:
        house.configure(ngircd.port, alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await _there(house, services, alice)
            words = " ".join(f"wörd{number}" for number in range(150))
            await alice.says(house.nick, words[:400])
            await alice.until(lambda: "".join(alice.heard(house.nick)).replace(" ", "") == f"re{words[:400]}".replace(" ", ""))
            assert all(len(line.encode()) <= 510 for line in alice.lines)
            assert len(alice.heard(house.nick)) > 1
            await alice.says(house.channel, f"{house.nick}: hello")
            await alice.until(lambda: alice.heard(house.nick, house.channel))
            assert house.asked[-1] == f"{alice.nick}: hello"
            assert "\u2060" in alice.heard(house.nick, house.channel)[0]  # so that it notifies no user
            await alice.says(house.nick, "!help")
            await alice.until(lambda: any("/new" in one for one in alice.heard(house.nick)))


async def _question(person: Person, house: IrcHouse, name: str, channel: str = "") -> None:
    (house.folder / name).mkdir()
    text = f"rm -rf {house.folder}/{name}"
    await person.says(channel or house.nick, f"{house.nick}: {text}" if channel else text)
    await person.until(lambda: any("1 yes, once" in one for one in person.heard(house.nick, channel)))
    await all_asked(house.store, "irc")


async def test_an_approval_in_a_channel_is_granted_by_who_may(house: IrcHouse, ngircd: Ngircd) -> None:
    """003-25"""
    async with (
        Services(ngircd.port) as services,
        Person(ngircd.port, "alice") as alice,
        Person(ngircd.port, "mallory") as mallory,
        Person(ngircd.port, "eve") as eve,
    ):
        house.configure(ngircd.port, alice.id, mallory.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await _there(house, services, alice, mallory)
            await eve.joins(house.channel)
            await _question(alice, house, "build", house.channel)
            await eve.says(house.channel, f"{house.nick}: 1")
            await mallory.says(house.channel, f"{house.nick}: 1")
            await alice.until(lambda: any("owner may" in one for one in alice.heard(house.nick, house.channel)))
            assert sum("owner may" in one for one in alice.heard(house.nick, house.channel)) == 1
            await alice.says(house.channel, "1")  # not addressed to the bot
            assert (house.folder / "build").is_dir()
            await alice.says(house.channel, f"{house.nick}, yes")
            await alice.until(lambda: alice.heard(house.nick, house.channel)[-1] == "ran it")
            assert not (house.folder / "build").exists()
            assert any("approved by" in one for one in alice.heard(house.nick, house.channel))


async def test_an_approval_is_denied_by_a_number_and_by_a_command(house: IrcHouse, ngircd: Ngircd) -> None:
    """003-25"""
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice:
        house.configure(ngircd.port, alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await _there(house, services, alice)
            await _question(alice, house, "one")
            await alice.says(house.nick, "3")
            await alice.until(lambda: "ran it" in alice.heard(house.nick))  # the model answers any result like this
            assert (house.folder / "one").is_dir()
            alice.lines.clear()
            await _question(alice, house, "two", house.channel)
            await alice.says(house.channel, f"{house.nick}: !deny")
            await alice.until(lambda: any("denied by" in one for one in alice.heard(house.nick, house.channel)))
            assert (house.folder / "two").is_dir()


async def test_a_nick_is_nobody(house: IrcHouse, ngircd: Ngircd) -> None:
    """003-25"""
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice, Person(ngircd.port, "eve") as eve:
        house.configure(ngircd.port, alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await _there(house, services, alice)
            await _question(alice, house, "build", house.channel)
            nick = alice.nick
            await alice.leave()
            await eve.joins(house.channel)
            eve.send(f"NICK {nick}")
            await eve.settled()
            eve.nick = nick
            await eve.says(house.channel, f"{house.nick}: yes")
            await eve.says(house.nick, "1")
            await eve.says(house.nick, "hello, it is me")
            await asyncio.sleep(0.3)
            assert (house.folder / "build").is_dir()
            assert len(house.asked) == 1
            with pytest.raises(NotSent) as caught:  # bob's account does not receive alice's messages either
                await line_of(gateway).outbox._platform.send(Outbound(Chat(alice.id), "a secret", "k"))
            assert not caught.value.perhaps_sent
            assert eve.heard(house.nick) == []


async def test_what_is_for_somebody_waits_until_they_are_back(ngircd: Ngircd) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice:
        await services.login(alice.nick, alice.id)
        host = FakeHost(settings=settings_of(ngircd.port, "waiter"))
        async with platform_of(host) as platform:
            await alice.says("waiter", "hello")
            await alice.until(lambda: host.received and host.kept.get("nicks"))
            await alice.leave()
            with pytest.raises(NotSent) as caught:
                await platform.send(Outbound(Chat(alice.id), "an answer", "k"))
            assert (caught.value.for_good, caught.value.perhaps_sent) == (False, False)
            await alice.enter()
            with pytest.raises(NotSent):
                await platform.send(Outbound(Chat(alice.id), "an answer", "k"))
            services.lines.clear()
            alice.send("NICK back")
            alice.nick = "back"
            await services.login("back", alice.id)
            await alice.says("waiter", "here again")
            await alice.until(lambda: host.kept["nicks"][alice.id] == "back")
            await platform.send(Outbound(Chat(alice.id), "an answer", "k", is_again=True))
            await alice.until(lambda: alice.heard("waiter") == ["an answer"])


async def test_a_server_that_was_killed_is_found_again(house: IrcHouse, ngircd: Ngircd) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice:
        house.configure(ngircd.port, alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await _there(house, services, alice)
            await alice.says(house.nick, "wait for it")
            await alice.until(lambda: house.asked)
            ngircd.control("kill")
            for one in (alice, services):
                await one.leave()
            house.may.set()  # the answer is ready while the server is down
            await asyncio.sleep(0.3)
            ngircd.control("start")
            await services.link()
            await alice.enter()
            await services.login(alice.nick, alice.id)
            await alice.joins(house.channel)
            await alice.until(lambda: any("re wait for it" in one for one in alice.heard(house.nick)))
            await alice.says(house.channel, f"{house.nick}: again")
            await alice.until(lambda: alice.heard(house.nick, house.channel))
            assert sum("re wait for it" in one for one in alice.heard(house.nick)) == 1
            assert house.asked.count("wait for it") == 1


async def test_nicks_that_are_taken_and_that_change(ngircd: Ngircd) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice, Person(ngircd.port, "holder") as holder:
        await services.login(alice.nick, alice.id)
        host = FakeHost(settings=settings_of(ngircd.port, holder.nick, "#taken"))
        async with platform_of(host) as platform:
            await alice.joins("#taken")
            await alice.says("#taken", f"{holder.nick}_: hello")
            await alice.until(lambda: host.received)
            assert (host.received[0].text, host.received[0].is_addressed) == ("hello", True)
            services.send(f":services.test SVSNICK {holder.nick}_ moved")
            await services.until(lambda: any("moved" in line for line in services.lines))
            await alice.says("#taken", "moved: and now?")
            await alice.until(lambda: len(host.received) == 2)
            await platform.send(Outbound(Chat("#taken", is_group=True), "here", "k"))
            await alice.until(lambda: alice.heard("moved", "#taken") == ["here"])


async def test_an_invitation_is_followed_where_who_invites_may_speak(ngircd: Ngircd) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice, Person(ngircd.port, "eve") as eve:
        await services.login(alice.nick, alice.id)
        await services.login(eve.nick, eve.id)
        host = FakeHost(settings=settings_of(ngircd.port, "guest"), allowed=frozenset({alice.id}))
        async with platform_of(host):
            await eve.joins("#theirs")
            await alice.joins("#ours")
            eve.send("INVITE guest #theirs")
            await eve.settled()
            alice.send("INVITE guest #ours")
            await alice.until(lambda: any(":guest!" in line and "JOIN" in line for line in alice.lines))
        alice.lines.clear()
        async with platform_of(host):
            await alice.until(lambda: any(":guest!" in line and "JOIN" in line for line in alice.lines))
            assert [line for line in eve.lines if ":guest!" in line and "JOIN" in line] == []


async def test_a_server_s_flood_limits_are_kept(strict_ngircd: Ngircd) -> None:
    async with Services(strict_ngircd.port) as services, Person(strict_ngircd.port, "alice") as alice:
        await services.login(alice.nick, alice.id)
        await alice.joins("#flood")
        host = FakeHost(settings=settings_of(strict_ngircd.port, "calm", "#flood", per_second="2", burst="4"))
        async with platform_of(host) as platform:
            begun = time.monotonic()
            await platform.send(
                Outbound(Chat("#flood", is_group=True), "\n\n".join(f"line {number}" for number in range(8)), "k")
            )
            assert time.monotonic() - begun > 2
            await alice.until(lambda: alice.heard("calm", "#flood") == [f"line {number}" for number in range(8)])


# -- on the fake ---------------------------------------------------------------------------------------------------


async def test_sasl_logs_in_and_a_tag_says_who_wrote() -> None:
    """The test uses the fake, because ngircd has neither feature."""
    async with fake_irc() as fake, Person(fake.port, "alice") as alice:
        fake.accounts["crib-account"] = "p w:ü"
        more = {"login": "sasl", "account": "crib-account", "accounts": "tags"}
        host = FakeHost(settings=settings_of(fake.port, "crib", "#a", **more), secrets={"IRC_PASSWORD": "p w:ü"})
        async with platform_of(host) as platform:
            assert fake.client("crib").account == "crib-account"
            await alice.joins("#a")
            await alice.says("crib", "a stranger says this")
            fake.client(alice.nick).account = "alice"
            await alice.says("crib", "alice says this")
            await alice.says("#a", "an aside")
            fake.client(alice.nick).account = "bob"  # a user who logs in to another account becomes that user
            await alice.says("crib", "bob says this")
            await alice.until(lambda: len(host.received) == 3)
            with pytest.raises(NotSent):
                await platform.send(Outbound(Chat("alice"), "for alice", "k"))
            await platform.send(Outbound(Chat("bob"), "for bob", "k"))
            assert alice.heard("crib") == ["for bob"]
        assert [(one.user, one.text) for one in host.received] == [
            ("alice", "alice says this"), ("alice", "an aside"), ("bob", "bob says this"),
        ]  # fmt: skip


async def test_a_line_that_is_not_confirmed_is_perhaps_sent_and_goes_on_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test uses the fake, which can delay its confirmation."""
    monkeypatch.setattr("plugins.irc.link._SECONDS", 2.0)
    async with fake_irc() as fake, Person(fake.port, "alice") as alice:
        host = FakeHost(settings=settings_of(fake.port, "crib", "#a", accounts="tags"))
        chat = Chat("#a", is_group=True)
        async with platform_of(host) as platform:
            await alice.joins("#a")
            text = "\n\n".join(f"line {number}" for number in range(6))
            fake.holds = "line 5"
            with pytest.raises(NotSent) as caught:
                await platform.send(Outbound(chat, text, "k"))
            assert caught.value.perhaps_sent
            assert alice.heard("crib", "#a") == text.split("\n\n")
            fake.holds = ""
            alice.lines.clear()
            for _ in range(200):
                try:
                    await platform.send(Outbound(chat, f"{text}\n\n(sent again)", "k", is_again=True))
                    break
                except NotSent:
                    await asyncio.sleep(0.02)
            await alice.settled()
            assert alice.heard("crib", "#a") == ["line 4", "line 5", "(sent again)"]  # the lines before were confirmed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"server": "irc.example.org"}, "server: expected HOST:PORT"),
        ({"nick": "two words"}, "nick: expected a nick"),
        ({"channels": "#a,room"}, "channels: expected names such as #room"),
        ({"tls": "perhaps"}, "tls: expected true or false"),
        ({"per_second": "0"}, "per_second: expected a number above 0"),
        ({"accounts": "nicks"}, "accounts: expected tags or whois"),
        ({"accounts": "tags"}, "account-tag"),
        ({"login": "sasl"}, "IRC_PASSWORD is not set"),
        ({"server": "irc.example.org:6667", "login": "password"}, "tls: without TLS the password"),
        ({"nik": "x"}, "nik: unknown setting; did you mean nick"),
        ({"tls": "true", "ca_file": "/nowhere"}, "ca_file: "),
    ],
)
async def test_what_is_wrong_is_said(ngircd: Ngircd, changes: dict[str, str], said: str) -> None:
    platform = IrcPlatform("irc", FakeHost(settings=settings_of(ngircd.port, "wrong") | changes))
    with pytest.raises(ConfigError, match=said):
        await platform.connect()
    await platform.stop()


async def test_a_password_that_is_not_taken_is_said() -> None:
    """The test uses the fake."""
    async with fake_irc() as fake:
        settings = settings_of(fake.port, "crib", login="sasl", accounts="tags")
        platform = IrcPlatform("irc", FakeHost(settings=settings, secrets={"IRC_PASSWORD": "wrong"}))
        with pytest.raises(ConfigError, match="rejects IRC_PASSWORD"):
            await platform.connect()
        await platform.stop()
    async with fake_irc(offers="account-tag") as fake:
        settings = settings_of(fake.port, "crib", login="sasl", accounts="tags")
        platform = IrcPlatform("irc", FakeHost(settings=settings, secrets={"IRC_PASSWORD": "x"}))
        with pytest.raises(ConfigError, match="no SASL"):
            await platform.connect()
        await platform.stop()


def test_lines_keep_to_their_bytes_and_lose_nothing() -> None:
    text = "é" * 300 + " 👍👍 " + "word " * 200
    lines = lines_of(Outbound(Chat("#a"), text, "k", is_plain=True), 400, ())
    assert all(len(line.encode()) <= 400 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    loud = "\x02bold\x02 \x01ACTION x\x01 \x0304,05red\x03 carol caroline"
    [line] = lines_of(Outbound(Chat("#a"), loud, "k"), 400, ["carol"])
    assert not [char for char in line if ord(char) < 32]
    assert "carol " not in line
    assert "caroline" in line
    assert text_of("\x0304,05red\x03 \x02bold\x0f \x1fx\x1f \x0412abEFy\x04 \x07") == "red bold x y"
