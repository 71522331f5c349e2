"""Admission to the gateway: the users who may write, and their roles. By default no user may."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from agent.config import PlatformConfig
from agent.desk.approvals import OWNER
from agent.gateway.pairing import Pairings
from toolcrib.contract.chat import Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.store import AuditEntry, Store
from tools.dispatch.bridge import run_async

_log = logging.getLogger(__name__)
ANYBODY = "*"
_ROLE = "role:"
ROOM = "room:"
"""Prefix of the name that a group has as a principal."""
_TOLD_AGAIN = 86_400.0
_REMEMBERED = 10_000
"""Maximum number of strangers that are counted, so that a flood of them does not use up memory."""
Refusal: TypeAlias = Literal["stranger", "group"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted user, with the roles that the user has here."""

    user: str
    roles: tuple[str, ...] = ()
    locked: str = ""
    """The platform's reason why this user may not decide anything now; "" if they may."""
    reported: tuple[str, ...] = field(default=(), compare=False)
    """The roles that the platform reported."""

    @property
    def is_owner(self) -> bool:
        """Return whether the user owns the gateway."""
        return OWNER in self.roles

    def principal(self, platform: str) -> Principal:
        """Return the user's principal on a platform."""
        return Principal(platform, self.user, self.roles)


class Admission:
    """Admits users of one platform. Everything that arrives from the platform passes through ``admit``."""

    def __init__(self, platform: str, config: PlatformConfig, pairings: Pairings, store: Store) -> None:
        self._platform = platform
        self.config = config
        self._pairings = pairings
        self._store = store
        self._refused: Counter[str] = Counter()
        self._told: dict[str, float] = {}

    async def admit(self, chat: Chat, user: str, roles: Sequence[str], locked: str = "") -> Admitted | Refusal:
        """Return the user with their roles, or why they are refused. ``locked``: see Inbound. Raises StoreFailed."""
        if is_nobodys(user):
            return "stranger"
        names = {user, *(f"{_ROLE}{role}" for role in roles)}
        paired = await self._pairings.role_of(user)
        has = {role for role, people in self.config.roles.items() if _among(names, people)} | ({paired} if paired else set())
        has.discard("")
        if not (has or paired is not None or _among(names, self.config.allowed_users)):
            return "stranger"
        if not self.admits_chat(chat):
            return "group"
        return Admitted(user, tuple(sorted(has)), locked, tuple(roles))

    def admits_chat(self, chat: Chat) -> bool:
        """Return whether users may write in this chat: in each direct one, and in a group that is allowed."""
        return not chat.is_group or _among({chat.id}, self.config.allowed_chats)

    async def lets_anybody_in(self) -> bool:
        """Return whether any user may write here, or a pairing code is open that would admit one. Raises StoreFailed."""
        people = (*self.config.allowed_users, *(one for people in self.config.roles.values() for one in people))
        return any(people) or bool(await self._pairings.people()) or await self._pairings.is_open()

    async def with_roles(self) -> set[str]:
        """Return the users who have a role here by their id, or by pairing. Raises StoreFailed."""
        named = {one for people in self.config.roles.values() for one in people if one != ANYBODY and not one.startswith(_ROLE)}
        return named | {one.user for one in await self._pairings.people() if one.role}

    async def refuse(self, chat: Chat, user: str, why: Refusal) -> bool:
        """Record a refusal, and return whether to inform the stranger.

        Only some repeated refusals are recorded, and a stranger is informed at most once a day.
        """
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


def roles_of(platform: str, config: PlatformConfig, store: Store, user: str) -> set[str]:
    """Return the roles that a user has by configuration or pairing. A group has no pairing. Blocks: use it in a terminal only.

    Roles that the platform reports are unknown here, and so are pairings in a store that can't be read.
    """
    found = {role for role, people in config.roles.items() if _among({user}, people)}
    if not user or user.startswith(ROOM):
        return found
    try:
        return found | {run_async(Pairings(store, platform).role_of(user)) or ""} - {""}
    except StoreFailed as error:
        _log.info("whether %s paired on %s is unknown: %s", user, platform, error)
        return found


def is_nobodys(user: str) -> bool:
    """Return whether an id could match more than one user."""
    return not user or user == ANYBODY or user.startswith((_ROLE, ROOM))


def _among(names: Collection[str], people: Collection[str]) -> bool:
    return ANYBODY in people or any(name in people for name in names)
