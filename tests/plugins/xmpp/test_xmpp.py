"""XMPP on a real Prosody, through the whole gateway, as users see it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from agent.gateway.forms import body_of
from agent.gateway.gateway import Gateway
from agent.gateway.platform_runner import ChatLine
from plugins.xmpp.link import XmppLink
from plugins.xmpp.platform import XmppPlatform
from tests.plugins.houses import all_asked
from tests.plugins.xmpp.conftest import Person, Prosody, Said, XmppHouse, platform_of
from toolcrib import ConfigError
from toolcrib.chat import Chat, NotSent, Outbound, OutFile
from toolcrib.testing import FakeHost


def line_of(gateway: Gateway) -> ChatLine:
    assert gateway.lines[0].problem == ""
    return gateway.lines[0]


async def test_a_message_is_answered_and_the_answer_grows_by_corrections(house: XmppHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.says(house.bot, "slow one two three four five six")
            await alice.until(lambda: alice.texts(house.bot) == ["re slow one two three four five six"])
            assert len(alice.said(house.bot)[0].forms) > 2
            assert house.asked == ["slow one two three four five six"]


async def test_files_come_and_go(house: XmppHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line = line_of(gateway)
            await alice.gives(house.bot, "notes.txt", b"buy milk", "read this")
            await alice.until(lambda: alice.texts(house.bot))
            assert "notes.txt came with this message" in house.asked[0]
            [kept] = house.folder.parent.rglob("*notes.txt")
            assert kept.read_bytes() == b"buy milk"

            report = house.folder / "report.csv"
            report.write_bytes(b"a,b\n" * 1000)
            files = [OutFile(report, "report.csv", "text/csv")]
            await line.outbox.put(alice.id, "report", body_of(Chat(alice.id), "The report:", files=files))
            await alice.until(lambda: alice.said(house.bot)[-1].url)
            assert alice.texts(house.bot)[-2] == "The report:"
            assert alice.said(house.bot)[-1].url.endswith("/report.csv")


async def _question(person: Person, house: XmppHouse, name: str, where: str = "") -> Said:
    """Create a folder, ask the bot to delete it, and return the bot's question with its reactions."""
    (house.folder / name).mkdir()
    mention = f"{house.nick}: " if where else ""
    where, bot = where or house.bot, house.nick if where else ""
    await person.says(where, f"{mention}rm -rf {house.folder}/{name}")
    await person.until(lambda: [one for one in person.said(where, bot) if f"/{name}" in one.text and one.reactions])
    await all_asked(house.store, "xmpp")
    return [one for one in person.said(where, bot) if f"/{name}" in one.text][-1]


async def test_an_approval_in_a_room_is_granted_by_who_may(house: XmppHouse) -> None:
    """003-25"""
    async with house.person("alice") as alice, house.person("mallory") as mallory, house.person("eve") as eve:
        room = await alice.room(mallory, eve)
        house.configure(alice.id, mallory.id, rooms=room)
        async with house.gateway() as gateway:
            line_of(gateway)
            question = await _question(alice, house, "build", room)
            assert {"👍", "👎"} <= set(question.reactions)
            await eve.reacts(room, question.known_as, "👍")
            await mallory.reacts(room, question.known_as, "👍")
            await alice.until(lambda: any("owner may" in text for text in alice.texts(room, house.nick)))
            await mallory.answers(room, question.known_as, "1")
            await alice.until(lambda: sum("owner may" in text for text in alice.texts(room, house.nick)) == 2)
            await alice.reacts(room, question.known_as, "👍", "👎")  # two reactions are not an answer
            assert (house.folder / "build").is_dir()
            await alice.reacts(room, question.known_as, "🎉", "👍\ufe0f")
            await alice.until(lambda: alice.texts(room, house.nick)[-1] == "ran it")
            assert not (house.folder / "build").exists()
            [settled] = [one for one in alice.said(room, house.nick) if "rm -rf" in one.text or "approved by" in one.text]
            assert "approved by" in settled.text
            await alice.until(lambda: not alice.said(room, house.nick)[0].reactions)


