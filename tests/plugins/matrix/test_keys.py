"""Keys of encrypted rooms on a real Synapse: their storage, the devices that receive them, and missing keys."""

from __future__ import annotations

import logging
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from plugins.matrix.platform import MatrixPlatform
from tests.plugins.matrix.conftest import BotHost, Person, Synapse, platform_of
from tests.plugins.matrix.secrecy import MEGOLM, SecretPerson
from toolcrib import ConfigError
from toolcrib.chat import Chat, NotSent, Outbound
from toolcrib.testing import FakeHost


def _bot(person: SecretPerson, account: str) -> Any:
    [device] = person.client.device_store.active_user_devices(account)
    return device


async def test_a_key_that_comes_late_is_asked_for_and_told_of_once_and_its_messages_are_taken(
    host: BotHost, synapse: Synapse
) -> None:
    async with SecretPerson(synapse, "alice") as alice:
        async with platform_of(host, synapse):
            room = await alice.room(host.account)
            await alice.says(room, "readable")
            await alice.until(lambda: host.received)
            device = _bot(alice, host.account)
            alice.client.blacklist_device(device)
            await alice.says(room, "secret one")
            await alice.says(room, "secret two")
            await alice.until(lambda: any("its key has not arrived" in text for text in alice.texts(room)))
            await alice.until(lambda: alice.asked_for)
        async with platform_of(host, synapse):  # an earlier process requested the keys
            await alice.says(room, "secret three")
            alice.client.unblacklist_device(device)
            await alice.says(room, "readable again")
            await alice.until(lambda: host.received[-1].text == "readable again")
            [asked] = {(one.sender, one.session_id): one for one in alice.asked_for}.values()
            olm = alice.client.olm
            session = olm.inbound_group_store.get(room, olm.account.identity_keys["curve25519"], asked.session_id)
            to_device = olm._encrypt_forwarding_key(room, session, olm.session_store.get(device.curve25519), device)
            await alice.client.to_device(to_device)
            await alice.until(lambda: len(host.received) == 5)
            await alice.says(room, "the end")
            await alice.until(lambda: host.received[-1].text == "the end")
        assert [one.text for one in host.received[:2]] == ["readable", "readable again"]
        assert [one.text for one in host.received[2:5]] == ["secret one", "secret two", "secret three"]
        assert len(alice.asked_for) == 1
        assert len([text for text in alice.texts(room) if "its key has not arrived" in text]) == 1


async def test_a_stranger_s_message_without_a_key_is_not_kept(host: BotHost, synapse: Synapse) -> None:
    async with SecretPerson(synapse, "alice") as alice, SecretPerson(synapse, "eve") as eve, platform_of(host, synapse):
        host._allowed = frozenset({alice.id})
        room = await alice.room(host.account, eve.id, is_direct=False)
        await eve.ask("POST", f"v3/join/{room}", {})
        words = {"algorithm": MEGOLM, "ciphertext": "x", "sender_key": "x", "session_id": "x", "device_id": "x"}
        await Person.send(eve, room, "m.room.encrypted", words)
        await alice.says(room, "the end")
        await alice.until(lambda: host.received)
        assert "unread" not in host.kept


