"""The platform alone on a real Synapse: the events that it accepts or ignores, and its output."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Literal

import pytest

from plugins.matrix.platform import MatrixPlatform
from tests.plugins.matrix.conftest import BotHost, Person, Synapse, platform_of
from toolcrib import ConfigError, StoreFailed
from toolcrib.chat import Button, Chat, Inbound, NotSent, Outbound
from toolcrib.testing import FakeHost

ODD: list[dict[str, Any]] = [
    {},
    {"msgtype": "m.text"},
    {"msgtype": "m.text", "body": ["a", "list"]},
    {"msgtype": 7, "body": "seven"},
    {"msgtype": "m.text", "body": "", "m.mentions": []},
    {"msgtype": "m.image", "body": "x.png", "url": 5, "info": {"size": -1}},
    {"msgtype": "m.image", "body": "x.png", "url": "https://elsewhere.example/x.png"},
    {"msgtype": "m.image", "body": "x.png", "url": "mxc://../../etc/passwd"},
    {"msgtype": "m.file", "body": "f", "url": "mxc://localhost/abc", "info": {"size": True, "mimetype": {}}},
    {"msgtype": "m.text", "body": "odd relation", "m.relates_to": "none"},
    {"msgtype": "m.text", "body": "odd reply", "m.relates_to": {"m.in_reply_to": "none"}},
    {"msgtype": "m.text", "body": "odd thread", "m.relates_to": {"rel_type": "m.thread", "event_id": {"a": 1}}},
    {"msgtype": "m.text", "body": "odd mentions", "m.mentions": {"user_ids": "@bot:localhost"}},
    {"msgtype": "m.text", "body": "edit of nothing", "m.relates_to": {"rel_type": "m.replace", "event_id": "$none"}},
]
ODD_EVENTS: list[dict[str, Any]] = [
    {},
    {"type": "m.room.message", "sender": 5, "event_id": "$x"},
    {"type": "m.reaction", "sender": "@a:localhost"},
]
ODD_REACTIONS: list[Any] = [
    [],
    {},
    {"m.relates_to": []},
    {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$x", "key": "👍"}},
]


async def test_messages_that_nobody_s_client_writes_do_no_harm(host: BotHost, synapse: Synapse) -> None:
    """Synapse itself would refuse some of them, but other servers may send them."""
    async with Person(synapse, "alice") as alice, platform_of(host, synapse) as platform:
        room = await alice.room(host.account)
        for number, content in enumerate(ODD):
            event = {"type": "m.room.message", "sender": alice.id, "event_id": f"$odd{number}", "content": content}
            await platform.take(room, event)
        for odd in ODD_EVENTS:
            await platform.take(room, odd)
        for content in ODD_REACTIONS:
            await platform.take(room, {"type": "m.reaction", "sender": alice.id, "event_id": "$r", "content": content})
        removed = await alice.says(room, "removed")
        await alice.ask("PUT", f"v3/rooms/{room}/redact/{removed}/r1", {})
        await alice.says(room, "x" * 60_000)
        await alice.says(room, "a notice", msgtype="m.notice")
        await alice.says(room, "the last")
        await alice.until(lambda: host.received and host.received[-1].text == "the last")
        taken = {one.text: one for one in host.received}
        read = {"", "odd relation", "odd reply", "odd thread", "odd mentions", "a notice", "x" * 60_000, "the last"}
        assert set(taken) - {"removed"} == read  # it may be read before it is removed
        assert taken["odd thread"].chat.thread == ""
        assert not taken["odd mentions"].is_addressed
        assert taken["a notice"].is_bot
        assert not any(one.attachments and one.attachments[0].size is not None for one in host.received)
        assert host.presses == []


class SmallHost(BotHost):
    """A host whose store is full after ``most`` messages."""

    most = 1_000

    async def receive(self, message: Inbound) -> Literal["kept", "known", "refused"]:
        if len(self.received) >= self.most:
            raise StoreFailed("the disk is full")
        return await super().receive(message)


async def test_everything_that_came_while_nobody_received_is_taken_in_order(synapse: Synapse, tmp_path: Path) -> None:
    """The order is kept even if receiving stops in the middle of events that a limited sync left out."""
    host = SmallHost(synapse, tmp_path)
    async with Person(synapse, "alice") as alice:
        async with platform_of(host, synapse):
            room = await alice.room(host.account)
            await alice.says(room, "before")
            await alice.until(lambda: host.received)
            place = f"since:{host.account}"
            kept = host.kept[place]
            await alice.until(lambda: host.kept[place] != kept or len(host.received) == 1)
            await asyncio.sleep(0.5)
        for number in range(250):
            await alice.says(room, str(number))
        for most in (61, 171, 1_000):
            host.most = most
            async with platform_of(host, synapse):
                await alice.until(lambda most=most: len(host.received) == min(most, 251))
        assert [one.text for one in host.received] == ["before", *map(str, range(250))]


async def test_the_place_is_kept_after_what_came_was_taken(host: BotHost, synapse: Synapse) -> None:
    async with Person(synapse, "alice") as alice, platform_of(host, synapse):
        room = await alice.room(host.account)
        await asyncio.sleep(0.5)
        host.failing = StoreFailed("the disk is full")
        kept = dict(host.kept)
        await alice.says(room, "one")
        await alice.says(room, "two")
        await asyncio.sleep(1)
        assert (host.received, host.kept) == ([], kept)
        host.failing = None
        await alice.until(lambda: [one.text for one in host.received] == ["one", "two"])
        await alice.until(lambda: host.kept != kept)


async def test_nothing_is_taken_of_what_was_said_before_it_was_invited(host: BotHost, synapse: Synapse) -> None:
    async with Person(synapse, "alice") as alice, platform_of(host, synapse):
        room = await alice.room(is_direct=False)
        await alice.says(room, f"{host.account} knows nothing of this")
        await alice.ask("POST", f"v3/rooms/{room}/invite", {"user_id": host.account})
        await alice.says(room, f"{host.account} hello")
        await alice.until(lambda: host.received)
        await alice.says(room, f"{host.account} more")
        await alice.until(lambda: host.received[-1].text.endswith("more"))
        assert [one.text.partition(" ")[2] for one in host.received] == ["hello", "more"]


async def test_an_invitation_with_several_inviters_is_nobody_s(host: BotHost, synapse: Synapse) -> None:
    """The inviter's server decides the state that comes with an invitation."""
    asked: list[str] = []

    async def follows(chat: Chat, user: str) -> bool:
        asked.append(user)
        return False

    def invites(sender: object, content: object = None) -> dict[str, Any]:
        content = content or {"membership": "invite", "is_direct": True}
        return {"type": "m.room.member", "state_key": host.account, "sender": sender, "content": content}

    async with platform_of(host, synapse) as platform:
        forged = {
            "!a:x": [invites("@owner:x"), invites("@eve:x")],
            "!b:x": [invites(5)],
            "!c:x": [],
            "!d:x": [invites("@eve:x", 7)],
        }
        await platform.rooms.invited(forged, follows)
    assert asked == ["@eve:x"]


