"""Hostile updates from Telegram, with the real library and a fake of Telegram.

Each is refused, and the next message is answered.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.store.memory import MemoryStore
from tests.agent.gateway.conftest import line_of
from tests.plugins.houses import case
from tests.plugins.telegram.fake import ME, TOKEN, FakeTelegram
from tests.plugins.telegram.test_telegram_gateway import ANN, BOB, EVE, ROOM, TelegramHouse, holds

OWNERS_NAME = {"id": ANN, "is_bot": False, "first_name": f"P{ANN}", "username": f"p{ANN}"}
GROUP = {"id": ROOM, "type": "supergroup", "title": "The room"}
CHANNEL = {"id": -1009, "type": "channel", "title": "News"}
TOLD = {"file_id": "file0", "file_unique_id": "u", "file_name": "x.sh", "file_size": 8}
PHOTO = [{"file_id": "file0", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 8}]


_IDS = itertools.count(900)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TelegramHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    (tmp_path / "project").mkdir()
    made = TelegramHouse(tmp_path / "project", MemoryStore())
    yield made
    for crib in made.cribs:
        crib.close()


def writing(chat: int, user: int, text: str = "", **more: Any) -> Callable[[FakeTelegram], object]:
    return lambda fake: fake.write(chat, user, text, **more)


def pushing(kind: str, **fields: Any) -> Callable[[FakeTelegram], object]:
    """Push an update of a kind, with a message by the owner that ``fields`` change."""

    def push(fake: FakeTelegram) -> None:
        base = {"message_id": next(_IDS), "date": 1, "chat": fake.chat(ANN), "from": fake.person(ANN), "text": "let me in"}
        fake.push({kind: base | fields})

    return push


def editing(fake: FakeTelegram) -> None:
    """Change a message of the owner from before the gateway's start."""
    message = fake._message(ANN, fake.person(ANN), text="before")
    fake.edit(ANN, message["message_id"], "let me in")


UPDATES: dict[str, Callable[[FakeTelegram], object]] = {
    "words of a stranger": writing(EVE, EVE, "let me in"),
    "a stranger who mentions the bot": writing(ROOM, EVE, "@crib_bot let me in"),
    "a stranger who is called as the owner is": pushing("message", **{"from": OWNERS_NAME | {"id": EVE}}),
    "a stranger in the owner's own chat": writing(ANN, EVE, "let me in"),
    "a stranger's file": writing(EVE, EVE, caption="let me in", document=TOLD),
    "a stranger's photo": writing(EVE, EVE, photo=PHOTO),
    "the owner's words, forwarded by a stranger": writing(
        EVE, EVE, "let me in", forward_origin={"type": "user", "date": 1, "sender_user": OWNERS_NAME}
    ),
    "an answer of a stranger's to the owner": writing(
        ROOM, EVE, "@crib_bot let me in", reply_to_message={"message_id": 1, "date": 1, "chat": GROUP, "from": OWNERS_NAME}
    ),
    "the channel's name instead of a person's": pushing("message", sender_chat=CHANNEL),
    "an anonymous administrator": writing(ROOM, ANN, "@crib_bot let me in", sender_chat=GROUP),
    "what another bot put together": writing(ANN, ANN, "let me in", via_bot={"id": 5, "is_bot": True, "first_name": "B"}),
    "another bot": pushing("message", **{"from": {"id": ANN, "is_bot": True, "first_name": "A"}}),
    "the bot itself": pushing("message", **{"from": ME}),
    "nobody": pushing("message", **{"from": None}),
    "an edited message": editing,
    "a channel's post": pushing("channel_post"),
    "an edited post": pushing("edited_channel_post"),
    "a kind that was not asked for": pushing("business_message"),
    "a message that is two things": pushing("message", text=None, caption=None, poll={"id": "1"}),
    "a chat that is none": pushing("message", chat="../x"),
    "a time in the far future": pushing("message", date=10**18),
    "an aside in a group": writing(ROOM, BOB, "not for the bot"),
    "a command for another bot": writing(ROOM, ANN, "/new@other_bot"),
    "an inline query": lambda fake: fake.push({"inline_query": {"id": "1", "from": OWNERS_NAME, "query": "x", "offset": ""}}),
    "no update at all": lambda fake: fake.push({"message": None}),
    "a list for a message": lambda fake: fake.push({"message": ["let me in"]}),
}  # fmt: skip


