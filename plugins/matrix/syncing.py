"""Receiving: the events of each room, in order, with the events that a sync left out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolcrib import StoreFailed
from toolcrib.chat import Chat, Host
from toolcrib.platforms import keep_receiving

from .rooms import MatrixRooms
from .server import GONE, MatrixRefused, MatrixServer

_log = logging.getLogger(__name__)
_WAIT_MS = 30_000
_SOON_MS = 2_000
"""Milliseconds that a sync waits while the key of a message is missing."""
_LONG_PAUSE = 300.0
_AT_ONCE = 8
_PAGE = 100
_MOST = 5_000
"""Limit of events that are fetched from one room after a long absence."""
_STATE = ["m.room.member", "m.room.encryption", "m.room.name", "m.room.join_rules", "m.room.history_visibility"]
_NOTHING = {"not_types": ["*"]}
CONNECTION = (MatrixRefused, StoreFailed, OSError, TimeoutError)
"""Failures that do not depend on a message: after one, all events are requested again."""


class MatrixSync:
    """Calls ``take(room, event)`` for each event; the events of one room are taken one after another. If ``take`` raises an
    exception in CONNECTION, all events since the stored position are received again: the position advances only after all were
    taken.
    """

    def __init__(
        self,
        server: MatrixServer,
        rooms: MatrixRooms,
        host: Host,
        take: Callable[[str, Mapping[str, Any]], Awaitable[None]],
        look_again: Callable[[], Awaitable[bool]],
    ) -> None:
        self._server = server
        self._rooms = rooms
        self._host = host
        self._take = take
        self._look_again = look_again
        self._wait = _WAIT_MS
        self._place = f"since:{server.account}"
        self._slots = asyncio.Semaphore(_AT_ONCE)
        # Exclude our own messages: otherwise, each edit of an answer would end a sync that waits for events.
        timeline = {"limit": _PAGE, "lazy_load_members": True, "not_senders": [server.account]}
        state = {"lazy_load_members": True, "types": _STATE}
        room = {"ephemeral": _NOTHING, "account_data": _NOTHING, "timeline": timeline, "state": state}
        self._filter = {"presence": _NOTHING, "account_data": {"types": ["m.direct"]}, "room": room}

    async def begin(self) -> None:
        """On the very first start, store the current position: only later messages are read. Raises the exceptions in
        CONNECTION.
        """
        if await self._host.recall(self._place) is None:
            await self._host.keep(self._place, await self._once(None))

    async def run(self) -> None:
        """Receive until cancelled."""
        await keep_receiving(self._receive, "matrix", CONNECTION, self._wait_of)

    async def _receive(self) -> None:
        since = await self._host.recall(self._place)
        await self._host.keep(self._place, await self._once(since))

    def _wait_of(self, error: Exception) -> float | None:
        if isinstance(error, MatrixRefused) and error.code == GONE:
            _log.error("the homeserver no longer accepts the token of %s: create a new one", self._server.account)
            return _LONG_PAUSE
        return error.retry_after if isinstance(error, MatrixRefused) else None

    async def _once(self, since: str | None) -> str:
        """Run one sync, and return the next position. Without ``since``, at the very first start, take no messages."""
        wait = self._wait if since else 0
        client = self._server.client
        client.next_batch = since or ""  # or the client would use its own position, even if earlier events were not taken
        found = await self._server.taken(client.sync(wait, self._filter, since))
        if self._server.keys is not None:  # keys first: the messages need them
            left = found.device_key_count.signed_curve25519 or 0
            await self._server.keys.take(found.to_device_events, found.device_list.changed, left)
        for event in found.account_data_events:
            if getattr(event, "type", "") == "m.direct":
                self._rooms.learn(event.content)
        if since:
            working = [self._room(room, info, since) for room, info in found.rooms.join.items()]
            for failure in await asyncio.gather(*working, return_exceptions=True):
                if failure is not None:
                    raise failure
        invitations = {room: [_source(event) for event in one.invite_state] for room, one in found.rooms.invite.items()}
        await self._rooms.invited(invitations, self._host.follows)
        self._wait = _SOON_MS if await self._look_again() else _WAIT_MS
        return str(found.next_batch)

    async def _room(self, room: str, info: Any, since: str) -> None:
        async with self._slots:
            events = [_source(event) for event in info.timeline.events]
            self._rooms.changed(room, [*map(_source, info.state), *events])
            is_new = room in self._rooms.entered or any(self._says_of_us(event, "invite") for event in events)
            if info.timeline.limited:
                events = await self._missed(room, info.timeline.prev_batch, events, "" if is_new else since)
            for event in self._since_invited(events) if is_new else events:
                await self._take(room, event)
            self._rooms.entered.discard(room)

    async def _missed(self, room: str, start: str, events: list[Any], since: str) -> list[Any]:
        """Return the events of a room with earlier ones that a sync left out: back to ``since``, or to our invitation if that is
        "", but not many more than _MOST.
        """
        more = {"to": since} if since else {}
        while start and len(events) < _MOST and (since or not any(self._says_of_us(event, "invite") for event in events)):
            found = await self._server.call("GET", "rooms", room, "messages", **{"from": start}, dir="b", limit=_PAGE, **more)
            if not found.get("chunk"):
                return events
            events = [*reversed(found["chunk"]), *events]
            start = found.get("end", "")
        if len(events) >= _MOST:
            _log.warning(
                "in %s more than %s messages arrived while the bot was away; the oldest are skipped", Chat(room), f"{_MOST:,}"
            )
        return events

    def _since_invited(self, events: list[Any]) -> list[Any]:
        """Return the events after our last invitation to a room, else after our last joining, else all."""
        for membership in ("invite", "join"):
            found = [number for number, event in enumerate(events) if self._says_of_us(event, membership)]
            if found:
                return events[found[-1] + 1 :]
        return events

    def _says_of_us(self, event: Mapping[str, Any], membership: str) -> bool:
        if event.get("type") != "m.room.member" or event.get("state_key") != self._server.account:
            return False
        content, before = event.get("content") or {}, (event.get("unsigned") or {}).get("prev_content") or {}
        return bool(content.get("membership") == membership != before.get("membership"))


def _source(event: Any) -> Mapping[str, Any]:
    """Return an event as the server sent it, with the content that the library moves out of some."""
    source: Mapping[str, Any] = event.source
    return source if "content" in source else {**source, "content": getattr(event, "content", {})}
