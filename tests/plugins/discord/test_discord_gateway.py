"""Discord through the whole gateway, with the real library and a fake of Discord."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import discord
import pytest

from agent.gateway.gateway import Gateway
from tests.plugins.discord.fake import ME, TOKEN, FakeDiscord
from tests.plugins.discord.requests import Fault
from tests.plugins.discord.test_discord_suite import before
from tests.plugins.houses import ChatHouse, holds, house_of
from tests.plugins.scenes import Scenes

ANN, BOB, EVE, DIRECT, ROOM, THREAD = "11", "12", "66", "300", "200", "210"


class DiscordHouse(ChatHouse):
    name, ann, bob, eve, direct, another, room = "discord", ANN, BOB, EVE, DIRECT, "301", ROOM
    secrets: Mapping[str, str] = {"DISCORD_TOKEN": TOKEN}
    creates, edits = "create", "edit"
    fake: FakeDiscord

    def open_fake(self) -> FakeDiscord:
        fake = FakeDiscord()
        for chat in (DIRECT, "301", "302"):
            fake.channel(chat, "direct")
        fake.channel(ROOM, "text")
        fake.channel(THREAD, "thread", ROOM)
        return fake

    @asynccontextmanager
    async def again(self) -> AsyncIterator[Gateway]:
        with before(self.fake):
            async with super().again() as gateway:
                yield gateway

    def settings(self) -> str:
        return "{edit_seconds: '0', per_second: '1000'}"

    def before(self) -> str:
        way = f"DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL('ws://127.0.0.1:{self.fake.port}/gateway/')"
        imports = "import discord, yarl; from discord.gateway import DiscordWebSocket"
        return f"{imports}; discord.http.Route.BASE = '{self.fake.url}'; {way}"

    def say(self, chat: str, user: str, text: str, *, reply_to: str = "", is_addressed: bool = False) -> str:
        more: dict[str, Any] = {"message_reference": reply_to} if reply_to else {}
        return self.fake.write(chat, user, f"<@{ME}> {text}" if is_addressed else text, **more)

    def send_file(self, chat: str, user: str, text: str, name: str, data: bytes, size: int | None = None) -> None:
        file = self.fake.keep(name, data)
        self.fake.write(chat, user, text, attachments=[file | ({"size": size} if size else {})])

    def text_of(self, message: dict[str, Any]) -> str:
        return str(message["content"])

    def buttons_of(self, message: dict[str, Any]) -> list[str]:
        return [one["custom_id"] for row in message["components"] for one in row["components"]]

    def id_of(self, message: dict[str, Any]) -> str:
        return str(message["id"])

    def press(self, message: dict[str, Any], user: str, data: str) -> None:
        self.fake.press(message["id"], user, data)

    def lines(self) -> list[str]:
        return [one for told in self.fake.answers.values() for one in told[1:]]

    def files_of(self, message: dict[str, Any]) -> dict[str, bytes]:
        return {one["filename"]: self.fake.files[one["id"]] for one in message["attachments"]}

    def loses_acknowledgement(self, then: Callable[[], object] = bool) -> None:
        self.fake.faults.append(Fault("create", then=then))

    def floods(self, kind: str) -> None:
        self.fake.faults.append(Fault(kind, 429, retry_after=1.0))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatHouse]:
    made = house_of(DiscordHouse, tmp_path, monkeypatch)
    yield made
    for crib in made.cribs:
        crib.close()


class TestDiscordChats(Scenes):
    async def test_a_cut_is_resumed_and_a_lost_session_read_again(
        self, house: DiscordHouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def at_once(*_: object, **more: object) -> None:
            """Skip the five seconds that Discord requires between two sessions."""

        monkeypatch.setattr(discord.Client, "before_identify_hook", at_once)
        async with house.running():
            house.say(DIRECT, ANN, "one")
            await holds(lambda: house.said() == ["re one"])
            house.fake.cut()
            house.say(DIRECT, ANN, "two")
            await holds(lambda: house.said()[-1] == "re two")
            assert house.fake.sessions == ["identify", "resume"]
            house.fake.loses_sessions = True
            house.fake.cut()
            house.say(DIRECT, ANN, "three")
            await holds(lambda: house.said()[-1] == "re three")
            assert house.fake.sessions[-1] == "identify"
            assert house.said() == ["re one", "re two", "re three"]

    async def test_a_thread_is_a_chat_of_its_own(self, house: DiscordHouse) -> None:
        async with house.running():
            house.say(THREAD, ANN, "in it", is_addressed=True)
            house.say(ROOM, ANN, "outside", is_addressed=True)
            await holds(lambda: house.said(THREAD) and house.said(ROOM))
            records = await house.store.mail.chats()
            assert {one.chat for one in records} == {f"{ROOM}\0{THREAD}", ROOM}
            assert len({one.session_id for one in records}) == 2

    async def test_a_thread_that_nobody_told_of_is_looked_up(self, house: DiscordHouse) -> None:
        async with house.running():
            house.fake.channel("220", "thread", ROOM)
            house.say("220", ANN, "hello", is_addressed=True)
            await holds(lambda: house.said("220"))
            assert [one.chat for one in await house.store.mail.chats()] == [f"{ROOM}\0" + "220"]

    async def test_words_in_a_thread_that_nobody_told_of_are_read_until_they_are_had(self, house: DiscordHouse) -> None:
        async with house.running():
            house.fake.channel("220", "thread", ROOM)
            house.fake.faults.append(Fault("channel", times=4))
            for number in range(3):
                house.say("220", ANN, f"hello {number}", is_addressed=True)
            await holds(lambda: len(house.asked) == 3)
            assert [one.rpartition(" ")[2] for one in house.asked] == ["0", "1", "2"]

    async def test_a_place_to_resume_at_that_is_gone_is_left(self, house: DiscordHouse) -> None:
        async with house.running():
            pass
        house.fake.resumes_at = "ws://127.0.0.1:9/gateway/"
        await house.fake.revive()
        async with house.again():
            house.say(DIRECT, ANN, "one")
            await holds(lambda: house.said() == ["re one"])
            house.fake.cut()
            house.say(DIRECT, ANN, "two")
            await holds(lambda: house.said()[-1] == "re two")
            assert house.fake.sessions[-1] == "resume"

    @pytest.mark.parametrize("code", [4007, 4009])
    async def test_a_session_that_is_over_is_begun_anew(
        self, house: DiscordHouse, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        async def at_once(*_: object, **more: object) -> None:
            """Skip the five seconds that Discord requires between two sessions."""

        monkeypatch.setattr(discord.Client, "before_identify_hook", at_once)
        async with house.running():
            house.say(DIRECT, ANN, "one")
            await holds(lambda: house.said() == ["re one"])
            house.fake.ends_resumes = code
            house.fake.cut()
            house.say(DIRECT, ANN, "two")
            await holds(lambda: house.said()[-1] == "re two")
            assert house.fake.sessions == ["identify", "resume", "identify"]

    async def test_a_mention_of_its_own_role_is_one_of_the_bot(self, house: DiscordHouse) -> None:
        async with house.running():
            house.fake.write(ROOM, ANN, "<@&502> /help", mention_roles=["502"])
            await holds(lambda: house.said(ROOM))
            assert "/new" in house.said(ROOM)[0]
            house.fake.write(ROOM, ANN, "<@&501> /help", mention_roles=["501"])
            house.say(ROOM, ANN, "to you", is_addressed=True)
            await holds(lambda: len(house.asked) == 1)

    async def test_a_press_counts_while_discord_does_not_take_its_answer(self, house: DiscordHouse) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(DIRECT, ANN, command)
            asked = await house.question()
            house.fake.faults.append(Fault("callback", 429, retry_after=300.0))
            house.press(asked, ANN, house.button(asked, "y"))
            await holds(lambda: not house.doomed.exists(), 10)
