"""Rooms that the account is in: who can read them, what they are called, and how it came into them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib._dataclass import dataclass

from .server import LIMIT, MatrixRefused, MatrixServer

_log = logging.getLogger(__name__)
_REMEMBERED = 10_000
_INVITATIONS = 100
_MATTERS = {"m.room.member", "m.room.join_rules", "m.room.history_visibility", "m.room.name"}


@dataclass(frozen=True, slots=True)
class MatrixRoom:
    """A room as far as it matters. ``is_group``: others than one person can read it, or could without being invited."""

    is_group: bool = True
    title: str = ""


class MatrixRooms:
    """Asks the server for what it does not know, and forgets a room whose state changed."""

    def __init__(self, server: MatrixServer) -> None:
        self._server = server
        self._direct: dict[str, list[str]] = {}
        self._rooms: dict[str, MatrixRoom] = {}
        self._names: dict[tuple[str, str], str] = {}
        self.entered: set[str] = set()
        """Rooms that were joined and not met in a sync since."""
        self._waiting: dict[str, Iterable[Mapping[str, Any]]] = {}
        self._joins_at = 0.0

    async def start(self) -> None:
        """Learn which rooms were begun as direct chats. Raises as MatrixServer.call."""
        try:
            self.learn(await self._server.call("GET", "user", self._server.account, "account_data", "m.direct"))
        except MatrixRefused as error:
            if error.code != "M_NOT_FOUND":
                raise

    def learn(self, direct: Any) -> None:
        """Take what the account has as its direct chats: {user: [room, ...]}."""
        if isinstance(direct, Mapping):
            self._direct = {str(user): [str(one) for one in rooms] for user, rooms in direct.items() if isinstance(rooms, list)}
            self._rooms.clear()

    def changed(self, room: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Look whether these events change what is known of a room."""
        kinds = {event.get("type") for event in events if "state_key" in event}
        if kinds & _MATTERS:
            self._rooms.pop(room, None)
        if "m.room.member" in kinds:
            self._names = {key: name for key, name in self._names.items() if key[0] != room}

    async def room(self, room: str) -> MatrixRoom:
        """Return what a room is. Raises as MatrixServer.call."""
        if room not in self._rooms:
            if len(self._rooms) >= _REMEMBERED:
                self._rooms.clear()
            self._rooms[room] = await self._looked_at(room)
        return self._rooms[room]

    async def name(self, room: str, user: str) -> str:
        """Return what somebody is called in a room. Raises as MatrixServer.call."""
        if (room, user) not in self._names:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            name = (await self._state(room, "m.room.member", user)).get("displayname")
            self._names[room, user] = name[:80] if isinstance(name, str) else ""
        return self._names[room, user]

    async def invited(self, invitations: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Follow invitations: {room: what the server tells of it}. Those that its limits hold up are followed later, so that
        nobody's flood of them keeps messages back. Who may say what there is not decided here. Raises as MatrixServer.call.
        """
        self._waiting |= invitations
        while self._waiting and time.monotonic() >= self._joins_at:
            room, state = next(iter(self._waiting.items()))
            try:
                await self._server.call("POST", "join", room, body={})
            except MatrixRefused as error:
                if error.code == LIMIT:
                    self._joins_at = time.monotonic() + (error.retry_after or 5.0)
                    break
                _log.warning("the invitation to %s could not be followed: %s", room, error)
            else:
                self.entered.add(room)
                await self._note_direct(room, state)
            del self._waiting[room]
        for room in list(self._waiting)[_INVITATIONS:]:
            _log.warning("too many invitations at once: the one to %s is not followed", room)
            del self._waiting[room]

    async def _note_direct(self, room: str, state: Iterable[Mapping[str, Any]]) -> None:
        for event in state:
            inviter, content = event.get("sender"), event.get("content")
            is_ours = event.get("type") == "m.room.member" and event.get("state_key") == self._server.account
            if is_ours and isinstance(inviter, str) and isinstance(content, Mapping) and content.get("is_direct") is True:
                self._direct.setdefault(inviter, []).append(room)
                where = ("user", self._server.account, "account_data", "m.direct")
                await self._server.call("PUT", *where, body=self._direct)

    async def _looked_at(self, room: str) -> MatrixRoom:
        if not any(room in rooms for rooms in self._direct.values()):
            return MatrixRoom(True, str((await self._state(room, "m.room.name")).get("name") or "")[:200])
        state = await self._server.call("GET", "rooms", room, "state")
        found = {(event.get("type"), event.get("state_key")): event.get("content") or {} for event in state}
        memberships = [one.get("membership") for (kind, _), one in found.items() if kind == "m.room.member"]
        people = [one for one in memberships if one in ("join", "invite")]
        rule = found.get(("m.room.join_rules", ""), {}).get("join_rule", "invite")
        shown_to = found.get(("m.room.history_visibility", ""), {}).get("history_visibility")
        is_closed = rule in ("invite", "private", "knock") and shown_to != "world_readable"
        title = str(found.get(("m.room.name", ""), {}).get("name") or "")[:200]
        return MatrixRoom(len(people) > 2 or not is_closed, title)

    async def _state(self, room: str, kind: str, key: str = "") -> Mapping[str, Any]:
        try:
            found = await self._server.call("GET", "rooms", room, "state", kind, key)
        except MatrixRefused as error:
            if error.code == LIMIT:
                raise
            return {}  # there is none, or we have left
        return found if isinstance(found, Mapping) else {}
