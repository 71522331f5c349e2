"""A user who writes in encrypted rooms with matrix-nio's own client, as apps do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tests.plugins.matrix.conftest import Person

MEGOLM = "m.megolm.v1.aes-sha2"
ENCRYPTION = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": MEGOLM}}


class SecretPerson(Person):
    """A user whose rooms are encrypted. ``seen`` has decrypted events; an event that could not be decrypted stays unchanged."""

    asked_for: list[Any]
    """Key requests of other users."""

    async def __aenter__(self) -> SecretPerson:
        from nio import AsyncClient, AsyncClientConfig
        from nio.store import SqliteMemoryStore

        looks, self._looks = self._looks, False
        await super().__aenter__()
        config = AsyncClientConfig(store=SqliteMemoryStore, encryption_enabled=True, pickle_key="x")
        self.client = AsyncClient(self._url.removesuffix("/_matrix/client"), self.id, config=config)
        self.device = (await self.ask("GET", "v3/account/whoami"))["device_id"]
        self.client.restore_login(self.id, self.device, self.token)
        self.asked_for = []
        await self._do(self.client.keys_upload())
        self._tasks = [asyncio.create_task(self._look())] if looks else []
        return self

    async def __aexit__(self, *why: Any) -> None:
        await super().__aexit__(*why)
        self.client.store.database.close()
        await self.client.close()

    async def _do(self, work: Any) -> Any:
        from nio.responses import ErrorResponse

        answer = await work
        assert not isinstance(answer, ErrorResponse), answer
        return answer

    async def _look(self) -> None:
        from nio.events import RoomKeyRequest

        everything = {"room": {"timeline": {"limit": 500}}}
        while True:
            try:
                found = await self._do(self.client.sync(5_000, everything))
                for room, info in found.rooms.join.items():
                    self.seen += [event.source | {"room_id": room} for event in info.timeline.events]
                self.asked_for += [one for one in found.to_device_events if isinstance(one, RoomKeyRequest)]
                if self.client.should_query_keys:
                    with contextlib.suppress(Exception):  # it fails on devices with false data
                        await self._do(self.client.keys_query())
                if self.client.should_claim_keys:
                    await self._do(self.client.keys_claim(self.client.get_users_for_key_claiming()))
                for message in list(self.client.outgoing_to_device_messages):
                    await self._do(self.client.to_device(message))
            except (OSError, TimeoutError, AssertionError):
                await asyncio.sleep(0.1)

    async def room(self, *others: str, is_direct: bool = True, **more: Any) -> str:
        room = await super().room(*others, is_direct=is_direct, initial_state=[ENCRYPTION], **more)
        await self.knows(room)
        return room

    async def knows(self, room: str) -> None:
        """Wait until the user's client knows that the room is encrypted."""
        await self.until(lambda: room in self.client.rooms and self.client.rooms[room].encrypted)

    async def send(self, room: str, kind: str, content: Mapping[str, Any]) -> str:
        number = f"secret{next(self._numbers)}"
        if self.client.olm.users_for_key_query:
            with contextlib.suppress(Exception):  # it fails on devices with false data, and queries them once
                await self._do(self.client.keys_query())
        sent = self.client.room_send(room, kind, dict(content), tx_id=number, ignore_unverified_devices=True)
        return str((await self._do(sent)).event_id)

    async def as_stored(self, room: str) -> list[dict[str, Any]]:
        """Return the events of a room as the server stores them."""
        return list((await self.ask("GET", f"v3/rooms/{quote(room)}/messages", dir="f", limit=500))["chunk"])

    def reads(self, room: str, event: dict[str, Any]) -> dict[str, Any] | None:
        """Return the server's event decrypted, or None while its key has not arrived."""
        from nio.events import MegolmEvent

        if event["type"] != "m.room.encrypted":
            return event
        clear = self.client.olm.decrypt_event(MegolmEvent.from_dict(event), room)
        return None if clear is None else clear.source