async def test_an_update_reaches_no_model_and_the_next_message_is_answered(house: TelegramHouse) -> None:
    asked: list[str] = []
    async with house.running() as gateway:
        house.fake.keep("x.sh", b"rm -rf ~")
        for name, push in UPDATES.items():
            with case(name):
                push(house.fake)
                asked.append(f"are you well after {name}?")
                house.fake.write(ANN, ANN, asked[-1])
                await holds(lambda: house.said() == [f"re {one}" for one in asked])
                assert house.asked == asked
                assert [method for method, _ in house.fake.calls if method in ("getFile", "sendDocument")] == []
                assert (house.said(EVE), house.said(ROOM)) == ([], [])
                assert [record.chat for record in await house.store.mail.chats()] == [str(ANN)]
                assert line_of(gateway).door.counts["kept"] == len(asked)


async def test_a_replayed_update_is_answered_once(house: TelegramHouse) -> None:
    async with house.running() as gateway:
        number = house.fake.write(ANN, ANN, "hello")
        for _ in range(3):  # the same message in updates with different ids
            house.fake.push({"message": dict(house.fake.messages[ANN, number])})
        house.fake.write(ANN, ANN, "are you well?")
        await holds(lambda: house.said() == ["re hello", "re are you well?"])
        assert house.asked == ["hello", "are you well?"]
        assert line_of(gateway).door.counts["known"] == 3


PRESSES: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "a stranger": (EVE, "y", {}, ""),
    "a user who may only speak": (BOB, "y", {}, "may not decide"),
    "a choice that there is not": (ANN, "always", {}, "no such question"),
    "a choice of another kind": (ANN, "c0", {}, "no such question"),
    "a number that is none": (ANN, "c\u00b2", {}, "no such question"),
    "a choice without a letter": (ANN, "", {}, ""),
    "five thousand letters": (ANN, "y" * 5_000, {}, "no such question"),
    "a message that is not ours": (ANN, "y", {"message_id": 999}, "no such question"),
    "a message of another chat": (ANN, "y", {"chat": {"id": BOB, "type": "private", "first_name": "B"}}, "no such question"),
    "a message that can't be read": (ANN, "y", {"message": {"chat": {"id": ANN, "type": "private"}}}, ""),
    "no message": (ANN, "y", {"message": None}, ""),
}


async def test_a_press_settles_nothing(house: TelegramHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.running():
        house.fake.write(ANN, ANN, f"rm -rf {house.folder}/build")
        asked = await house.question()
        for name, press in PRESSES.items():
            with case(name):
                await _settles_nothing(house, asked, name, *press)
        assert await house.pressed(asked, ANN, "y") == ""
        await holds(lambda: not (house.folder / "build").exists())


async def _settles_nothing(
    house: TelegramHouse, asked: dict[str, Any], name: str, user: int, data: str, changes: dict[str, Any], says: str
) -> None:
    told = changes.get("message", {**asked, **changes}) if "message" in changes else {**asked, **changes}
    query = {"id": name, "from": house.fake.person(user), "chat_instance": "1", "data": data, "message": told}
    house.fake.push({"callback_query": {key: value for key, value in query.items() if value is not None}})
    house.fake.write(BOB, BOB, name)
    await holds(lambda: house.said(BOB)[-1:] == [f"re {name}"])
    await asyncio.sleep(0.05)
    assert says in house.fake.answered.get(name, "") if says else not house.fake.answered.get(name)
    assert (house.folder / "build").is_dir()
    assert "reply_markup" in asked


async def test_an_update_that_the_gateway_fails_on_keeps_back_no_other(
    house: TelegramHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.running() as gateway:
        door = line_of(gateway).door
        receive = door._received

        async def failing(message: Any) -> Any:
            if message.text == "poison":
                raise RuntimeError("a fault of ours")
            return await receive(message)

        monkeypatch.setattr(door, "_received", failing)
        house.fake.write(ANN, ANN, "poison")
        house.fake.write(ANN, ANN, "are you well?")
        await holds(lambda: house.said() == ["re are you well?"])


async def test_what_is_edited_after_the_approval_is_not_what_runs(house: TelegramHouse) -> None:
    for name in ("build", "home"):
        (house.folder / name).mkdir()
    async with house.running():
        first = house.fake.write(ANN, ANN, f"rm -rf {house.folder}/build")
        asked = await house.question()
        house.fake.edit(ANN, first, f"rm -rf {house.folder}/home")
        assert await house.pressed(asked, ANN, "y") == ""
        house.fake.edit(ANN, first, f"rm -rf {house.folder}/home now")
        await holds(lambda: not (house.folder / "build").exists())
        house.fake.write(ANN, ANN, "are you well?")
        await holds(lambda: house.said()[-1] == "re are you well?")
        assert (house.folder / "home").is_dir()
        assert not [one for one in house.asked if "home" in one]
