"""The Matrix platform passes the suite for chat platforms in encrypted rooms too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.plugins.matrix.conftest import Person, Synapse, folded
from tests.plugins.matrix.secrecy import ENCRYPTION, SecretPerson
from tests.plugins.matrix.test_matrix_suite import MatrixDesk
from toolcrib.chat import Chat
from toolcrib.testing import PlatformSuite, SeenMessage

pytestmark = pytest.mark.untraced  # other tests cover the same lines


class SecretDesk(MatrixDesk):
    """A desk whose rooms are encrypted. The bot is the only member that does not know of the encryption at first."""

    _people: Mapping[str, SecretPerson]

    async def _room(self, host: Person, *guests: Person, is_direct: bool) -> str:
        room = await super()._room(host, *guests, is_direct=is_direct)
        await host.ask("PUT", f"v3/rooms/{room}/state/m.room.encryption", ENCRYPTION["content"])
        for one in (host, *guests):
            if isinstance(one, SecretPerson):
                await one.knows(room)
        return room

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        from nio.crypto import encrypt_attachment

        noise, lock = encrypt_attachment(data)
        url = await self._people[user].uploads("x", noise, "application/octet-stream")
        file = {"file": {"url": url, **lock}, "info": {"size": len(data)}}
        return await self._people[user].says(chat.id, name, msgtype="m.file", filename=name, **file)

    async def _messages(self, chat: Chat) -> list[dict[str, Any]]:
        """Return the messages as one user reads them, after waiting for their keys."""
        person, found = self._people[self.user], list[dict[str, Any]]()
        for event in await person.as_stored(chat.id):
            async with asyncio.timeout(60):
                while (clear := person.reads(chat.id, event)) is None:
                    await asyncio.sleep(0.02)
            found.append(clear)
        return folded(found)

    async def _seen(self, message: Mapping[str, Any]) -> SeenMessage:
        from nio.crypto import decrypt_attachment

        seen = await super()._seen(message)
        if "file" in message:
            lock = message["file"]
            noise = await self._people[self.user].downloads(lock["url"])
            clear = decrypt_attachment(noise, lock["key"]["k"], lock["hashes"]["sha256"], lock["iv"])
            seen = SeenMessage(seen.id, seen.text, seen.buttons, {message["filename"]: clear}, seen.pings)
        return seen


class TestEncryptedMatrix(PlatformSuite):
    seconds = 40.0
    quiet = 0.4

    @pytest.fixture(autouse=True)
    def _homeserver(self, synapse: Synapse) -> None:
        self._synapse = synapse

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[SecretDesk]:
        async with AsyncExitStack() as stack:
            bot = await stack.enter_async_context(Person(self._synapse, "bot", looks=False))
            people = [await stack.enter_async_context(SecretPerson(self._synapse, name)) for name in ("alice", "bob", "robot")]
            desk = SecretDesk(self._synapse, bot, {one.id: one for one in people})
            await desk.furnish()
            yield desk
