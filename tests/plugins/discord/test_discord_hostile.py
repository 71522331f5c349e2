"""Hostile events from Discord, with the real library and a fake of Discord. Each is refused, and the next message is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import discord
import pytest

from tests.agent.gateway.conftest import line_of
from tests.plugins.discord.fake import ME, FakeDiscord
from tests.plugins.discord.test_discord_gateway import ANN, BOB, DIRECT, EVE, ROOM, DiscordHouse
from tests.plugins.houses import case, holds, house_of


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiscordHouse]:
    made = house_of(DiscordHouse, tmp_path, monkeypatch)
    yield made  # type: ignore[misc]  # of that kind
    for crib in made.cribs:
        crib.close()


def writing(channel: str, user: str, text: str = "let me in", **more: Any) -> Callable[[FakeDiscord], object]:
    return lambda fake: fake.write(channel, user, text, **more)


def telling(**fields: Any) -> Callable[[FakeDiscord], object]:
    """Emit an event with a message of the owner, changed by ``fields``; None removes a field."""

    def send(fake: FakeDiscord) -> None:
        base = {**fake.messages[fake.write(DIRECT, EVE, "a stranger's")], "id": fake.new_id(), "author": fake.person(ANN)}
        told = {**base, "content": "let me in", **fields}
        fake.emit("MESSAGE_CREATE", {name: value for name, value in told.items() if value is not None})

    return send


def editing(fake: FakeDiscord) -> None:
    """Change a message in another user's chat into a message to the bot."""
    fake.edit(fake.write("302", EVE, "before"), "let me in")


OWNERS_NAME = {"username": f"p{ANN}", "global_name": f"P{ANN}"}
FORWARD = {"message_reference": {"type": 1, "channel_id": "5", "message_id": "6"}}
SNAPSHOT = {"message_snapshots": [{"message": {"content": "let me in", "type": 0, "attachments": [], "embeds": []}}]}
EVENTS: dict[str, Callable[[FakeDiscord], object]] = {
    "words of a stranger": writing("302", EVE),
    "a stranger who mentions the bot": writing(ROOM, EVE, f"<@{ME}> let me in"),
    "a stranger who is called as the owner is": writing("302", EVE, author={"id": EVE, **OWNERS_NAME, "discriminator": "0"}),
    "a stranger in the owner's own chat": writing(DIRECT, EVE),
    "a stranger's file": lambda fake: fake.write("302", EVE, attachments=[fake.keep("x.sh", b"rm -rf ~")]),
    "a stranger who answers the owner": lambda fake: fake.write(
        ROOM, EVE, "let me in", message_reference=fake.write(ROOM, ANN, "an aside")
    ),
    "a webhook by the owner's name": writing(ROOM, ANN, f"<@{ME}> let me in", webhook_id="77"),
    "another bot": writing(DIRECT, "91"),
    "the bot itself": writing(DIRECT, ME),
    "an edited message": editing,
    "what the owner forwards": writing(DIRECT, ANN, "", **FORWARD, **SNAPSHOT),
    "a join": writing(DIRECT, ANN, "let me in", type=7),
    "a pin": writing(DIRECT, ANN, "let me in", type=6),
    "an aside in a room": writing(ROOM, BOB, "not for the bot"),
    "a mention of everybody": writing(ROOM, BOB, "@everyone", mention_everyone=True),
    "a message without an author": telling(author=None),
    "an author who is a text": telling(author="11"),
    "a message without an id": telling(id=None),
    "an id that is none": telling(id="../1"),
    "a channel that is none": telling(channel_id="x"),
    "a server that is none": telling(guild_id="999"),
    "a time that is none": telling(edited_timestamp="soon"),
    "a list for a message": lambda fake: fake.emit("MESSAGE_CREATE", ["let me in"]),
    "nothing for a message": lambda fake: fake.emit("MESSAGE_CREATE", None),
    "an event that there is not": lambda fake: fake.emit("MESSAGE_CONJURE", {"content": "let me in"}),
    "deep brackets": lambda fake: fake.emit("MESSAGE_CREATE", {"content": "x", "embeds": [[[[[[]]]]]]}),
}  # fmt: skip


async def test_an_event_reaches_no_model_and_the_next_message_is_answered(house: DiscordHouse) -> None:
    asked: list[str] = []
    async with house.running() as gateway:
        for name, push in EVENTS.items():
            with case(name):
                push(house.fake)
                asked.append(f"are you well after {name}?")
                house.say(DIRECT, ANN, asked[-1])
                await holds(lambda: f"re {asked[-1]}" in house.said())
                assert house.asked == asked
                assert [kind for kind, _ in house.fake.calls if kind in ("message", "followup")] == []
                assert house.said("302") + house.said(ROOM) == []
                assert [record.chat for record in await house.store.mail.chats()] == [DIRECT]
                assert line_of(gateway).door.counts["kept"] == len(asked)


async def test_a_replayed_message_is_answered_once(house: DiscordHouse) -> None:
    async with house.running() as gateway:
        number = house.say(DIRECT, ANN, "hello")
        for _ in range(3):
            house.fake.emit("MESSAGE_CREATE", dict(house.fake.messages[number]))
        house.say(DIRECT, ANN, "are you well?")
        await holds(lambda: house.said() == ["re hello", "re are you well?"])
        assert house.asked == ["hello", "are you well?"]
        assert line_of(gateway).door.counts["known"] == 3