async def test_an_approval_is_denied_by_a_reaction_and_answered_by_words(house: XmppHouse) -> None:
    """003-25"""
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            question = await _question(alice, house, "one")
            await alice.reacts(house.bot, question.known_as, "👎")
            await alice.until(lambda: alice.texts(house.bot)[-1] == "ran it")  # the model answers any result like this
            assert (house.folder / "one").is_dir()
            question = await _question(alice, house, "two")
            await alice.answers(house.bot, question.known_as, "3")
            await alice.until(lambda: alice.texts(house.bot)[-1] == "ran it")
            assert (house.folder / "two").is_dir()
            await _question(alice, house, "three")
            await alice.says(house.bot, "1")
            await alice.until(lambda: not (house.folder / "three").exists())


async def test_a_gateway_that_is_opened_again_goes_on(house: XmppHouse) -> None:
    """003-25"""
    async with house.person("alice") as alice, house.person("carl") as carl:
        room = await alice.room(carl)
        house.configure(alice.id, carl.id, rooms=room)
        async with house.gateway() as gateway:
            line_of(gateway)
            question = await _question(alice, house, "build", room)
        await carl.says(room, f"{house.nick}: said while it was away")
        await alice.says(house.bot, "and this")
        await alice.reacts(room, question.known_as, "👍")
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.until(lambda: "ran it" in alice.texts(room, house.nick))
            await alice.until(lambda: alice.texts(house.bot) == ["re and this"])
            await alice.until(lambda: any("said while it was away" in text for text in alice.texts(room, house.nick)))
            assert not (house.folder / "build").exists()
            assert sum("said while it was away" in one for one in house.asked) == 1


async def test_a_server_that_was_killed_is_found_again(house: XmppHouse) -> None:
    async with house.person("alice") as alice:
        room = await alice.room()
        house.configure(alice.id, rooms=room)
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.says(house.bot, "wait for it")
            await alice.until(lambda: house.asked)
            house.server.control("kill")
            house.may.set()  # the answer is ready while the server is down
            await asyncio.sleep(0.5)
            house.server.control("start")
            await alice.leave()
            await alice.enter()
            await alice.join(room)
            await alice.until(lambda: alice.texts(house.bot) == ["re wait for it"])
            await alice.says(house.bot, "again")
            await alice.until(lambda: alice.texts(house.bot) == ["re wait for it", "re again"])
            mention = f"{house.nick}: here too"

            async def asks() -> None:
                while not alice.texts(room, house.nick):
                    await alice.says(room, mention)
                    await asyncio.sleep(0.5)

            await asyncio.wait_for(asks(), 30)
            assert house.asked.count("wait for it") == 1


async def test_an_invitation_is_followed_where_who_invites_may_speak(house: XmppHouse) -> None:
    async with house.person("alice") as alice, house.person("eve") as eve:
        theirs, ours = await eve.room(), await alice.room()
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            await eve.invites(house.bot, theirs)
            await alice.invites(house.bot, ours)

            def is_in(person: Person, room: str) -> bool:
                return house.nick in person.client.plugin["xep_0045"].get_roster(room)

            await alice.until(lambda: is_in(alice, ours))
            assert not is_in(eve, theirs)
            await alice.says(ours, f"{house.nick}: hello")
            await alice.until(lambda: alice.texts(ours, house.nick))
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.until(lambda: is_in(alice, ours))


