"""Hostile lines of users, through the whole gateway on a real ngircd, and of a server, on the fake. The owner is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from plugins.irc import link
from plugins.irc.platform import IrcPlatform
from tests.plugins.irc.conftest import IrcHouse, Ngircd, Person, Services, fake_irc, platform_of, settings_of
from tests.plugins.irc.test_irc import _there, line_of
from toolcrib import ConfigError
from toolcrib.chat import Chat, NotSent, Outbound
from toolcrib.contract.dataclass import replace
from toolcrib.testing import FakeHost

Act = Callable[[IrcHouse, Person, Person, Services], Awaitable[object]]
"""An action: (the house, the owner, a stranger in the owner's channel, the services)."""


def eve_sends(*lines: str) -> Act:
    """Return an action: the stranger sends lines; ``BOT``, ``CHANNEL`` and ``OWNER`` (the account) are replaced by names."""

    async def act(house: IrcHouse, alice: Person, eve: Person, services: Services) -> None:
        for line in lines:
            eve.send(line.replace("BOT", house.nick).replace("CHANNEL", house.channel).replace("OWNER", alice.id))

    return act


def alice_sends(*lines: str) -> Act:
    async def act(house: IrcHouse, alice: Person, eve: Person, services: Services) -> None:
        for line in lines:
            alice.send(line.replace("BOT", house.nick).replace("CHANNEL", house.channel))

    return act


async def _logged_in_as_another(house: IrcHouse, alice: Person, eve: Person, services: Services) -> None:
    await services.login(eve.nick, alice.id.upper())
    eve.send(f"PRIVMSG {house.nick} :let me in")


async def _logged_in_as_all(house: IrcHouse, alice: Person, eve: Person, services: Services) -> None:
    await services.login(eve.nick, "*")
    eve.send(f"PRIVMSG {house.nick} :let me in")


LINES: dict[str, Act] = {
    "a stranger": eve_sends("PRIVMSG BOT :let me in"),
    "a stranger in the channel": eve_sends("PRIVMSG CHANNEL :BOT: let me in"),
    "a stranger who is called by the owner's account": eve_sends("NICK OWNER", "PRIVMSG BOT :let me in"),
    "an account of another case": _logged_in_as_another,
    "an account that could pass for all": _logged_in_as_all,
    "a tag that says whose it is": eve_sends("@account=OWNER PRIVMSG BOT :let me in", "@+account=OWNER PRIVMSG BOT :let me in"),
    "a text that is a line": eve_sends("PRIVMSG BOT ::OWNER!a@b PRIVMSG BOT :let me in"),
    "an aside": alice_sends("PRIVMSG CHANNEL :not for the bot"),
    "a notice": alice_sends("NOTICE BOT :let me in", "NOTICE CHANNEL :BOT: let me in"),
    "CTCP": alice_sends(
        "PRIVMSG BOT :\x01VERSION\x01", "PRIVMSG BOT :\x01ACTION lets me in\x01", "PRIVMSG BOT :\x01DCC SEND x 1 2 3\x01"
    ),
    "nothing but codes": alice_sends("PRIVMSG BOT :\x02\x0304\x1f\x0f", "PRIVMSG CHANNEL :BOT: \x02"),
    "bytes that are no text": eve_sends("PRIVMSG BOT :\ufffd\ufffe let me in"),
    "an invitation of a stranger": eve_sends("JOIN #evil", "INVITE BOT #evil"),
    "thirty messages at once": eve_sends(*["PRIVMSG BOT :let me in"] * 30),
}


@pytest.mark.parametrize("act", LINES.values(), ids=list(LINES))
async def test_a_line_reaches_no_model_and_the_owner_is_answered(house: IrcHouse, ngircd: Ngircd, act: Act) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice, Person(ngircd.port, "eve") as eve:
        house.configure(ngircd.port, alice.id)
        async with house.gateway() as gateway:
            line = line_of(gateway)
            await _there(house, services, alice)
            await eve.joins(house.channel)
            await act(house, alice, eve, services)
            await eve.settled()
            await alice.says(house.nick, "\x02are\x02 you \x0304well?\x03")
            await alice.until(lambda: alice.heard(house.nick) == ["re are you well?"])
            assert house.asked == ["are you well?"]
            assert line.door.counts["kept"] == 1
            assert [record.chat for record in await house.store.mail.chats()] == [alice.id]
            assert (eve.heard(house.nick), eve.heard(house.nick, house.channel)) == ([], [])


async def test_what_a_server_says_wrongly_is_passed_over() -> None:
    """The test uses the fake."""
    async with fake_irc() as fake, Person(fake.port, "alice") as alice:
        host = FakeHost(settings=settings_of(fake.port, "crib", "#a", accounts="tags"))
        async with platform_of(host):
            bot = fake.client("crib")
            fake.client(alice.nick).account = "alice"
            for line in (
                "",
                ":",
                "@",
                "@a=b",
                "PRIVMSG",
                "PRIVMSG crib",
                ":x PRIVMSG crib :hi",
                "@account :x!y@z PRIVMSG crib :hi",
                "@account=a;account=b :x!y@z PRIVMSG crib :hi",
                "@account=* :x!y@z PRIVMSG crib :hi",
                "@account=a\\sb :x!y@z PRIVMSG crib :hi",
                "@account=eve :x!y@z PRIVMSG other :hi",
                "@account=eve :x!y@z PRIVMSG @#a :hi",
                "@account=eve :x!y@z PRIVMSG #other :hi",
                "NICK",
                ":nobody NICK",
                "QUIT",
                "PART",
                "KICK #a",
                "JOIN",
                "353",
                "353 crib = #a",
                "433",
                "330 crib",
                "311",
                "CAP",
                "CAP * LS",
                "PONG",
                "INVITE",
                "@account=eve :x!y@z INVITE crib",
                "ERROR :nothing",
                "AUTHENTICATE",
                "9999999 x",
                "\x00\x01",
                "x" * 20_000,
            ):
                bot.send_line(line)
            bot.writer.write(b"\xff\xfe PRIVMSG \x80\r\n")
            await asyncio.sleep(0)
            await alice.says("crib", "are you well?")
            await alice.until(lambda: host.received)
            assert [(one.user, one.text) for one in host.received] == [("alice", "are you well?")]


@pytest.mark.parametrize(("channels", "most"), [((), 4), (("#shared",), 2)], ids=["unseen", "seen"])
async def test_whoever_takes_a_nick_does_not_read_the_rest(ngircd: Ngircd, channels: tuple[str, ...], most: int) -> None:
    """The platform asks the server after every few lines; once a user has left, it sends nothing more."""
    words = [f"secret line {number}" for number in range(12)]
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice, Person(ngircd.port, "eve") as eve:
        await services.login(alice.nick, alice.id)
        await alice.joins(*channels)
        host = FakeHost(settings=settings_of(ngircd.port, "waiter", *channels, per_second="5", burst="4"))
        async with platform_of(host) as platform:
            await alice.says("waiter", "hello")
            await alice.until(lambda: host.received and host.kept.get("nicks"))
            out = Outbound(Chat(alice.id), "\n\n".join(words), "k")
            sending = asyncio.create_task(platform.send(out))
            await alice.until(lambda: len(alice.heard("waiter")) >= 4)
            heard = alice.heard("waiter")
            await alice.leave()
            while not any(f"NICK :{alice.nick}" in line for line in eve.lines):  # until the server has noticed that alice left
                eve.send(f"NICK {alice.nick}")
                await eve.settled()
            eve.nick = alice.nick
            with pytest.raises(NotSent) as caught:
                await sending
            assert caught.value.perhaps_sent
            await eve.settled()
            assert len(eve.heard("waiter")) <= most
            alice.nick = f"{alice.nick}b"
            await alice.enter()
            await services.login(alice.nick, alice.id)
            await alice.says("waiter", "back")
            await alice.until(lambda: alice.nick in host.kept["nicks"].values())
            await platform.send(replace(out, is_again=True))
            await alice.until(lambda: words[-1] in alice.heard("waiter"))
    assert list(dict.fromkeys([*heard, *alice.heard("waiter")])) == words


@pytest.mark.parametrize("text", ["hello&#13;JOIN #evil", "`x`&#13;JOIN #evil", "- a&#13;JOIN #evil", "hello&#10;JOIN #evil"])
async def test_an_answer_is_no_command_to_the_server(ngircd: Ngircd, text: str) -> None:
    """Many servers end a line at a carriage return, and Markdown can contain one as an entity."""
    async with Person(ngircd.port, "alice") as alice:
        await alice.joins("#evil", "#good")
        host = FakeHost(settings=settings_of(ngircd.port, "speaker", "#good"))
        async with platform_of(host) as platform:
            await platform.send(Outbound(Chat("#good", is_group=True), text, "k"))
            await alice.settled()
            assert not [line for line in alice.lines if line.startswith(":speaker!") and " JOIN " in line and "#evil" in line]
            assert any("JOIN #evil" in line for line in alice.heard("speaker", "#good"))


async def test_whoever_holds_the_nick_keeps_nobody_out(ngircd: Ngircd) -> None:
    """ngircd accepts 19 characters, so there is no room for more underscores."""
    nick = "waiterwaiterwaiter"
    async with Person(ngircd.port, "eve") as eve, Person(ngircd.port, "mallory") as mallory:
        for one, name in ((eve, nick), (mallory, f"{nick}_")):
            one.send(f"NICK {name}")
            await one.settled()
        async with platform_of(FakeHost(settings=settings_of(ngircd.port, nick))) as platform:
            assert platform._up.nick.startswith(nick[:6])


async def test_a_nick_that_no_server_takes_is_said() -> None:
    """The test uses the fake."""
    async with fake_irc() as fake:
        fake.instead["NICK"] = ["432 * crib :Erroneous nickname"] * 20
        platform = IrcPlatform("irc", FakeHost(settings=settings_of(fake.port, "crib", accounts="tags")))
        with pytest.raises(ConfigError, match="rejects the nick crib"):
            await platform.connect()
        await platform.stop()
        assert 3 < sum(line.startswith("NICK") for _, line in fake.log) < 10


async def test_a_server_that_was_asked_too_often_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test uses the fake."""
    answer = "263 crib WHOIS :Please wait a while and try again"
    monkeypatch.setattr(link, "_AGAIN_SECONDS", 0.1)
    async with fake_irc() as fake, Person(fake.port, "alice") as alice:
        host = FakeHost(settings=settings_of(fake.port, "crib", accounts="whois"))
        async with platform_of(host) as platform:
            first = platform._up
            fake.client(alice.nick).account = "alice"
            fake.instead["WHOIS"] = [answer, answer]
            await alice.says("crib", "are you well?")
            await alice.until(lambda: [one.user for one in host.received] == ["alice"])
            assert platform._up is first


@pytest.mark.parametrize(("number", "for_good"), [("439", False), ("707", False), ("486", True), ("404", True)])
async def test_a_line_that_the_server_drops_does_not_count_as_said(number: str, for_good: bool) -> None:
    """The test uses the fake."""
    async with fake_irc() as fake, Person(fake.port, "alice") as alice:
        host = FakeHost(settings=settings_of(fake.port, "crib", "#a", accounts="tags"))
        async with platform_of(host) as platform:
            await alice.joins("#a")
            fake.instead["PRIVMSG"] = [f"{number} crib #a :no"]
            out = Outbound(Chat("#a", is_group=True), "the news", "k")
            with pytest.raises(NotSent) as caught:
                await platform.send(out)
            assert caught.value.for_good == for_good
            await platform.send(replace(out, is_again=True))
            await alice.until(lambda: alice.heard("crib", "#a") == ["the news"])


async def test_an_answer_goes_to_the_channel_that_was_asked_in(ngircd: Ngircd) -> None:
    """The channels #dev[1] and #dev{1} are different, and a stranger is in the second one."""
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice, Person(ngircd.port, "eve") as eve:
        await services.login(alice.nick, alice.id)
        await alice.joins("#Dev[1]")
        await eve.joins("#dev{1}")
        host = FakeHost(settings=settings_of(ngircd.port, "waiter", "#Dev[1]"))
        async with platform_of(host) as platform:
            await alice.says("#Dev[1]", "waiter: hello")
            await alice.until(lambda: host.received)
            await platform.send(Outbound(host.received[0].chat, "the secret", "k"))
            await alice.until(lambda: [line for line in alice.lines if "the secret" in line])
            await eve.settled()
            assert not [line for line in eve.lines if "the secret" in line]
