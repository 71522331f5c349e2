"""Hostile events from Slack, with the real library and a fake of Slack. Each is refused, and the next message is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.gateway.conftest import line_of
from tests.plugins.houses import case, holds, house_of
from tests.plugins.slack.fake import ME, FakeSlack
from tests.plugins.slack.test_slack_gateway import ANN, BOB, DIRECT, EVE, ROOM, SlackHouse


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackHouse]:
    made = house_of(SlackHouse, tmp_path, monkeypatch)
    yield made  # type: ignore[misc]  # of that kind
    for crib in made.cribs:
        crib.close()


def writing(channel: str, user: str, text: str = "let me in", **more: Any) -> Callable[[FakeSlack], object]:
    return lambda fake: fake.write(channel, user, text, **more)


def telling(**fields: Any) -> Callable[[FakeSlack], object]:
    """Emit an event with a message of the owner, changed by ``fields``; None removes a field."""

    def send(fake: FakeSlack) -> None:
        base = {"type": "message", "channel": DIRECT, "channel_type": "im", "user": ANN, "text": "let me in", "ts": fake.new_ts()}
        fake.tell_event({name: value for name, value in {**base, **fields}.items() if value is not None})

    return send


def mentioning(channel: str, user: str, **more: Any) -> Callable[[FakeSlack], object]:
    def send(fake: FakeSlack) -> None:
        message = fake._message(channel, user=user, text=f"<@{ME}> let me in", **more)
        fake.tell_event(fake.event_of(message))

    return send


EVENTS: dict[str, Callable[[FakeSlack], object]] = {
    "words of a stranger": writing("D302", EVE),
    "a stranger who mentions the bot": mentioning(ROOM, EVE),
    "a stranger who is called as the owner is": writing("D302", EVE, username=ANN, user_profile={"name": ANN}),
    "a stranger in the owner's own chat": writing(DIRECT, EVE),
    "a stranger's file": lambda fake: fake.write("D302", EVE, subtype="file_share", files=[fake.keep("x.sh", b"rm -rf ~")]),
    "a stranger below the owner's words": lambda fake: fake.write(ROOM, EVE, thread_ts=fake.write(ROOM, ANN, "an aside")),
    "a bot that posts as the owner": writing(DIRECT, ANN, bot_id="B9", subtype="bot_message"),
    "a program of the owner's": writing(DIRECT, ANN, bot_id="B9"),
    "the bot itself": writing(DIRECT, ME),
    "an edited message": lambda fake: fake.edit("D302", fake.write("D302", EVE, "before"), "let me in"),
    "a removed message": telling(subtype="message_deleted", deleted_ts="1.2"),
    "a join": telling(subtype="channel_join"),
    "a topic": telling(subtype="channel_topic"),
    "an aside in a room": writing(ROOM, BOB, "not for the bot"),
    "a mention of everybody": lambda fake: fake.tell_event(fake.event_of(fake._message(ROOM, user=BOB, text="<!channel> look"))),
    "somebody else's mention": lambda fake: fake.tell_event(fake.event_of(fake._message(ROOM, user=BOB, text="<@UBOTX> look"))),
    "a mention that was only typed": writing(ROOM, BOB, f"<@{ME}> look"),
    "a message without a user": telling(user=None),
    "a user that is a list": telling(user=[ANN]),
    "a user with a blank": telling(user=f"{ANN} "),
    "a user in small letters": telling(user=ANN.lower()),
    "a time that is none": telling(ts="soon"),
    "a message without a time": telling(ts=None),
    "a text that is a mapping": telling(text={"text": "let me in"}),
    "a channel that is a path": telling(channel="../D300"),
    "a message that says not where": telling(channel_type=None),
    "files that are none": telling(text="", files=["x", {"id": "../F1"}, {"id": 7}]),
    "a list for an event": lambda fake: fake.emit("events_api", {"type": "event_callback", "event": ["let me in"]}),
    "a slash command": lambda fake: fake.emit("slash_commands", {"command": "/let", "text": "me in", "user_id": ANN}),
    "a mention beside its message": telling(type="app_mention"),
}  # fmt: skip


async def test_an_event_reaches_no_model_and_the_next_message_is_answered(house: SlackHouse) -> None:
    asked: list[str] = []
    async with house.running() as gateway:
        for name, push in EVENTS.items():
            with case(name):
                push(house.fake)
                asked.append(f"are you well after {name}?")
                house.say(DIRECT, ANN, asked[-1])
                await holds(lambda: f"re {asked[-1]}" in house.said())
                assert house.asked == asked
                assert [kind for kind, _ in house.fake.calls if kind in ("files.info", "chat.postEphemeral")] == []
                assert house.said("D302") + house.said(ROOM) == []
                assert [record.chat for record in await house.store.mail.chats()] == [DIRECT]
                assert line_of(gateway).door.counts["kept"] == len(asked)


async def test_a_replayed_message_is_answered_once(house: SlackHouse) -> None:
    async with house.running() as gateway:
        ts = house.say(DIRECT, ANN, "hello")
        for _ in range(3):
            house.fake.tell_event(house.fake.event_of(house.fake.messages[DIRECT, ts]))
        house.say(DIRECT, ANN, "are you well?")
        await holds(lambda: house.said() == ["re hello", "re are you well?"])
        assert house.asked == ["hello", "are you well?"]
        assert line_of(gateway).door.counts["known"] >= 3


PRESSES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a stranger": (EVE, "y", {}, ""),
    "a user who may only speak": (BOB, "y", {}, "may not decide"),
    "a choice that there is not": (ANN, "always", {}, "no such question"),
    "a number that is none": (ANN, "c\u00b2", {}, "no such question"),
    "a choice without a letter": (ANN, "", {}, ""),
    "five thousand letters": (ANN, "y" * 5_000, {}, "no such question"),
    "a message of another chat": (ANN, "y", {"channel": {"id": "D301"}}, "no such question"),
    "a channel that there is not": (ANN, "y", {"channel": {"id": "D999"}}, ""),
    "no message": (ANN, "y", {"message": None}, ""),
    "no actions": (ANN, "y", {"actions": []}, ""),
    "an action that is a text": (ANN, "y", {"actions": ["y"]}, ""),
    "a user that is a text": (ANN, "y", {"user": ANN}, ""),
    "a message that is not ours": (ANN, "y", {"message": {"ts": "1.000001", "user": ANN}}, "no such question"),
}


async def test_a_press_settles_nothing(house: SlackHouse) -> None:
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
    house: SlackHouse, asked: dict[str, Any], name: str, user: str, data: str, changes: dict[str, Any], says: str
) -> None:
    before = len(house.lines())
    house.fake.press(DIRECT, asked["ts"], user, data, changes)
    house.say("D301", BOB, name)
    await holds(lambda: house.said("D301")[-1:] == [f"re {name}"])
    if says:
        await holds(lambda: says in "".join(house.lines()[before:]))
    await asyncio.sleep(0.05)
    assert says or not house.lines()[before:]
    assert house.doomed.is_dir()
    assert house.buttons_of(asked)


async def test_the_token_goes_to_slack_alone(house: SlackHouse) -> None:
    async with house.running():
        file = house.fake.keep("plan.txt", b"the plan")
        house.fake.files[file["id"]]["url_private_download"] = "http://127.0.0.1:9/elsewhere"
        house.fake.write(DIRECT, ANN, "read this", subtype="file_share", files=[file])
        await holds(lambda: any("not accepted" in one for one in house.said()) and house.asked)


FRAMES: list[str | bytes] = [
    "no JSON",
    "{half",
    "[]",
    "null",
    "{}",
    b"\xff\x00",
    '{"type": "conjure"}',
    '{"type": ["events_api"], "envelope_id": "1", "payload": {}}',
    '{"type": "events_api", "envelope_id": null, "payload": "x"}',
    '{"type": "events_api", "envelope_id": "1", "payload": null}',
    '{"type": "events_api", "envelope_id": "1", "payload": []}',
    '{"type": "interactive", "envelope_id": "1", "payload": {"type": "block_actions"}}',
    '{"type": "interactive", "envelope_id": "1", "payload": {"type": "view_submission", "view": {}}}',
    '{"type": "hello"}',
    '{"type": "disconnect", "reason": "warning"}',
    '{"type": "disconnect", "reason": "refresh_requested"}',
    "[" * 5_000,
    '{"a":' * 5_000,
]


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
async def test_what_is_no_event_ends_nothing(house: SlackHouse, frame: str | bytes) -> None:
    async with house.running():
        house.say(DIRECT, ANN, "one")
        await holds(lambda: house.said() == ["re one"])
        for _ in range(2):
            await house.fake.send_frame(frame)
        house.say(DIRECT, ANN, "two")
        await holds(lambda: house.said() == ["re one", "re two"])
        assert house.asked == ["one", "two"]