async def test_a_message_is_shown_once_whatever_is_lost(host: BotHost, synapse: Synapse) -> None:
    async with Person(synapse, "alice") as alice:
        async with platform_of(host, synapse) as platform:
            room = await alice.room(host.account)
            chat = Chat(room)
            first = await platform.send(Outbound(chat, "a *start*", "k1"))
            assert await platform.send(Outbound(chat, "a *start*", "k1")) == first
        async with platform_of(host, synapse) as platform:
            assert await platform.send(Outbound(chat, "a start and its end", "k1", is_again=True)) == first
            await platform.send(Outbound(chat, "a start, its end", "k1", edits=first))
            await platform.send(Outbound(chat, "a start, its end", "k1", edits=first))
            await platform.send(Outbound(chat, "last", "k2"))
            await alice.until(lambda: alice.texts(room) == ["a start, its end", "last"])
        assert alice.messages(room)[0]["forms"] == ["a *start*", "a start and its end", "a start, its end"]


async def test_buttons_are_reactions_that_mean_something_after_a_restart(host: BotHost, synapse: Synapse) -> None:
    buttons = [Button("y", "Yes", "👍"), Button("c0", "The first", "1\ufe0f\u20e3"), Button("z", "No emoji")]
    async with Person(synapse, "alice") as alice:
        async with platform_of(host, synapse) as platform:
            room = await alice.room(host.account)
            shown = await platform.send(Outbound(Chat(room), "Which?", "k", buttons=buttons))
            await alice.until(lambda: alice.reactions(shown) == ["👍", "1\ufe0f\u20e3", "3\ufe0f\u20e3"])
        async with platform_of(host, synapse) as platform:
            host.answer_to_press = "Too late."
            pressed = await alice.reacts(room, shown, "1\u20e3")
            await alice.reacts(room, shown, "🎉")
            await alice.until(lambda: host.presses)
            await platform.send(Outbound(Chat(room), "Which? The first.", "k", edits=shown))
            await alice.until(lambda: not alice.reactions(shown))
            await alice.reacts(room, shown, "3\ufe0f\u20e3")
            await alice.until(lambda: len(host.presses) == 2)
            await alice.until(lambda: len(alice.texts(room)) == 3)
        assert [(one.user, one.message_id, one.choice) for one in host.presses] == [
            (alice.id, shown, "c0"),
            (alice.id, shown, "z"),
        ]
        assert host.presses[0].press_id == pressed
        assert alice.texts(room)[1] == f"{alice.name}: Too late."


