"""Messages that wait for their keys. They are taken when the keys arrive; late keys are requested, and reported to the room,
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.chat import Host

_PLACE = "unread"
_MOST = 200
_GRACE = 5.0
"""Seconds to wait for a key after its message arrived. Then the key is requested."""


class MatrixWaiting:
    """The waiting messages, stored across restarts: each with its room, its session, and whether its key was requested."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._waiting: dict[str, dict[str, Any]] = {}
        self._since: dict[str, float] = {}

    async def load(self) -> set[str]:
        """Load the messages that an earlier process stored, and return their sessions. The caller tries to read them
        all, because that process may have ended right after their keys arrived.
        """
        found = await self._host.recall(_PLACE)
        self._waiting = {str(event): dict(one) for event, one in found.items()} if isinstance(found, dict) else {}
        return {one["session"] for one in self._waiting.values()}

    async def add(self, room: str, event: Mapping[str, Any]) -> None:
        """Record that an event waits for its key. Raises StoreFailed."""
        session = event["content"].get("session_id")
        if event["event_id"] not in self._waiting and isinstance(session, str):
            is_told = any(one["session"] == session and one["is_told"] for one in self._waiting.values())
            self._waiting[event["event_id"]] = {"room": room, "session": session, "is_told": is_told}
            if len(self._waiting) > _MOST:
                del self._waiting[next(iter(self._waiting))]
            await self._keep()

    async def done(self, event_id: str) -> None:
        """Forget an event. Raises StoreFailed."""
        if self._waiting.pop(event_id, None) is not None:
            self._since.pop(event_id, None)
            await self._keep()

    async def mark_asked(self, session: str) -> None:
        """Record that the key of a session was requested. Raises StoreFailed."""
        for one in self._waiting.values():
            one["is_told"] |= one["session"] == session
        await self._keep()

    def readable(self, came: Callable[[str], bool]) -> list[tuple[str, str]]:
        """Return (room, event) of messages whose keys arrived: ``came`` returns True for their session."""
        return [(one["room"], event) for event, one in self._waiting.items() if came(one["session"])]

    def overdue(self) -> list[tuple[str, str, str]]:
        """Return (room, event, session) of one message for each session whose key must be requested now."""
        now, found = time.monotonic(), dict[str, tuple[str, str, str]]()
        for event, one in self._waiting.items():
            if not one["is_told"] and now - self._since.setdefault(event, now) >= _GRACE:
                found.setdefault(one["session"], (one["room"], event, one["session"]))
        return list(found.values())

    @property
    def is_pressing(self) -> bool:
        """True if the key of a waiting message was not requested yet, so that it may soon be overdue."""
        return any(not one["is_told"] for one in self._waiting.values())

    async def _keep(self) -> None:
        await self._host.keep(_PLACE, self._waiting)
