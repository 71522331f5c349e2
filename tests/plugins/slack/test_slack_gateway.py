"""Slack through the whole gateway, with the real library and a fake of Slack."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.houses import ChatHouse, holds, house_of
from tests.plugins.scenes import Scenes
from tests.plugins.slack.fake import APP_TOKEN, BOT_TOKEN, ME, FakeSlack, Fault
from toolcrib import StoreFailed

ANN, BOB, EVE, DIRECT, ROOM = "U11", "U12", "U66", "D300", "C200"


class SlackHouse(ChatHouse):
    name, ann, bob, eve, direct, another, room = "slack", ANN, BOB, EVE, DIRECT, "D301", ROOM
    secrets: Mapping[str, str] = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    creates, edits = "chat.postMessage", "chat.update"
    fake: FakeSlack

    def open_fake(self) -> FakeSlack:
        fake = FakeSlack()
        for chat in (DIRECT, "D301", "D302"):
            fake.channel(chat, is_im=True)
        fake.channel(ROOM)
        return fake

    def settings(self) -> str:
        return f"{{edit_seconds: '0', per_second: '1000', base_url: '{self.fake.url}'}}"

    def say(self, chat: str, user: str, text: str, *, reply_to: str = "", is_addressed: bool = False) -> str:
        more = {"thread_ts": reply_to} if reply_to else {}
        if not is_addressed:
            return self.fake.write(chat, user, text, **more)
        message = self.fake._message(chat, user=user, text=f"<@{ME}> {html.escape(text, quote=False)}", **more)
        self.fake.tell_event(self.fake.event_of(message))
        return str(message["ts"])

    def send_file(self, chat: str, user: str, text: str, name: str, data: bytes, size: int | None = None) -> None:
        file = self.fake.keep(name, data)
        self.fake.write(chat, user, text, subtype="file_share", files=[file | ({"size": size} if size else {})])

    def text_of(self, message: dict[str, Any]) -> str:
        return self.fake.text_of(message)

    def buttons_of(self, message: dict[str, Any]) -> list[str]:
        return self.fake.buttons_of(message)

    def id_of(self, message: dict[str, Any]) -> str:
        return str(message["ts"])

    def press(self, message: dict[str, Any], user: str, data: str) -> None:
        self.fake.press(message["channel"], message["ts"], user, data)

    def lines(self) -> list[str]:
        return [text for _, text in self.fake.whispers]

    def files_of(self, message: dict[str, Any]) -> dict[str, bytes]:
        return {one["name"]: self.fake.files[one["id"]]["data"] for one in message.get("files", ())}

    def loses_acknowledgement(self, then: Callable[[], object] = bool) -> None:
        self.fake.faults.append(Fault("chat.postMessage", then=then))

    def loses_file_acknowledgement(self) -> None:
        self.fake.faults.append(Fault("files.completeUploadExternal"))

    def floods(self, kind: str) -> None:
        self.fake.faults.append(Fault(kind, "ratelimited", 429, retry_after=1))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatHouse]:
    made = house_of(SlackHouse, tmp_path, monkeypatch)
    yield made
    for crib in made.cribs:
        crib.close()


class TestSlackChats(Scenes):
    async def test_a_thread_is_a_chat_of_its_own(self, house: SlackHouse) -> None:
        async with house.running():
            root = house.say(ROOM, BOB, "an aside")
            house.say(ROOM, ANN, "in it", is_addressed=True, reply_to=root)
            house.say(ROOM, ANN, "outside", is_addressed=True)
            await holds(lambda: len(house.said(ROOM)) == 2)
            assert {one.get("thread_ts") for one in house.ours(ROOM)} == {root, None}
            assert {one.chat for one in await house.store.mail.chats()} == {f"{ROOM}\0{root}", ROOM}

    async def test_an_answer_below_a_question_counts_that_was_given_while_it_was_down(self, house: SlackHouse) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(ROOM, ANN, command, is_addressed=True)
            asked = await house.question(ROOM)
        await house.fake.revive()
        house.fake.is_deaf = True
        house.say(ROOM, ANN, "yes", reply_to=house.id_of(asked))
        async with house.again():
            await holds(lambda: not house.doomed.exists())

    async def test_an_envelope_is_confirmed_once_the_message_was_kept(
        self, house: SlackHouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with house.running():
            arrived, is_full = house.store.mail.arrived, [True]

            async def arrives(mail: Any) -> Any:
                if is_full[0]:
                    raise StoreFailed("the disk is full")
                return await arrived(mail)

            monkeypatch.setattr(house.store.mail, "arrived", arrives)
            house.say(DIRECT, ANN, "hello")
            await asyncio.sleep(0.3)
            assert house.fake.confirmed == []
            is_full[0] = False
            await holds(lambda: house.said() == ["re hello"] and house.fake.confirmed)
            assert house.asked == ["hello"]

    @pytest.mark.parametrize(
        "fault",
        [
            {"code": "internal_error", "status": 500},
            {"code": "ratelimited"},
            {"code": "token_revoked"},
            {"page": "upstream connect error", "status": 503},
        ],
    )
    async def test_what_was_missed_is_read_once_slack_gives_it(self, house: SlackHouse, fault: dict[str, Any]) -> None:
        async with house.running() as gateway:
            house.say(DIRECT, ANN, "one")
            await holds(lambda: house.said() == ["re one"])
            await house.is_idle(gateway)
        await house.fake.revive()
        house.fake.is_deaf = True
        house.say(DIRECT, ANN, "two")
        house.fake.minutes_later()
        house.fake.faults += [Fault("conversations.history", times=2, **fault), Fault("users.conversations", **fault)]
        async with house.again():
            await holds(lambda: house.said() == ["re one", "re two"])

    async def test_channels_are_listed_again_where_that_failed(self, house: SlackHouse) -> None:
        async with house.running() as gateway:
            house.say(DIRECT, ANN, "one")
            await holds(lambda: house.said() == ["re one"])
            await house.is_idle(gateway)
        await house.fake.revive()
        house.fake.is_deaf = True
        house.say(ROOM, ANN, "two", is_addressed=True)
        house.fake.minutes_later()
        house.fake.faults.append(Fault("users.conversations", page="upstream connect error", status=503))
        async with house.again():
            await holds(lambda: house.said(ROOM))

    async def test_each_connection_has_an_address_of_its_own(
        self, house: SlackHouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("plugins.slack.wire._ADDRESS_SECONDS", 1.0)
        monkeypatch.setattr("plugins.slack.wire._PING_SECONDS", 0.3)
        async with house.running():
            house.say(DIRECT, ANN, "one")
            await holds(lambda: house.said() == ["re one"])
            house.fake.breaks = 1
            house.fake.faults.append(Fault("apps.connections.open", page="upstream connect error", status=503))
            house.fake.cut()
            house.say(DIRECT, ANN, "two")
            await holds(lambda: house.said() == ["re one", "re two"])
        assert "Slack offers no connection" in caplog.text
        assert "ticket" not in caplog.text

    async def test_a_press_counts_while_slack_says_nothing_of_its_chat(self, house: SlackHouse) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(DIRECT, ANN, command)
            asked = await house.question()
        await house.fake.revive()
        house.fake.faults += [
            Fault("users.conversations", "missing_scope"),
            Fault("conversations.info", "internal_error", 500, times=3),
        ]
        async with house.again():
            house.press(asked, ANN, house.button(asked, "y"))
            await holds(lambda: not house.doomed.exists())