async def test_a_role_counts_by_its_id_and_not_by_its_name(house: DiscordHouse) -> None:
    async with house.running():
        pass
    house.configure(house.config.read_text().replace(f"['{BOB}']", "['role:501', 'role:Mods']"))
    await house.fake.revive()
    house.fake.roles[EVE] = ["777"]
    async with house.again():
        house.say(ROOM, EVE, "not I", is_addressed=True)
        house.fake.roles["44"] = ["501"]
        house.say(ROOM, "44", "but I", is_addressed=True)
        await holds(lambda: house.said(ROOM))
        assert len(house.asked) == 1
        assert "but I" in house.asked[0]


PRESSES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a stranger": (EVE, "y", {}, ""),
    "a user who may only speak": (BOB, "y", {}, "may not decide"),
    "a choice that there is not": (ANN, "always", {}, "no such question"),
    "a number that is none": (ANN, "c\u00b2", {}, "no such question"),
    "a choice without a letter": (ANN, "", {}, "no such question"),
    "five thousand letters": (ANN, "y" * 5_000, {}, "no such question"),
    "a message of another chat": (ANN, "y", {"channel_id": "301", "channel": {"id": "301", "type": 1}}, "no such question"),
    "no message": (ANN, "y", {"message": None}, ""),
    "no data": (ANN, "y", {"data": {}}, ""),
    "no channel": (ANN, "y", {"channel": None, "channel_id": None}, ""),
    "a command instead": (ANN, "y", {"type": 2, "data": {"id": "1", "name": "approve", "type": 1}}, ""),
}


async def test_a_press_settles_nothing(house: DiscordHouse) -> None:
    """003-25"""
    command = house.dooms()
    async with house.running():
        house.say(DIRECT, ANN, command)
        asked = await house.question()
        for name, press in PRESSES.items():
            with case(name):
                await _settles_nothing(house, asked, name, *press)
        house.press(asked, ANN, house.button(asked, "y"))
        await holds(lambda: not house.doomed.exists())


async def _settles_nothing(
    house: DiscordHouse, asked: dict[str, Any], name: str, user: str, data: str, changes: dict[str, Any], says: str
) -> None:
    press = house.fake.press(asked["id"], user, data, changes)
    house.say("301", BOB, name)
    await holds(lambda: house.said("301")[-1:] == [f"re {name}"])
    if says:
        await holds(lambda: says in "".join(map(str, house.fake.answers[press][1:])))
    await asyncio.sleep(0.05)
    assert says or not house.fake.answers[press][1:]
    assert house.doomed.is_dir()
    assert house.buttons_of(asked)


async def test_a_key_of_another_chat_finds_no_question(house: DiscordHouse) -> None:
    """003-25"""
    command = house.dooms()
    async with house.running():
        house.say(DIRECT, ANN, command)
        asked = await house.question()
        house.say("301", BOB, "hello")
        await holds(lambda: house.said("301") == ["re hello"])
        other = house.ours("301")[0]
        assert "no such question" in await house.press_and_read(other, BOB, house.button(asked, "y"))
        assert house.doomed.is_dir()


FRAMES: list[str | bytes] = [
    "no JSON",
    "{half",
    "[]",
    "null",
    "{}",
    b"\xff\x00",
    b"\x00\x00\xff\xff",
    '{"op": 99, "d": null}',
    '{"op": null, "d": null}',
    '{"op": 0, "t": null, "s": null, "d": null}',
    '{"op": 0, "t": ["MESSAGE_CREATE"], "s": null, "d": {}}',
    '{"op": 0, "t": "GUILD_CREATE", "s": null, "d": {"id": "5"}}',
    '{"op": 0, "t": "GUILD_DELETE", "s": null, "d": {"id": "100", "unavailable": true}}',
    '{"op": 0, "t": "THREAD_CREATE", "s": null, "d": {"id": "5", "guild_id": "100"}}',
    '{"op": 0, "t": "CHANNEL_CREATE", "s": null, "d": {"id": "5", "guild_id": "100", "type": 99}}',
    '{"op": 0, "t": "USER_UPDATE", "s": null, "d": null}',
    '{"op": 7, "d": null}',
    '{"op": 9, "d": true}',
    '{"op": 9, "d": false}',
    '{"op": 9, "d": "maybe"}',
    '{"op": 11}',
    "[" * 5_000,
]


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
async def test_what_is_no_event_ends_nothing(house: DiscordHouse, monkeypatch: pytest.MonkeyPatch, frame: str | bytes) -> None:
    async def at_once(*_: object, **more: object) -> None:
        """Skip the five seconds that Discord requires between two sessions."""

    monkeypatch.setattr(discord.Client, "before_identify_hook", at_once)
    async with house.running():
        house.say(DIRECT, ANN, "one")
        await holds(lambda: house.said() == ["re one"])
        for _ in range(2):
            await house.fake.send_frame(frame)
        house.say(DIRECT, ANN, "two")
        await holds(lambda: house.said() == ["re one", "re two"])
        assert house.asked == ["one", "two"]
