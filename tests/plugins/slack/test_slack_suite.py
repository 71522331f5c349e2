"""The Slack platform passes the suite for chat platforms, with its real library and a fake of Slack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from plugins.slack.platform import SlackPlatform
from tests.plugins.slack.fake import APP_TOKEN, BOT_TOKEN, ME, FakeSlack
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage

PERSON, OTHER, ROBOT = "U11", "U12", "U99"


class SlackDesk(PlatformDesk):
    factory = SlackPlatform
    secrets: Mapping[str, Any] = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    direct = Chat("D300")
    group = Chat("C200", is_group=True)
    gone = Chat("C999", is_group=True)
    user, other = PERSON, OTHER

    def __init__(self, fake: FakeSlack) -> None:
        self.fake = fake
        self.settings = {"base_url": fake.url, "edit_seconds": "0", "per_second": "1000"}
        fake.channel("D300", is_im=True)
        fake.channel("C200")

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        more = {"thread_ts": reply_to} if reply_to else {}
        if not is_addressed:
            return self.fake.write(chat.id, user, text, **more)
        message = self.fake._message(chat.id, user=user, text=f"<@{ME}> {text}", **more)
        self.fake.tell_event(self.fake.event_of(message))
        return str(message["ts"])

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        return self.fake.write(chat.id, user, subtype="file_share", files=[self.fake.keep(name, data)])

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        self.fake.edit(chat.id, message_id, text)

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str:
        before = len(self.fake.whispers)
        self.fake.press(chat.id, message_id, user, choice)
        async with asyncio.timeout(60):
            while len(self.fake.whispers) == before:
                await asyncio.sleep(0.01)
        assert self.fake.whispers[-1][0] == user
        return self.fake.whispers[-1][1]

    async def bot_writes(self, chat: Chat, text: str) -> None:
        self.fake.write(chat.id, ROBOT, text, bot_id="B9", subtype="bot_message")

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        return [_seen(self.fake, message) for message in self.fake.of(chat.id)]

    async def kill(self) -> None:
        await self.fake.kill()

    async def revive(self) -> None:
        await self.fake.revive()


def _seen(fake: FakeSlack, message: dict[str, Any]) -> SeenMessage:
    files = {one["name"]: fake.files[one["id"]]["data"] for one in message.get("files", ())}
    choices = [value.partition("\n")[0] for value in fake.buttons_of(message)]
    return SeenMessage(message["ts"], fake.text_of(message), choices, files, fake.pings_of(message))


class TestSlack(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[SlackDesk]:
        fake = FakeSlack()
        await fake.revive()
        try:
            yield SlackDesk(fake)
        finally:
            await fake.kill()