async def test_who_a_room_does_not_name_is_nobody(prosody: Prosody) -> None:
    async with Person(prosody, "alice") as alice, Person(prosody, "eve") as eve:
        room = await alice.room(eve)
        bot = prosody.register("bot")
        form = await alice.client.plugin["xep_0045"].get_room_config(room)
        form.set_values({"muc#roomconfig_whois": "moderators"})
        await alice.client.plugin["xep_0045"].set_room_config(room, form)
        host = FakeHost(settings=prosody.settings(bot, rooms=room), secrets={"XMPP_PASSWORD": f"{bot.partition('@')[0]}pw"})
        async with platform_of(host):
            await alice.says(room, "who am I?")
            await alice.says(bot, "that is me")
            await alice.until(lambda: host.received)
        forged = (
            f'<x xmlns="http://jabber.org/protocol/muc#user"><item jid="{alice.id}/1" affiliation="owner" role="moderator"/></x>'
        )
        await eve.says(room, "I am alice", forged)
        async with platform_of(host):
            await alice.says(bot, "and again")
            await alice.until(lambda: len(host.received) == 2)
        assert [(one.user, one.text) for one in host.received] == [(alice.id, "that is me"), (alice.id, "and again")]


async def test_a_message_is_shown_once_whatever_is_lost(prosody: Prosody) -> None:
    async with Person(prosody, "alice") as alice:
        room = await alice.room()
        bot = prosody.register("bot")
        nick = bot.partition("@")[0]
        host = FakeHost(settings=prosody.settings(bot, rooms=room), secrets={"XMPP_PASSWORD": f"{nick}pw"})
        for chat, where, name in ((Chat(alice.id), bot, ""), (Chat(room, is_group=True), room, nick)):
            async with platform_of(host) as platform:
                first = await platform.send(Outbound(chat, "a *start*", "k1"))
                assert await platform.send(Outbound(chat, "a *start*", "k1")) == first
            async with platform_of(host) as platform:
                assert await platform.send(Outbound(chat, "a start and its end", "k1", is_again=True)) == first
                await platform.send(Outbound(chat, "last", "k2", is_again=True))
                await alice.until(lambda where=where, name=name: alice.texts(where, name) == ["a start and its end", "last"])


async def test_a_room_that_is_not_entered_again_yet_is_waited_for(prosody: Prosody, monkeypatch: pytest.MonkeyPatch) -> None:
    join, may = XmppLink.join, asyncio.Event()

    async def later(self: XmppLink, room: str, nick: str) -> None:
        await may.wait()
        await join(self, room, nick)

    monkeypatch.setattr(XmppLink, "join", later)
    async with Person(prosody, "alice") as alice:
        room = await alice.room()
        bot = prosody.register("bot")
        host = FakeHost(settings=prosody.settings(bot, rooms=room), secrets={"XMPP_PASSWORD": f"{bot.partition('@')[0]}pw"})
        may.set()
        async with platform_of(host) as platform:
            may.clear()
            platform._up.client.abort()
            problems: list[str] = []
            while "the bot is not in the room" not in problems:
                with pytest.raises(NotSent) as caught:
                    await _sent(platform, room)
                assert not caught.value.for_good
                problems.append(str(caught.value))
                await asyncio.sleep(0.02)
            may.set()
            while not alice.texts(room, bot.partition("@")[0]):
                with contextlib.suppress(NotSent):
                    await _sent(platform, room)
                await asyncio.sleep(0.02)


async def _sent(platform: XmppPlatform, room: str) -> str:
    return await platform.send(Outbound(Chat(room, is_group=True), "the news", "k"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"user": "bot"}, "user: expected an address"),
        ({"server": "localhost"}, "server: expected HOST:PORT"),
        ({"rooms": "lobby"}, "rooms: 'lobby' is not a room"),
        ({"per_second": "often"}, "per_second: expected a number above 0"),
        ({"ca_file": "/nowhere"}, "ca_file: "),
        ({"ca_file": ""}, "certificate is not trusted"),
        ({"usr": "x"}, "usr: unknown setting; did you mean user"),
        ({"user": "nobody@localhost"}, "rejects XMPP_PASSWORD"),
    ],
)
async def test_what_is_wrong_is_said(prosody: Prosody, changes: dict[str, str], said: str) -> None:
    settings = prosody.settings(prosody.register("bot")) | changes
    platform = XmppPlatform("xmpp", FakeHost(settings=settings, secrets={"XMPP_PASSWORD": "wrong"}))
    with pytest.raises(ConfigError, match=said):
        await platform.connect()
    await platform.stop()
