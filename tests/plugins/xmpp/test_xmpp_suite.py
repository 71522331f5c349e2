"""The XMPP platform passes the suite for chat platforms, on a real Prosody."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from plugins.xmpp.platform import XmppPlatform
from tests.infra.served import NO_TLS
from tests.plugins.xmpp.conftest import Person, Prosody, Said, folded
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage


class XmppDesk(PlatformDesk):
    """A direct chat and a room of three users. The server's archives show what users see."""

    factory = XmppPlatform
    gone = Chat("nobody@localhost")

    def __init__(self, server: Prosody, people: Sequence[Person]) -> None:
        self.bot = server.register("bot")
        name = self.bot.partition("@")[0]
        self.secrets = {"XMPP_PASSWORD": f"{name}pw"}
        self._server = server
        self._people = {one.id: one for one in people}
        self.user, self.other = self._people
        self.direct = Chat(self.bot)

    async def furnish(self) -> None:
        user, other = self._people.values()
        room = await user.room(other)
        self.settings = self._server.settings(self.bot, rooms=room)
        self.direct = Chat(self.user)
        self.group = Chat(room, is_group=True)

    def _to(self, chat: Chat) -> str:
        return chat.id if chat.is_group else self.bot

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        person = self._people[user]
        if reply_to:
            known = {one.id: one.known_as for one in await self._said(chat)}
            ours = await person.answers(self._to(chat), known.get(reply_to, reply_to), text)
        else:
            ours = await person.says(self._to(chat), f"{self.bot.partition('@')[0]}: {text}" if is_addressed else text)
        return await self._known(chat, person, ours)

    async def _known(self, chat: Chat, person: Person, ours: str) -> str:
        """Return a message's id in the room's or the bot's own archive. The user's archive has another id."""
        if chat.is_group:
            archive = await self._archive(chat, person)
            return next(known for known, one in archive if one.get("id") == ours)
        folder = self._server.certificate.rpartition("/")[0]
        listed = Path(folder, "data", "localhost", "archive", f"{self.bot.partition('@')[0]}.list").read_text()
        for item in listed.split("item({")[1:]:
            if f'"{ours}"' in item:
                found = re.findall(r'\["key"\] = "([^"]+)"', item)
                return found[0]
        raise AssertionError(f"{ours} is not in the archive")

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        person = self._people[user]
        return await self._known(chat, person, await person.gives(self._to(chat), name, data))

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        person = self._people[user]
        for number in range(1, 99):
            if await self._is(chat, person, f"{person.name}-{number}", message_id):
                await person.corrects(self._to(chat), f"{person.name}-{number}", text)
                return

    async def _is(self, chat: Chat, person: Person, ours: str, known: str) -> bool:
        try:
            return await self._known(chat, person, ours) == known
        except AssertionError:
            return False

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> None:
        """React to the message. The line for the user who pressed arrives as a message."""
        [shown] = [one for one in await self._said(chat) if one.id == message_id]
        await self._people[user].reacts(self._to(chat), shown.known_as, {"y": "👍", "n": "👎"}[choice])

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        return [await self._seen(one) for one in await self._said(chat)]

    async def _said(self, chat: Chat) -> list[Said]:
        person = self._people[self.user]
        stanzas = [stanza for _, stanza in await self._archive(chat, person)]
        return folded(stanzas, f"{chat.id}/{self.bot.partition('@')[0]}" if chat.is_group else self.bot)

    async def _archive(self, chat: Chat, person: Person) -> list[tuple[str, Any]]:
        """Return (id, message) for all messages in the room's archive, or in the user's."""
        where = {"jid": chat.id} if chat.is_group else {}
        answer = await person.client.plugin["xep_0313"].retrieve(rsm={"max": 500}, timeout=20, **where)
        found = []
        for one in answer["mam"]["results"]:
            result = one.xml.find("{urn:xmpp:mam:2}result")
            message = result.find("{urn:xmpp:forward:0}forwarded/{jabber:client}message")
            if chat.is_group and message.find("{urn:xmpp:sid:0}stanza-id") is None:
                message.append(_sid(result.get("id"), chat.id))
            found.append((result.get("id"), message))
        return found

    async def _seen(self, said: Said) -> SeenMessage:
        files = {}
        if said.url:
            async with httpx.AsyncClient(verify=NO_TLS) as http:
                files[said.url.rpartition("/")[2]] = (await http.get(said.url)).content
        people = [one.name for one in self._people.values()]
        pings = [name for name in people if name in said.text.replace("\u2060", "") and name in said.text.split()]
        choices = [{"👍": "y", "👎": "n"}[one] for one in said.reactions]
        return SeenMessage(said.id, said.text, choices, files, pings)

    async def kill(self) -> None:
        self._server.control("kill")

    async def revive(self) -> None:
        self._server.control("start")
        for one in self._people.values():
            await one.leave()
            await one.enter()


def _sid(known: str, by: str) -> Any:
    from xml.etree.ElementTree import Element

    return Element("{urn:xmpp:sid:0}stanza-id", id=known, by=by)


class TestXmpp(PlatformSuite):
    @pytest.fixture(autouse=True)
    def _prosody(self, prosody: Prosody) -> None:
        self._server = prosody

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[XmppDesk]:
        async with AsyncExitStack() as stack:
            people = [await stack.enter_async_context(Person(self._server, name)) for name in ("alice", "bob")]
            desk = XmppDesk(self._server, people)
            await desk.furnish()
            yield desk