async def test_a_start_keeps_the_newest_keys(host: BotHost, synapse: Synapse, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SecretPerson(synapse, "alice") as alice:
        async with platform_of(host, synapse):
            first, second = await alice.room(host.account), await alice.room(host.account)
            for room in (first, second):
                await alice.says(room, "one")
            await alice.until(lambda: len(host.received) == 2)
        monkeypatch.setattr("plugins.matrix.keys._SESSIONS", 1)
        async with platform_of(host, synapse):
            await alice.says(first, "by a key that was forgotten")
            await alice.says(second, "by one that was not")
            await alice.until(lambda: len(host.received) == 3)
            await alice.until(lambda: host.kept.get("unread"))
        assert host.received[2].text == "by one that was not"
        assert [one["room"] for one in host.kept["unread"].values()] == [first]


async def test_a_blocked_device_gets_no_key_and_is_not_listened_to(host: BotHost, synapse: Synapse) -> None:
    async with SecretPerson(synapse, "alice") as alice, SecretPerson(synapse, "bob") as bob:
        async with platform_of(host, synapse, blocked_devices=f"ABC, {bob.device}") as platform:
            room = await alice.room(host.account, bob.id, is_direct=False)
            await bob.ask("POST", f"v3/join/{room}", {})
            await bob.knows(room)
            await platform.send(Outbound(Chat(room), "not for bob", "k"))
            await alice.until(lambda: alice.texts(room) == ["not for bob"])
            await bob.says(room, "from bob")
            await alice.says(room, "from alice")
            await alice.until(lambda: host.received)
            await bob.until(lambda: any(one["sender"] == host.account and one["type"] == "m.room.encrypted" for one in bob.seen))
            assert bob.texts(room) == []
        async with platform_of(host, synapse) as platform:
            await platform.send(Outbound(Chat(room), "for both", "k2"))
            await bob.until(lambda: bob.texts(room) == ["for both"])
        assert [one.text for one in host.received if one.user == alice.id] == ["from alice"]


async def test_keys_lie_in_the_folder_for_nobody_else_and_the_device_stays(
    host: BotHost, synapse: Synapse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with SecretPerson(synapse, "alice") as alice:
        async with platform_of(host, synapse):
            room = await alice.room(host.account)
            await alice.says(room, "one")
            await alice.until(lambda: host.received)
        first = _bot(alice, host.account)
        async with platform_of(host, synapse):
            await alice.says(room, "two")
            await alice.until(lambda: len(host.received) == 2)
        await alice.client.keys_query() if alice.client.should_query_keys else None
        assert _bot(alice, host.account).curve25519 == first.curve25519
    files = list(host.folder.iterdir())
    assert sorted(one.suffix for one in files) == ["", ".db"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    key = (host.folder / "key").read_text()
    assert key not in caplog.text


async def test_another_secret_or_a_device_with_keys_of_another_program_is_said(synapse: Synapse, tmp_path: Path) -> None:
    account, token = synapse.register("bot")
    host = FakeHost(secrets={"MATRIX_TOKEN": token, "MATRIX_KEY": "first"}, folder=tmp_path)
    async with platform_of(host, synapse):
        pass
    assert not (host.folder / "key").exists()
    wrong = FakeHost(settings=host.settings, secrets={"MATRIX_TOKEN": token, "MATRIX_KEY": "second"}, folder=tmp_path)
    platform = MatrixPlatform("matrix", wrong)
    with pytest.raises(ConfigError, match="MATRIX_KEY"):
        await platform.connect()
    await platform.stop()

    (tmp_path / "other").mkdir()
    elsewhere = FakeHost(secrets={"MATRIX_TOKEN": token}, folder=tmp_path / "other")
    async with SecretPerson(synapse, "alice") as alice, platform_of(elsewhere, synapse) as platform:
        [(what, fix)] = platform.shortcomings
        assert "keys that are not in the state folder" in what
        assert "new token" in fix
        room = await alice.room(account)
        await alice.says(room, "hello?")
        await alice.until(lambda: any("keys that are not in the state folder" in text for text in alice.texts(room)))
        with pytest.raises(NotSent, match="encrypted") as caught:
            await platform.send(Outbound(Chat(room), "not in the clear", "k"))
        assert caught.value.for_good
        plain = await Person.room(alice, account)
        assert await platform.send(Outbound(Chat(plain), "in the clear", "k"))


async def test_what_devices_say_that_lie_keeps_no_other_from_its_key(host: BotHost, synapse: Synapse) -> None:
    async with SecretPerson(synapse, "alice") as alice, Person(synapse, "eve") as eve, platform_of(host, synapse) as platform:
        device = (await eve.ask("GET", "v3/account/whoami"))["device_id"]
        names: dict[str, Any] = {"user_id": eve.id, "device_id": device, "algorithms": [MEGOLM]}
        lies = {
            "keys": {f"ed25519:{device}": "x", f"curve25519:{device}": "x"},
            "signatures": {eve.id: {f"ed25519:{device}": "x"}},
        }
        room = await alice.room(host.account, is_direct=False)
        await alice.says(room, "first")  # so that her client, which fails on the false data, knows the bot before
        await alice.until(lambda: host.received)
        await eve.ask("POST", "v3/keys/upload", {"device_keys": names | lies})
        await alice.ask("POST", f"v3/rooms/{room}/invite", {"user_id": eve.id})
        await eve.ask("POST", f"v3/join/{room}", {})
        bot = (await eve.ask("POST", "v3/keys/query", {"device_keys": {host.account: []}}))["device_keys"][host.account]
        [(name, keys)] = bot.items()
        ours = keys["keys"][f"curve25519:{name}"]
        for kind in (0, 1, 7):
            body = {"type": kind, "body": "AAAA"}
            content = {"algorithm": "m.olm.v1.curve25519-aes-sha2", "sender_key": "x", "ciphertext": {ours: body}}
            await eve.ask("PUT", f"v3/sendToDevice/m.room.encrypted/{kind}", {"messages": {host.account: {name: content}}})
        wanted = {"algorithm": MEGOLM, "room_id": room, "session_id": "x", "sender_key": "x"}
        request: dict[str, object] = {"action": "request", "body": wanted, "request_id": "r", "requesting_device_id": device}
        await eve.ask("PUT", "v3/sendToDevice/m.room_key_request/r", {"messages": {host.account: {name: request}}})
        odd: list[dict[str, Any]] = [{}, {"algorithm": MEGOLM}, {"algorithm": MEGOLM, "ciphertext": 5, "session_id": []}]
        for one in odd:
            await eve.send(room, "m.room.encrypted", one)
        await platform.send(Outbound(Chat(room), "for alice", "k"))
        await alice.until(lambda: alice.texts(room) == ["for alice"])
        await alice.says(room, "still there?")
        await alice.until(lambda: len(host.received) == 2)
        stored = await alice.as_stored(room)
        said = next(event for event in stored if event["sender"] == alice.id and event["type"] == "m.room.encrypted")
        for event_id, sender in (("$replayed", alice.id), ("$borrowed", eve.id)):
            await platform.take(room, said | {"event_id": event_id, "sender": sender})
        assert [one.text for one in host.received] == ["first", "still there?"]


async def test_a_message_is_shown_once_in_an_encrypted_room_too(host: BotHost, synapse: Synapse) -> None:
    async with SecretPerson(synapse, "alice") as alice:
        async with platform_of(host, synapse) as platform:
            room = await alice.room(host.account)
            chat = Chat(room)
            first = await platform.send(Outbound(chat, "a start", "k1"))
            assert await platform.send(Outbound(chat, "a start", "k1")) == first
        async with platform_of(host, synapse) as platform:
            assert await platform.send(Outbound(chat, "a start and its end", "k1", is_again=True)) == first
            for text in ("😀" * 4000, "<&>\"'" * 800):
                await platform.send(Outbound(chat, text, "k1", edits=first, is_plain=True))
            await platform.send(Outbound(chat, "last", "k2"))
            await alice.until(lambda: len(alice.texts(room)) == 2)
            assert alice.messages(room)[0]["forms"] == ["a start", "a start and its end", "😀" * 4000, "<&>\"'" * 800]


async def test_who_misses_a_key_that_was_sent_reads_what_follows(host: BotHost, synapse: Synapse) -> None:
    async with SecretPerson(synapse, "alice") as alice, platform_of(host, synapse) as platform:
        room = await alice.room(host.account)
        await platform.send(Outbound(Chat(room), "one", "k1"))
        await alice.until(lambda: alice.texts(room) == ["one"])
        event = next(one for one in await alice.as_stored(room) if one["type"] == "m.room.encrypted")
        name = event["content"]["session_id"]
        wanted = {"algorithm": MEGOLM, "room_id": room, "session_id": name, "sender_key": event["content"]["sender_key"]}
        request = {"action": "request", "body": wanted, "request_id": "r", "requesting_device_id": alice.device}
        await alice.ask("PUT", "v3/sendToDevice/m.room_key_request/r", {"messages": {host.account: {"*": request}}})
        await alice.says(room, "I miss one")
        await alice.until(lambda: host.received)
        await platform.send(Outbound(Chat(room), "two", "k2"))
        await alice.until(lambda: alice.texts(room) == ["one", "two"])
        ours = [one["content"] for one in await alice.as_stored(room) if one["sender"] == host.account]
        sessions = [one["session_id"] for one in ours if "session_id" in one]
        assert len(set(sessions)) == 2


async def test_without_the_extra_a_room_is_told_once_how_to_be_read(
    host: BotHost, synapse: Synapse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vodozemac", None)
    async with Person(synapse, "alice") as alice, platform_of(host, synapse) as platform:
        state = [{"type": "m.room.encryption", "state_key": "", "content": {"algorithm": MEGOLM}}]
        room = await alice.room(host.account, initial_state=state)
        words = {"algorithm": MEGOLM, "ciphertext": "x", "sender_key": "x", "session_id": "x", "device_id": "x"}
        for _ in range(3):
            await alice.send(room, "m.room.encrypted", words)
        other = await alice.room(host.account)
        await alice.says(other, "hello")
        await alice.until(lambda: host.received and alice.texts(room))
        [told] = alice.texts(room)
        assert "pip install 'toolcrib[matrix-e2e]'" in told
        with pytest.raises(NotSent, match="matrix-e2e"):
            await platform.send(Outbound(Chat(room), "not in the clear", "k"))
        assert list(host.folder.iterdir()) == []
