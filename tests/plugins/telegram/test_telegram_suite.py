"""The Telegram platform passes the suite for chat platforms, with its real library and a fake of Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from plugins.telegram.platform import TelegramPlatform
from tests.plugins.telegram.fake import ME, TOKEN, FakeTelegram
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage

PERSON, OTHER, ROBOT, ROOM = 11, 12, 13, -1001


class TelegramDesk(PlatformDesk):
    factory = TelegramPlatform
    secrets: Mapping[str, Any] = {"TELEGRAM_TOKEN": TOKEN}
    direct = Chat(str(PERSON))
    group = Chat(str(ROOM), "77", is_group=True)
    gone = Chat("-1009")
    user, other = str(PERSON), str(OTHER)

    def __init__(self, fake: FakeTelegram) -> None:
        self.fake = fake
        self.settings = {"base_url": fake.url, "edit_seconds": "0", "per_second": "1000"}
        fake.chat(PERSON)
        fake.chat(ROOM)
        fake.person(ROBOT, is_bot=True)

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        more: dict[str, Any] = _topic(chat)
        if reply_to:
            more["reply_to_message"] = self.fake.messages[int(chat.id), int(reply_to)]
        return str(self.fake.write(int(chat.id), int(user), f"@crib_bot {text}" if is_addressed else text, **more))

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        file_id = self.fake.keep(name, data)
        told = {"file_id": file_id, "file_unique_id": file_id, "file_name": name, "file_size": len(data)}
        return str(self.fake.write(int(chat.id), int(user), document=told))

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        self.fake.edit(int(chat.id), int(message_id), text)

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str:
        query = self.fake.press(int(chat.id), int(user), int(message_id), choice)
        async with asyncio.timeout(60):
            while query not in self.fake.answered:
                await asyncio.sleep(0.01)
        return self.fake.answered[query]

    async def bot_writes(self, chat: Chat, text: str) -> None:
        self.fake.write(int(chat.id), ROBOT, text, **_topic(chat))

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        return [
            _seen(self.fake, message)
            for (where, _), message in self.fake.messages.items()
            if where == int(chat.id) and message["from"] is ME and str(message.get("message_thread_id") or "") == chat.thread
        ]

    async def kill(self) -> None:
        await self.fake.kill()

    async def revive(self) -> None:
        await self.fake.revive()


def _seen(fake: FakeTelegram, message: Mapping[str, Any]) -> SeenMessage:
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    file = message.get("document")
    return SeenMessage(
        str(message["message_id"]),
        message.get("text", ""),
        [button["callback_data"].partition("\n")[0] for row in rows for button in row],
        dict([fake.files[file["file_id"]]]) if file else {},
        fake.pings[message["chat"]["id"], message["message_id"]],
    )


def _topic(chat: Chat) -> dict[str, Any]:
    return {"message_thread_id": int(chat.thread), "is_topic_message": True} if chat.thread else {}


class TestTelegram(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[TelegramDesk]:
        fake = FakeTelegram()
        await fake.revive()
        try:
            yield TelegramDesk(fake)
        finally:
            await fake.kill()
