"""Telegram through the whole gateway, with the real library and a fake of Telegram."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.gateway.forms import body_of
from agent.gateway.gateway import Gateway
from agent.store.memory import MemoryStore
from tests.agent.gateway.conftest import House, Parrot, line_of
from tests.plugins.telegram.fake import ME, TOKEN, FakeTelegram, Fault
from toolcrib import ProviderTurn
from toolcrib.chat import Chat, OutFile
from toolcrib.contract.session import OnEvent, StreamEvent

ANN, BOB, EVE, ROOM = 11, 12, 66, -1001
OWNED = """
plugins: {{enabled: [telegram]}}
platforms:
  telegram:
    roles: {{owner: ['{ann}']}}
    allowed_users: ['{bob}']
    allowed_chats: ['*']
    allow_local: true
    settings: {{base_url: '{url}', edit_seconds: '{edits}', per_second: '1000'}}
"""


class SlowParrot(Parrot):
    """A model that answers slowly."""

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        turn = await super().stream_turn(lambda event: None)
        for word in turn.assistant_text.split(" "):
            on_event(StreamEvent("assistant_delta", f"{word} "))
            await asyncio.sleep(0.01)
        return turn


class TelegramHouse(House):
    """A house whose chats are on the fake."""

    fake: FakeTelegram

    def prepare(self, session: Session) -> None:
        session.link.use(self.parrots.setdefault(session.id, SlowParrot(self)))

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.config), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["telegram"], prepare=self.prepare)

    @asynccontextmanager
    async def running(self, edits: float = 0.0) -> AsyncIterator[Gateway]:
        """Open the fake and a gateway for it."""
        self.fake = FakeTelegram()
        await self.fake.revive()
        self.configure(OWNED.format(ann=ANN, bob=BOB, url=self.fake.url, edits=edits))
        for chat in (ANN, BOB, EVE, ROOM):
            self.fake.chat(chat)
        async with self.again() as gateway:
            yield gateway

    @asynccontextmanager
    async def again(self) -> AsyncIterator[Gateway]:
        """Open a gateway for the present fake."""
        try:
            async with self.gateway() as gateway:
                line_of(gateway)
                yield gateway
        finally:
            await self.fake.kill()

    def ours(self, chat: int = ANN) -> list[dict[str, Any]]:
        return [one for (where, _), one in self.fake.messages.items() if where == chat and one["from"] is ME]

    def said(self, chat: int = ANN) -> list[str]:
        return [one.get("text", "") for one in self.ours(chat)]

    def asked_with_buttons(self, chat: int = ANN) -> dict[str, Any] | None:
        return next((one for one in self.ours(chat) if one.get("reply_markup")), None)

    async def question(self, chat: int = ANN) -> dict[str, Any]:
        await holds(lambda: self.asked_with_buttons(chat))
        found = self.asked_with_buttons(chat)
        assert found is not None
        return found

    async def pressed(self, message: dict[str, Any], user: int, choice: str) -> str:
        """Press a button, and return the line that is shown."""
        query = self.fake.press(message["chat"]["id"], user, message["message_id"], choice)
        await holds(lambda: query in self.fake.answered)
        return self.fake.answered[query]


async def holds(what: Callable[[], Any], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.02)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TelegramHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    (tmp_path / "project").mkdir()
    made = TelegramHouse(tmp_path / "project", MemoryStore())
    yield made
    for crib in made.cribs:
        crib.close()


async def test_an_answer_grows_by_edits(house: TelegramHouse) -> None:
    async with house.running():
        words = " ".join(f"word{number}" for number in range(200))
        house.fake.write(ANN, ANN, words)
        await holds(lambda: house.said() == [f"re {words}"])
        methods = [method for method, _ in house.fake.calls if method in ("sendMessage", "editMessageText")]
        assert methods[0] == "sendMessage"
        assert set(methods[1:]) == {"editMessageText"}
        assert ("sendChatAction", {"chat_id": ANN, "action": "typing"}) in house.fake.calls


async def test_a_stranger_reaches_nothing(house: TelegramHouse) -> None:
    async with house.running():
        house.fake.write(EVE, EVE, "hello")
        house.fake.write(ROOM, EVE, "@crib_bot hello")
        house.fake.write(ANN, ANN, "mine")
        await holds(lambda: house.said() == ["re mine"])
        assert house.asked == ["mine"]


async def test_an_approval_by_button_and_anothers_press_refused(house: TelegramHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.running():
        house.fake.write(ANN, ANN, f"rm -rf {house.folder}/build")
        asked = await house.question()
        assert f"rm -rf {house.folder}/build" in asked["text"]
        assert "owner" in await house.pressed(asked, BOB, "y")
        assert await house.pressed(asked, EVE, "y") == ""
        assert await house.pressed(asked, ANN, "c0") != ""
        assert (house.folder / "build").is_dir()
        assert await house.pressed(asked, ANN, "y") == ""
        await holds(lambda: house.said()[-1] == "ran it")
        assert not (house.folder / "build").exists()
        assert "reply_markup" not in asked
        assert f"approved by P{ANN}" in asked["text"]
        assert "already decided" in await house.pressed(asked, ANN, "n")


async def test_an_approval_by_reply_in_a_topic(house: TelegramHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    topic = {"message_thread_id": 7, "is_topic_message": True}
    async with house.running():
        house.fake.write(ROOM, ANN, f"@crib_bot rm -rf {house.folder}/build", **topic)
        asked = await house.question(ROOM)
        assert asked["message_thread_id"] == 7
        house.fake.write(ROOM, BOB, "yes", reply_to_message=asked, **topic)
        await holds(lambda: any("may not decide" in one for one in house.said(ROOM)))
        assert (house.folder / "build").is_dir()
        house.fake.write(ROOM, ANN, "no", reply_to_message=asked, **topic)
        await holds(lambda: "denied by" in asked["text"])
        assert (house.folder / "build").is_dir()


@pytest.mark.parametrize("pressed", [0, 1])
async def test_a_press_on_either_copy_of_a_question_counts(house: TelegramHouse, pressed: int) -> None:
    """003-25: the first copy was shown, but its acknowledgement was lost, so the gateway does not know of it."""
    (house.folder / "build").mkdir()
    async with house.running():
        house.fake.write(BOB, BOB, "hello")
        await holds(lambda: house.said(BOB) == ["re hello"])
        house.fake.faults.append(Fault("sendMessage"))
        house.fake.write(ANN, ANN, f"rm -rf {house.folder}/build")
        await holds(lambda: len(house.ours()) == 2)
        copies = house.ours()
        data = [row[0]["callback_data"] for row in copies[0]["reply_markup"]["inline_keyboard"]]
        assert data == [row[0]["callback_data"] for row in copies[1]["reply_markup"]["inline_keyboard"]]
        [asked] = await house.store.mail.questions("telegram")
        yes, key = data[0].split("\n")
        assert (yes, key) == ("y", asked.key)
        assert "may not decide" in await house.pressed(copies[pressed], BOB, data[0])
        assert "no such question" in await house.pressed(house.ours(BOB)[0], ANN, data[0])
        assert (house.folder / "build").is_dir()
        assert await house.pressed(copies[pressed], ANN, data[0]) == ""
        await holds(lambda: house.said()[-1] == "ran it")
        assert not (house.folder / "build").exists()
        assert "already decided" in await house.pressed(copies[0], ANN, data[-1])


async def test_a_press_outlives_a_restart(house: TelegramHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.running():
        house.fake.write(ANN, ANN, f"rm -rf {house.folder}/build")
        asked = await house.question()
    await house.fake.revive()
    house.fake.press(ANN, BOB, asked["message_id"], "y")
    house.fake.press(ANN, ANN, asked["message_id"], "y", "once")
    house.fake.press(ANN, ANN, asked["message_id"], "y", "once")
    async with house.again():
        await holds(lambda: house.said()[-1] == "ran it")
        assert not (house.folder / "build").exists()
        assert len(house.ours()) == 2


async def test_what_came_while_it_was_down_is_answered_once(house: TelegramHouse) -> None:
    async with house.running() as gateway:
        house.fake.write(ANN, ANN, "one")
        await holds(lambda: house.said() == ["re one"])
        [record] = await house.store.mail.chats()
        # otherwise it resumes, and calls the model again
        await holds(lambda: not line_of(gateway).manager.at_work(record.session_id))
    await house.fake.revive()
    house.fake.write(ANN, ANN, "two")
    async with house.again():
        await holds(lambda: house.said()[-1] == "re two")
        await asyncio.sleep(0.3)
        assert house.said() == ["re one", "re two"]
        assert house.asked == ["one", "two"]


async def test_files_come_in(house: TelegramHouse) -> None:
    async with house.running():
        file_id = house.fake.keep("../../plan.txt", b"the plan")
        told = {"file_id": file_id, "file_unique_id": "u", "file_name": "../../plan.txt", "file_size": 8}
        house.fake.write(ANN, ANN, caption="read this", document=told)
        huge = house.fake.keep("huge", b"")
        house.fake.write(ANN, ANN, caption="and this", document=told | {"file_id": huge, "file_size": 21 * 2**20})
        await holds(lambda: len(house.asked) == 2 and any("not accepted" in one for one in house.said()))
        words, line = house.asked[0].split("\n")
        path = Path(line.removeprefix("[the file ").removesuffix(" came with this message]"))
        assert (words, path.read_bytes(), path.parent.name) == ("read this", b"the plan", "received")
        assert house.asked[1] == "and this"


async def test_flood_control_delays_and_doubles_nothing(house: TelegramHouse) -> None:
    async with house.running():
        for method in ("sendMessage", "editMessageText"):
            house.fake.faults.append(Fault(method, 429, text="Too Many Requests", parameters={"retry_after": 1}))
        begun = time.monotonic()
        house.fake.write(ANN, ANN, "hello there")
        await holds(lambda: house.said() == ["re hello there"])
        assert time.monotonic() - begun >= 1.0
        await asyncio.sleep(0.3)
        assert house.said() == ["re hello there"]


async def test_a_lost_acknowledgement_is_marked(house: TelegramHouse) -> None:
    async with house.running():
        house.fake.faults.append(Fault("sendMessage"))
        house.fake.write(ANN, ANN, "hello")
        await holds(lambda: len(house.ours()) == 2)
        await holds(lambda: house.said()[-1].startswith("re hello"))
        assert "sent again" in "".join(house.said())


async def test_commands_are_taken_with_the_bots_name_only(house: TelegramHouse) -> None:
    async with house.running():
        house.fake.write(ROOM, ANN, "/help@other_bot")
        house.fake.write(ROOM, ANN, "/help@Crib_Bot")
        await holds(lambda: house.ours(ROOM))
        await asyncio.sleep(0.2)
        assert len(house.ours(ROOM)) == 1
        assert "/new" in house.said(ROOM)[0]
        assert house.asked == []


async def test_the_token_is_in_no_log(house: TelegramHouse, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with house.running():
        house.fake.write(ANN, ANN, "hello")
        await holds(lambda: house.said() == ["re hello"])
        await house.fake.kill()
        await asyncio.sleep(0.2)
        await house.fake.revive()
    secret = TOKEN.partition(":")[2]
    assert "api" in caplog.text or "/bothidden/" in caplog.text
    assert secret not in caplog.text
    assert [record for record in caplog.records if secret in str(record.__dict__)] == []


async def test_a_run_that_was_under_way_goes_on_after_a_restart(house: TelegramHouse) -> None:
    async with house.running():
        house.fake.write(ANN, ANN, "wait for it")
        await holds(lambda: house.asked)
    assert house.said() == []
    house.may.set()
    await house.fake.revive()
    async with house.again():
        await holds(lambda: house.said() == ["re wait for it"])
        await asyncio.sleep(0.3)
        assert house.said() == ["re wait for it"]


async def test_it_goes_on_when_telegram_is_back(house: TelegramHouse) -> None:
    async with house.running():
        house.fake.write(ANN, ANN, "wait for it")
        await holds(lambda: house.asked)
        await house.fake.kill()
        house.may.set()
        await asyncio.sleep(0.5)
        await house.fake.revive()
        house.fake.write(ANN, ANN, "are you there?")
        await holds(lambda: house.said()[-1:] == ["re are you there?"])
        assert house.said() == ["re wait for it", "re are you there?"]


async def test_files_go_out_once_they_are_posted(house: TelegramHouse, tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"42")
    async with house.running() as gateway:
        body = body_of(Chat(str(ANN)), "the report", files=[OutFile(tmp_path / "report", "report.txt", "text/plain")])
        await line_of(gateway).outbox.put(str(ANN), "report", body)
        await holds(lambda: len(house.ours()) == 2)
        words, file = house.ours()
        assert (words["text"], house.fake.files[file["document"]["file_id"]]) == ("the report", ("report.txt", b"42"))
