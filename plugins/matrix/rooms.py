"""Rooms of the account: their members, names and encryption, and invitations to them."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from toolcrib.chat import Chat
from toolcrib.contract.dataclass import dataclass
from toolcrib.platforms import Recent

from .server import LIMIT, MatrixRefused, MatrixServer

_log = logging.getLogger(__name__)
_REMEMBERED = 10_000
_INVITATIONS = 100
_MATTERS = {"m.room.member", "m.room.join_rules", "m.room.history_visibility", "m.room.name"}


@dataclass(frozen=True, slots=True)
class MatrixRoom:
    """Facts about a room. ``is_group`` is False only for a room that the account lists as direct, that has at most one other
    member or invitee, and that other users can't read or join without an invitation.
    """

    is_group: bool = True
    title: str = ""


class MatrixRooms:
    """Cache of rooms: asks the server for unknown facts, and forgets a room whose state changed."""

    def __init__(self, server: MatrixServer) -> None:
        self._server = server
        self._direct: dict[str, list[str]] = {}
        self._rooms: Recent[str, MatrixRoom] = Recent(_REMEMBERED)
        self._names: Recent[tuple[str, str], str] = Recent(_REMEMBERED)
        self._encryption: Recent[str, Mapping[str, Any]] = Recent(_REMEMBERED)
        self._people: Recent[str, frozenset[str]] = Recent(_REMEMBERED)
        self.entered: set[str] = set()
        """Rooms that we joined, until a sync contains them."""
        self._waiting: dict[str, str] = {}
        """Rooms to join, each with its inviter if it is a direct chat, else with ""."""
        self._joins_at = 0.0

    async def start(self) -> None:
        """Load the account's list of direct chats. Raises as MatrixServer.call does."""
        try:
            self.learn(await self._server.call("GET", "user", self._server.account, "account_data", "m.direct"))
        except MatrixRefused as error:
            if error.code != "M_NOT_FOUND":
                raise

    def learn(self, direct: Any) -> None:
        """Take the account's direct chats: {user: [room, ...]}."""
        if isinstance(direct, Mapping):
            self._direct = {str(user): [str(one) for one in rooms] for user, rooms in direct.items() if isinstance(rooms, list)}
            self._rooms.clear()

    def changed(self, room: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Forget cached facts of a room that these events change."""
        kinds = {event.get("type") for event in events if "state_key" in event}
        if kinds & _MATTERS:
            self._rooms.pop(room, None)
        if "m.room.encryption" in kinds:
            self._encryption.pop(room, None)
        if "m.room.member" in kinds:
            self._people.pop(room, None)
            for key in [key for key in self._names if key[0] == room]:
                del self._names[key]

    async def room(self, room: str) -> MatrixRoom:
        """Return the facts about a room. Raises as MatrixServer.call does."""
        if room not in self._rooms:
            self._rooms[room] = await self._looked_at(room)
        return self._rooms[room]

    async def encryption(self, room: str) -> Mapping[str, Any] | None:
        """Return the rules of a room's encryption, {} if only its encryption is known, or None if it is not encrypted. Raises as
        MatrixServer.call does.
        """
        if room not in self._encryption:
            try:
                self._encryption[room] = await self._server.call("GET", "rooms", room, "state", "m.room.encryption", "")
            except MatrixRefused as error:
                if error.code != "M_NOT_FOUND":
                    raise  # sending nothing is better than sending unencrypted text
                self._encryption[room] = {}
        found, keys = self._encryption[room], self._server.keys
        if found and keys is not None:
            keys.note_room(room)
        return found if found or (keys is not None and room in keys.rooms) else None

    async def people(self, room: str) -> frozenset[str]:
        """Return the members of a room. Raises as MatrixServer.call does."""
        if room not in self._people:
            self._people[room] = frozenset((await self._server.call("GET", "rooms", room, "joined_members"))["joined"])
        return self._people[room]

    async def name(self, room: str, user: str) -> str:
        """Return a user's display name in a room, or "" for none. Raises as MatrixServer.call does."""
        if (room, user) not in self._names:
            name = (await self._state(room, "m.room.member", user)).get("displayname")
            self._names[room, user] = name[:80] if isinstance(name, str) else ""
        return self._names[room, user]

    async def invited(
        self, invitations: Mapping[str, Iterable[Mapping[str, Any]]], follows: Callable[[Chat, str], Awaitable[bool]]
    ) -> None:
        """Accept the invitations that ``follows`` allows. ``invitations`` is {room: its state as the server reports it}. All
        other invitations are ignored, because declining could take long if the inviter's server is slow. Joins that exceed our
        server's rate limit are retried later, so that a flood of invitations does not block messages. Raises StoreFailed and the
        errors of MatrixServer.call.
        """
        for room, state in invitations.items():
            inviter, is_direct = self._invitation(state)
            if inviter and await follows(Chat(room, is_group=not is_direct), inviter):
                self._waiting[room] = inviter if is_direct else ""
        while self._waiting and time.monotonic() >= self._joins_at:
            room, inviter = next(iter(self._waiting.items()))
            try:
                await self._server.call("POST", "join", room, body={})
            except MatrixRefused as error:
                if error.code == LIMIT:
                    self._joins_at = time.monotonic() + (error.retry_after or 5.0)
                    break
                _log.warning("the invitation to %s could not be accepted: %s", Chat(room), error)
            else:
                self.entered.add(room)
                if inviter:
                    await self._note_direct(room, inviter)
            del self._waiting[room]
        for room in list(self._waiting)[_INVITATIONS:]:
            _log.warning("too many invitations at once: the one to %s is ignored", Chat(room))
            del self._waiting[room]

    def _invitation(self, state: Iterable[Mapping[str, Any]]) -> tuple[str, bool]:
        """Return the inviter, and whether the invitation is to a direct chat. The inviter is "" if the state is ambiguous: the
        inviter's server can add anything to it.
        """
        ours = [
            event for event in state if event.get("type") == "m.room.member" and event.get("state_key") == self._server.account
        ]
        contents = [event.get("content") for event in ours]
        inviter = ours[0].get("sender") if len(ours) == 1 else None
        is_direct = any(isinstance(one, Mapping) and one.get("is_direct") is True for one in contents)
        return (inviter if isinstance(inviter, str) else ""), is_direct

    async def _note_direct(self, room: str, inviter: str) -> None:
        self._direct.setdefault(inviter, []).append(room)
        await self._server.call("PUT", "user", self._server.account, "account_data", "m.direct", body=self._direct)

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
            return {}  # the state does not exist, or we have left the room
        return found if isinstance(found, Mapping) else {}
