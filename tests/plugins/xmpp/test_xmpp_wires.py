"""The wire's limits: text that is not valid XML, foreign servers, and stanzas that imitate others."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from plugins.xmpp import link, platform
from plugins.xmpp.files import XmppFiles
from plugins.xmpp.link import XmppLost
from plugins.xmpp.writing import stanza_id
from tests.infra.served import certify
from tests.plugins.houses import case
from tests.plugins.xmpp.conftest import Foreign, Person, Prosody, XmppHouse, platform_of
from tests.plugins.xmpp.test_xmpp import _question, line_of
from toolcrib import ConfigError
from toolcrib.chat import Chat, NotSent, Outbound, OutFile
from toolcrib.testing import FakeHost

BODY = "{jabber:client}body"
LOBBY = "lobby@foreign.localhost"


def host_of(prosody: Prosody, **more: str) -> tuple[FakeHost, str]:
    """Return a host for a new account, and its address."""
    bot = prosody.register("bot")
    return FakeHost(settings=prosody.settings(bot, **more), secrets={"XMPP_PASSWORD": f"{bot.partition('@')[0]}pw"}), bot


async def test_text_that_is_no_xml_is_shown_as_far_as_it_goes(prosody: Prosody) -> None:
    """The server would end the connection at each attempt to send such text."""
    sent: list[str] = []
    async with Person(prosody, "alice") as alice:
        host, bot = host_of(prosody)
        async with platform_of(host) as bots:
            for text in ("a\ufffeb", "a\uffffb", "a&#12;b", "a&#xffff;b", "a\x00b", "a\ud800b", "a\x85b"):
                for is_plain in (True, False):
                    with case(f"{text!r}, {is_plain=}"):
                        sent.append(text)
                        await bots.send(Outbound(Chat(alice.id), text, f"k{len(sent)}", is_plain=is_plain))
                        await alice.until(lambda: len(alice.texts(bot)) == len(sent))
                        assert alice.texts(bot)[-1] in ("a\ufffdb", text)


@pytest.mark.parametrize("name", ["a\x01b.txt", "a\ufffeb.txt", 'a "<&>b.txt'])
async def test_a_file_of_any_name_is_sent(prosody: Prosody, tmp_path: Path, name: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"hello")
    async with Person(prosody, "alice") as alice:
        host, bot = host_of(prosody)
        async with platform_of(host) as bots:
            await bots.send(Outbound(Chat(alice.id), "", "k", files=(OutFile(file, name),)))
            await alice.until(lambda: alice.said(bot) and alice.said(bot)[0].url.endswith("b.txt"))


# -- logging in --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has_tls", "error", "said"),
    [(False, ConfigError, "offers no TLS"), (True, XmppLost, "can't check passwords now")],
    ids=["TLS taken out", "for a while"],
)
async def test_a_login_that_fails_says_why(prosody: Prosody, has_tls: bool, error: type[Exception], said: str) -> None:
    """Without TLS the error does not blame the password, and the password is not sent."""
    heard: list[str] = []
    head = (
        "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='1' from='localhost' "
        "version='1.0'><stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism>"
        "</mechanisms></stream:features>"
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            heard.append(data.decode())
            is_first = "<stream:stream" in heard[-1]
            failure = "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>"
            writer.write((head if is_first else failure).encode())
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(prosody.certificate, str(Path(prosody.certificate).with_name("key.pem")))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context if has_tls else None)
    where = {"server": f"127.0.0.1:{server.sockets[0].getsockname()[1]}", "direct_tls": str(has_tls).lower()}
    host = FakeHost(settings=prosody.settings("bot@localhost", **where), secrets={"XMPP_PASSWORD": "secret"})
    bots = platform.XmppPlatform("xmpp", host)
    with pytest.raises(error, match=said):
        await bots.connect()
    await bots.stop()
    server.close()
    assert ["auth" in one for one in heard] == ([False, True] if has_tls else [False])


# -- others who use our name -------------------------------------------------------------------------------------------


async def test_who_had_our_nick_meanwhile_asks_nothing(house: XmppHouse) -> None:
    """003-25"""
    async with house.person("alice") as alice, house.person("eve") as eve:
        room = await alice.room(eve)
        house.configure(alice.id, rooms=room)
        async with house.gateway() as gateway:
            line_of(gateway)
            question = await _question(alice, house, "build", room)
        await alice.until(lambda: house.nick not in alice.client.plugin["xep_0045"].get_roster(room))
        eve.client.plugin["xep_0045"].leave_muc(room, eve.name)
        eve.name = house.nick
        await eve.join(room)
        await eve.says(room, "who wants pizza?", number=question.id)
        eve.client.plugin["xep_0045"].leave_muc(room, eve.name)
        pizza = await alice.until(lambda: [one for one in alice.seen if one.findtext(BODY) == "who wants pizza?"])
        known = pizza[0].find("{urn:xmpp:sid:0}stanza-id").get("id")
        await alice.until(lambda: house.nick not in alice.client.plugin["xep_0045"].get_roster(room))
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.reacts(room, known, "👍")
            await alice.says(house.bot, "are you well?")
            await alice.until(lambda: alice.texts(house.bot) == ["re are you well?"])
            assert (house.folder / "build").is_dir()
            await alice.reacts(room, question.known_as, "👍")
            await alice.until(lambda: not (house.folder / "build").exists())


@pytest.mark.parametrize("in_room", [False, True])
async def test_an_error_of_somebody_else_keeps_no_message_back(prosody: Prosody, in_room: bool) -> None:
    async with Person(prosody, "alice") as alice, Person(prosody, "eve") as eve:
        room = await alice.room(eve)
        host, _ = host_of(prosody, rooms=room)
        async with platform_of(host) as bots:
            to = str(bots._up.client.boundjid)
            gone = '<error type="cancel"><gone xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error>'
            for _ in range(100):
                eve.client.send_raw(f'<message to="{to}" type="error" id="{stanza_id("k")}">{gone}</message>')
            await bots.send(Outbound(Chat(room if in_room else alice.id, is_group=in_room), "the news", "k"))
            await alice.until(lambda: [one for one in alice.seen if one.findtext(BODY) == "the news"])


# -- messages, and stanzas that only look like messages ----------------------------------------------------------------

OMEMO = '<encrypted xmlns="eu.siacs.conversations.axolotl"><header sid="1"/><payload>AA==</payload></encrypted>'


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("This person retracted a message", '<retract xmlns="urn:xmpp:message-retract:1" id="x"/>'),
        ("I sent you an OMEMO message", OMEMO),
        ("", OMEMO + '<store xmlns="urn:xmpp:hints"/>'),
        ("Alice invites you", '<x xmlns="jabber:x:conference" jid="nowhere@localhost"/>'),
    ],
)
async def test_words_for_apps_that_know_no_better_are_not_heard(prosody: Prosody, text: str, more: str) -> None:
    async with Person(prosody, "alice") as alice:
        host, bot = host_of(prosody)
        for _ in range(2):  # live, and from the archive
            async with platform_of(host):
                await alice.says(bot, "the end")
                await alice.until(lambda: host.received)
                assert {one.text for one in host.received} == {"the end"}
                await alice.says(bot, text, more)
                await alice.says(bot, text, more)
            await alice.says(bot, text, more)
            host.received.clear()
        told = ["I can't read encrypted messages" in one for one in alice.texts(bot)]
        assert told == ([True] * len(told) if more.startswith("<encrypted") else [])
        assert bool(told) == more.startswith("<encrypted")


async def test_a_room_is_the_same_in_capitals(prosody: Prosody) -> None:
    async with Person(prosody, "alice") as alice:
        room = await alice.room()
        host, _ = host_of(prosody, rooms=room.capitalize().replace("localhost", "Localhost"))
        async with platform_of(host):
            await alice.says(room, "hello")
            await alice.until(lambda: [one.chat.id for one in host.received] == [room])


# -- rooms of foreign servers ------------------------------------------------------------------------------------------

_OURS = (
    '<presence from="{to}" to="{who}" id="{id}"><x xmlns="http://jabber.org/protocol/muc#user"><item affiliation="member" '
    'role="participant" jid="{who}"/><status code="110"/></x></presence>'
    '<message from="{room}" to="{who}" type="groupchat"><subject/></message>'
)
_INFO = (
    '<iq type="result" from="{to}" to="{who}" id="{id}"><query xmlns="http://jabber.org/protocol/disco#info">'
    '<feature var="muc_nonanonymous"/></query></iq>'
)
_NOTHING = '<iq type="result" from="{to}" to="{who}" id="{id}"><fin xmlns="urn:xmpp:mam:2" complete="true"/></iq>'
_ENDLESS = (
    '<message from="{to}" to="{who}"><result xmlns="urn:xmpp:mam:2" id="{id}" queryid="{query}"><forwarded '
    'xmlns="urn:xmpp:forward:0"><message xmlns="jabber:client" type="groupchat" from="{to}/x"><body>x</body></message>'
    '</forwarded></result></message><iq type="result" from="{to}" to="{who}" id="{id}"><fin xmlns="urn:xmpp:mam:2">'
    '<set xmlns="http://jabber.org/protocol/rsm"><last>{id}</last></set></fin></iq>'
)
_OUT = (
    '<iq type="error" from="{to}" to="{who}" id="{id}"><error type="cancel">'
    '<not-acceptable xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></iq>'
)


def a_room(**more: str) -> Callable[[Element], str]:
    """Return a function that answers as a room; ``more`` replaces its usual answers, and "" is silence."""
    says = {"join": _OURS, "info": _INFO, "archive": _NOTHING, "ping": _OUT, **more}

    def answer(one: Element) -> str:
        query = one.find("{urn:xmpp:mam:2}query")
        what = "archive" if query is not None else "ping" if one.find("{urn:xmpp:ping}ping") is not None else "info"
        if not one.tag.endswith("}iq"):
            what = "join" if one.tag.endswith("}presence") and not one.get("type") else ""
        to, number = one.get("to", ""), "" if query is None else query.get("queryid", "")
        names = {"to": to, "who": one.get("from", ""), "id": one.get("id", ""), "room": to.partition("/")[0], "query": number}
        return says.get(what, "").format(**names)

    return answer


@pytest.mark.parametrize(
    "more",
    [{"join": ""}, {"info": ""}, {"archive": ""}, {"archive": _ENDLESS}],
    ids=["no entry", "no word of itself", "no archive", "an archive without end"],
)
async def test_a_room_that_does_not_answer_keeps_nobody_else_back(
    prosody: Prosody, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    monkeypatch.setattr(link, "_SECONDS", 2.0)
    async with Person(prosody, "alice") as alice, Foreign(prosody) as foreign:
        foreign.answer = a_room(**more)
        room = await alice.room()
        host, bot = host_of(prosody, rooms=f"{LOBBY} {room}")
        async with platform_of(host) as bots:
            first = bots._up
            for number, where in enumerate((bot, room, bot)):
                await alice.says(where, f"hello {number}")
                await alice.until(lambda number=number: any(one.text == f"hello {number}" for one in host.received))
                await asyncio.sleep(1)
            assert bots._up is first


async def test_what_a_room_repeats_is_not_said_by_who_has_the_nick_now(prosody: Prosody) -> None:
    async with Person(prosody, "alice") as alice, Foreign(prosody) as foreign:
        foreign.answer = a_room()
        host, _ = host_of(prosody, rooms=LOBBY)
        async with platform_of(host) as bots:
            bot = bots._up.client.boundjid
            item = f'<x xmlns="http://jabber.org/protocol/muc#user"><item jid="{alice.id}/1" role="participant"/></x>'
            foreign.says(f'<presence from="{LOBBY}/alice" to="{bot}">{item}</presence>')
            delay = f'<delay xmlns="urn:xmpp:delay" from="{LOBBY}" stamp="2020-01-01T00:00:00Z"/>'
            for text, more in (("said by another", delay), ("said now", "")):
                known = f'<stanza-id xmlns="urn:xmpp:sid:0" by="{LOBBY}" id="{text}"/>'
                foreign.says(
                    f'<message from="{LOBBY}/alice" to="{bot}" type="groupchat"><body>{text}</body>{known}{more}</message>'
                )
            await alice.until(lambda: host.received)
            assert [(one.user, one.text) for one in host.received] == [(alice.id, "said now")]


@pytest.mark.parametrize(
    ("place", "problem"),
    [("http://files.example.org/x", "without TLS"), ("", "without TLS"), ("https://localhost:{port}/x", "")],
)
async def test_a_file_goes_out_over_tls_to_whom_the_system_trusts(
    prosody: Prosody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, problem: str
) -> None:
    """The server's own certificate is checked with ca_file, that of its web server with the system's authorities."""
    certify(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"hello")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    put = place.format(port=server.sockets[0].getsockname()[1])
    slot = f'<slot xmlns="urn:xmpp:http:upload:0"><put url="{put}"/><get url="https://files.example.org/x"/></slot>'
    file = tmp_path / "notes.txt"
    file.write_bytes(b"hello")
    async with Person(prosody, "alice") as alice, Foreign(prosody) as foreign:
        foreign.answer = a_room(info='<iq type="result" from="{to}" to="{who}" id="{id}">' + slot + "</iq>")
        host, bot = host_of(prosody)
        async with platform_of(host) as bots:
            bots._sender.files = XmppFiles(bots._up, "up@foreign.localhost", prosody.certificate)
            out = Outbound(Chat(alice.id), "", "k", files=(OutFile(file, "notes.txt"),))
            with pytest.raises(NotSent, match=problem) if problem else contextlib.nullcontext():
                await bots.send(out)
            if not problem:
                await alice.until(lambda: alice.said(bot)[0].url == "https://files.example.org/x")
    server.close()


async def test_a_message_that_fails_later_is_in_the_log(prosody: Prosody, caplog: pytest.LogCaptureFixture) -> None:
    """The message counted as sent; the failure of the other server is reported later."""
    carl = "carl@foreign.localhost"
    async with Person(prosody, "alice") as alice, Foreign(prosody) as foreign:
        host, _ = host_of(prosody)
        async with platform_of(host) as bots:
            sent = await bots.send(Outbound(Chat(carl), "hello", "k"))
            condition = '<remote-server-timeout xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/>'
            for one in (carl, "mallory@foreign.localhost"):
                to = bots._up.client.boundjid
                foreign.says(f'<message from="{one}" to="{to}" type="error" id="{sent}"><error>{condition}</error></message>')
            await alice.until(lambda: "remote-server-timeout" in caplog.text)
            assert caplog.text.count("did not get a message") == 1


async def test_a_room_that_forgot_us_is_entered_again(prosody: Prosody, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "_ROOMS_SECONDS", 0.3)
    async with Person(prosody, "alice") as alice, Foreign(prosody) as foreign:
        foreign.answer = a_room()
        host, _ = host_of(prosody, rooms=LOBBY)
        async with platform_of(host):
            await alice.until(lambda: sum(one.tag.endswith("}presence") for one in foreign.seen) > 2)


async def test_a_room_that_the_bot_was_sent_out_of_is_left_alone(prosody: Prosody, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "_ROOMS_SECONDS", 0.2)
    async with Person(prosody, "alice") as alice:
        room = await alice.room()
        host, bot = host_of(prosody, rooms=room)
        nick, muc = bot.partition("@")[0], alice.client.plugin["xep_0045"]
        async with platform_of(host) as bots:
            await muc.set_role(room, nick, "none")
            await alice.until(lambda: room not in bots._up.nicks)
            await asyncio.sleep(1)
            assert room not in bots._up.nicks
            await alice.invites(bot, room)
            await alice.until(lambda: room in bots._up.nicks)
