"""The Discord platform passes the suite for chat platforms, with its real library and a fake of Discord."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket

from plugins.discord.platform import DiscordPlatform
from tests.plugins.discord.fake import ME, TOKEN, FakeDiscord
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage

PERSON, OTHER, ROBOT = "11", "12", "91"


@contextmanager
def before(fake: FakeDiscord) -> Iterator[None]:
    """Make the library use a fake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discord.http.Route, "BASE", fake.url)
        patch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(f"ws://127.0.0.1:{fake.port}/gateway/"))
        yield


class DiscordDesk(PlatformDesk):
    factory = DiscordPlatform
    secrets: Mapping[str, Any] = {"DISCORD_TOKEN": TOKEN}
    settings: Mapping[str, Any] = {"edit_seconds": "0", "per_second": "1000"}
    direct = Chat("300")
    group = Chat("200", "210", is_group=True)
    gone = Chat("999", is_group=True)
    user, other = PERSON, OTHER

    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        fake.channel("300", "direct")
        fake.channel("200", "text")
        fake.channel("210", "thread", "200")

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        more: dict[str, Any] = {"message_reference": reply_to} if reply_to else {}
        return self.fake.write(_place(chat), user, f"<@{ME}> {text}" if is_addressed else text, **more)

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        return self.fake.write(_place(chat), user, attachments=[self.fake.keep(name, data)])

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        self.fake.edit(message_id, text)

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str:
        press = self.fake.press(message_id, user, choice)
        async with asyncio.timeout(60):
            while len(self.fake.answers[press]) < 2:
                await asyncio.sleep(0.01)
        assert self.fake.answers[press][0] == 6
        return str(self.fake.answers[press][1])

    async def bot_writes(self, chat: Chat, text: str) -> None:
        self.fake.write(_place(chat), ROBOT, text)

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        return [_seen(self.fake, message) for message in self.fake.of(_place(chat))]

    async def kill(self) -> None:
        await self.fake.kill()

    async def revive(self) -> None:
        await self.fake.revive()


def _seen(fake: FakeDiscord, message: Mapping[str, Any]) -> SeenMessage:
    choices = [one["custom_id"].partition("\n")[0] for row in message["components"] for one in row["components"]]
    files = {one["filename"]: fake.files[one["id"]] for one in message["attachments"]}
    return SeenMessage(message["id"], message["content"], choices, files, fake.pings[message["id"]])


def _place(chat: Chat) -> str:
    return chat.thread or chat.id


class TestDiscord(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[DiscordDesk]:
        fake = FakeDiscord()
        await fake.revive()
        try:
            with before(fake):
                yield DiscordDesk(fake)
        finally:
            await fake.kill()
