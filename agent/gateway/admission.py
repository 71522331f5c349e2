"""Who may speak to the gateway, and with which roles. Nobody by default."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from agent.config import PlatformConfig
from agent.desk.approvals import OWNER
from agent.gateway.pairing import Pairings
from toolcrib.contract.chat import Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.store import AuditEntry, Store

ANYBODY = "*"
_ROLE = "role:"
ROOM = "room:"
"""Beginning of the name that a group has as a principal."""
_TOLD_AGAIN = 86_400.0
_REMEMBERED = 10_000
"""Strangers that are counted, so that a flood of them costs no memory."""
Refusal: TypeAlias = Literal["stranger", "group"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """Somebody who may speak, with the roles that they have here."""

    user: str
    roles: tuple[str, ...] = ()
    locked: str = ""
    """Why this user decides nothing now, as the platform says; "" if they may."""

    @property
    def is_owner(self) -> bool:
        """Return True for whom the gateway belongs to."""
        return OWNER in self.roles

    def principal(self, platform: str) -> Principal:
        """Return the principal that this user is on a platform."""
        return Principal(platform, self.user, self.roles)


class Admission:
    """For one platform. Everything that comes from it passes ``admit``, whichever way it comes."""

    def __init__(self, platform: str, config: PlatformConfig, pairings: Pairings, store: Store) -> None:
        self._platform = platform
        self.config = config
        self._pairings = pairings
        self._store = store
        self._refused: Counter[str] = Counter()
        self._told: dict[str, float] = {}

    async def admit(self, chat: Chat, user: str, roles: Sequence[str], locked: str = "") -> Admitted | Refusal:
        """Return the user and their roles, or why they are refused. ``locked``: see Inbound. Raises StoreFailed."""
        if is_nobodys(user):
            return "stranger"
        names = {user, *(f"{_ROLE}{role}" for role in roles)}
        paired = await self._pairings.role_of(user)
        has = {role for role, people in self.config.roles.items() if _among(names, people)} | ({paired} if paired else set())
        has.discard("")
        if not (has or paired is not None or _among(names, self.config.allowed_users)):
            return "stranger"
        if chat.is_group and not _among({chat.id}, self.config.allowed_chats):
            return "group"
        return Admitted(user, tuple(sorted(has)), locked)

    async def lets_anybody_in(self) -> bool:
        """Return whether somebody may speak here, or can once they say the code that waits for them. Raises StoreFailed."""
        people = (*self.config.allowed_users, *(one for people in self.config.roles.values() for one in people))
        return any(people) or bool(await self._pairings.people()) or await self._pairings.is_open()

    async def with_roles(self) -> set[str]:
        """Return the users who have a role here by their id, or by pairing. Raises StoreFailed."""
        named = {one for people in self.config.roles.values() for one in people if one != ANYBODY and not one.startswith(_ROLE)}
        return named | {one.user for one in await self._pairings.people() if one.role}

    async def refuse(self, chat: Chat, user: str, why: Refusal) -> bool:
        """Note a refusal, at growing distances, and return whether the stranger is to be told so, once a day."""
        if len(self._refused) >= _REMEMBERED:
            self._refused.clear()
            self._told.clear()
        self._refused[user] += 1
        count = self._refused[user]
        if count in (1, 10, 100) or count % 1_000 == 0:
            detail = {"platform": self._platform, "chat": chat.id, "user": user, "times": count}
            await self._store.audit.record(AuditEntry(time.time(), "", "", "gateway", f"refused: {why}", "gateway", detail))
        if self.config.strangers != "told" or chat.is_group:
            return False
        now = time.time()
        if now - self._told.get(user, 0.0) < _TOLD_AGAIN:
            return False
        self._told[user] = now
        return True


def is_nobodys(user: str) -> bool:
    """Return whether an id could pass for more than one person."""
    return not user or user == ANYBODY or user.startswith((_ROLE, ROOM))


def _among(names: Collection[str], people: Collection[str]) -> bool:
    return ANYBODY in people or any(name in people for name in names)