async def test_a_button_in_a_thread_is_pressed_there(host: BotHost, synapse: Synapse) -> None:
    async with Person(synapse, "alice") as alice, platform_of(host, synapse) as platform:
        room = await alice.room(host.account)
        root = await alice.says(room, "a thread begins")
        chat = Chat(room, thread=root)
        shown = await platform.send(Outbound(chat, "Which?", "k", buttons=[Button("y", "Yes", "👍")]))
        await platform.send(Outbound(chat, "Which one?", "k", edits=shown, buttons=[Button("n", "No", "👎")]))
        await alice.until(lambda: alice.reactions(shown) == ["👎"])
        await alice.reacts(room, shown, "👎")
        await alice.until(lambda: host.presses)
    assert (host.presses[0].chat.thread, host.presses[0].choice) == (root, "n")


async def test_nobody_s_own_message_has_buttons(host: BotHost, synapse: Synapse) -> None:
    async with Person(synapse, "alice") as alice, platform_of(host, synapse):
        room = await alice.room(host.account)
        forged = await alice.says(room, "Agree?", **{"toolcrib.buttons": {"👍": "y"}})
        await alice.reacts(room, forged, "👍")
        await alice.says(room, "end")
        await alice.until(lambda: [one.text for one in host.received] == ["Agree?", "end"])
        assert host.presses == []


async def test_a_room_that_it_was_removed_from_is_given_up(host: BotHost, synapse: Synapse) -> None:
    async with Person(synapse, "alice") as alice, platform_of(host, synapse) as platform:
        room = await alice.room(host.account)
        await alice.ask("POST", f"v3/rooms/{room}/kick", {"user_id": host.account})
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(Chat(room), "hello", "k"))
        assert caught.value.for_good


async def test_what_a_server_that_is_gone_took_is_not_known(host: BotHost, synapse: Synapse) -> None:
    async with platform_of(host, synapse) as platform:
        synapse.control("stop")
        try:
            with pytest.raises(NotSent) as caught:
                await platform.send(Outbound(Chat("!a:localhost"), "hello", "k"))
        finally:
            synapse.control("start")
        assert caught.value.perhaps_sent
        assert not caught.value.for_good


async def test_the_token_is_never_logged(
    host: BotHost, synapse: Synapse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Person(synapse, "alice") as alice, platform_of(host, synapse) as platform:
        room = await alice.room(host.account)
        await platform.send(Outbound(Chat(room), "hello", "k"))
        with pytest.raises(NotSent):
            await platform.send(Outbound(Chat("!none:localhost"), "hello", "k"))
        await alice.until(lambda: alice.texts(room))
    assert host.secret("MATRIX_TOKEN") not in caplog.text


async def test_a_login_that_fails_says_what_to_change(host: BotHost, synapse: Synapse) -> None:
    wrong = FakeHost(settings={"homeserver": synapse.url}, secrets={"MATRIX_TOKEN": "nonsense"})
    with pytest.raises(ConfigError, match="rejects MATRIX_TOKEN"):
        await MatrixPlatform("matrix", wrong).connect()
    for settings, said in (
        ({}, "homeserver"),
        ({"homeserver": "matrix.example.org"}, "https://"),
        ({"homeserver": synapse.url, "user": "@other:localhost"}, "MATRIX_TOKEN belongs to @bot"),
        ({"homeserver": synapse.url, "per_second": "often"}, "per_second"),
    ):
        host.settings = settings
        platform = MatrixPlatform("matrix", host)
        with pytest.raises(ConfigError, match=said):
            await platform.connect()
        await platform.stop()


async def test_without_secrets_the_token_is_asked_for_first(synapse: Synapse, tmp_path: Path) -> None:
    user, _ = synapse.register("bot")
    with pytest.raises(ConfigError, match=r"MATRIX_TOKEN.*or MATRIX_PASSWORD"):
        async with platform_of(FakeHost(secrets={}, folder=tmp_path), synapse, user=user):
            pass


async def test_a_password_is_one_device_over_all_starts(synapse: Synapse, tmp_path: Path) -> None:
    user, _ = synapse.register("bot")
    host = FakeHost(secrets={"MATRIX_PASSWORD": "pw"}, folder=tmp_path)
    shown = []
    async with Person(synapse, "alice") as alice:
        async with platform_of(host, synapse, user=user):
            room = await alice.room(user)
        device = host.kept[f"device:{user}"]
        for _ in range(2):
            async with platform_of(host, synapse, user=user) as platform:
                shown.append(await platform.send(Outbound(Chat(room), "the same", "k")))
    assert host.kept[f"device:{user}"] == device
    assert shown[0] == shown[1]  # a transaction belongs to its device
    assert "pw" not in host.kept.values()


async def test_the_server_s_limits_say_when_to_try_again(strict_synapse: Synapse, tmp_path: Path) -> None:
    account, token = strict_synapse.register("bot")
    host = FakeHost(secrets={"MATRIX_TOKEN": token}, folder=tmp_path)
    async with Person(strict_synapse, "alice") as alice, platform_of(host, strict_synapse) as platform:
        room = await alice.room(account)
        refused: list[NotSent] = []
        for number in range(30):
            try:
                await platform.send(Outbound(Chat(room), str(number), f"k{number}"))
            except NotSent as error:
                refused.append(error)
        assert refused
        assert all(0 < (error.retry_after or 0) < 60 and not error.for_good for error in refused)
