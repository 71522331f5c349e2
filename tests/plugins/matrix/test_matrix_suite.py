"""The Matrix platform passes the suite for chat platforms, on a real Synapse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from plugins.matrix.platform import MatrixPlatform
from plugins.matrix.writing import BUTTONS
from tests.plugins.matrix.conftest import Person, Synapse, folded
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage


class MatrixDesk(PlatformDesk):
    """A direct room and a room of three users, which the bot joined before."""

    factory = MatrixPlatform
    gone = Chat("!none:localhost")

    def __init__(self, synapse: Synapse, bot: Person, people: Mapping[str, Person]) -> None:
        self.settings = {"homeserver": synapse.url, "per_second": "1000", "edit_seconds": "0.05"}
        self.secrets = {"MATRIX_TOKEN": bot.token}
        self._synapse = synapse
        self._bot = bot
        self._people = people
        self.user, self.other, self._robot = people

    async def furnish(self) -> None:
        """Create the rooms."""
        self.direct = Chat(await self._room(self._people[self.user], self._bot, is_direct=True))
        await self._bot.ask("PUT", f"v3/user/{self._bot.id}/account_data/m.direct", {self.user: [self.direct.id]})
        others = [self._bot, self._people[self.other], self._people[self._robot]]
        self.group = Chat(await self._room(self._people[self.user], *others, is_direct=False), is_group=True)

    async def _room(self, host: Person, *guests: Person, is_direct: bool) -> str:
        body = {"invite": [one.id for one in guests], "is_direct": is_direct, "preset": "private_chat"}
        room = str((await host.ask("POST", "v3/createRoom", body))["room_id"])
        for one in guests:
            await one.ask("POST", f"v3/join/{room}", {})
        return room

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        more: dict[str, Any] = {"m.mentions": {"user_ids": [self._bot.id] if is_addressed else []}}
        if reply_to:
            more["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
        return await self._people[user].says(chat.id, text, **more)

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        person = self._people[user]
        url = await person.uploads(name, data, "application/octet-stream")
        return await person.says(chat.id, name, msgtype="m.file", filename=name, url=url, info={"size": len(data)})

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        related = {"rel_type": "m.replace", "event_id": message_id}
        new = {"msgtype": "m.text", "body": text}
        await self._people[user].says(chat.id, f"* {text}", **{"m.new_content": new, "m.relates_to": related})

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> None:
        """React to the message. The line for the user who pressed arrives as a message."""
        [shown] = [one for one in await self._messages(chat) if one["id"] == message_id]
        emoji = next(emoji for emoji, meant in shown[BUTTONS].items() if meant == choice)
        await self._people[user].reacts(chat.id, message_id, emoji)

    async def bot_writes(self, chat: Chat, text: str) -> None:
        await self._people[self._robot if chat is self.group else self.user].says(chat.id, text, msgtype="m.notice")

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        return [await self._seen(one) for one in await self._messages(chat)]

    async def _messages(self, chat: Chat) -> list[dict[str, Any]]:
        where = f"v3/rooms/{quote(chat.id)}/messages"
        return folded((await self._people[self.user].ask("GET", where, dir="f", limit=500))["chunk"])

    async def _seen(self, message: Mapping[str, Any]) -> SeenMessage:
        files, mentions = {}, message.get("m.mentions")
        if "url" in message:
            files[message["filename"]] = await self._people[self.user].downloads(message["url"])
        named = ["all named users"] if mentions is None else [*mentions.get("user_ids", ()), *(["all"] * ("room" in mentions))]
        text = message["body"] + message.get("formatted_body", "")
        return SeenMessage(message["id"], text, list(message.get(BUTTONS, {}).values()), files, named)

    async def kill(self) -> None:
        self._synapse.control("kill")

    async def revive(self) -> None:
        self._synapse.control("start")


class TestMatrix(PlatformSuite):
    seconds = 40.0
    quiet = 0.4

    @pytest.fixture(autouse=True)
    def _homeserver(self, synapse: Synapse) -> None:
        self._synapse = synapse

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[MatrixDesk]:
        async with AsyncExitStack() as stack:
            bot, *people = [
                await stack.enter_async_context(Person(self._synapse, name, looks=False))
                for name in ("bot", "alice", "bob", "robot")
            ]
            desk = MatrixDesk(self._synapse, bot, {one.id: one for one in people})
            await desk.furnish()
            yield desk
