"""Pairing: a user sends the bot a code that the operator's terminal shows, and is admitted."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import AuditEntry, Store
from toolcrib.contract.types import Json

SECONDS = 600.0
TRIES = 5
"""Number of wrong codes, from all users together, after which a code is void."""
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_LENGTH = 8
_CODE, _PEOPLE = "pairing", "paired"


@dataclass(frozen=True, slots=True)
class Paired:
    """A user who paired: the platform's user id, the role ("" for none), and the time in Unix seconds."""

    user: str
    role: str
    at: float


class Pairings:
    """Codes and paired users of one platform, in the store: any process can create a code, and the gateway accepts it."""

    def __init__(self, store: Store, platform: str) -> None:
        self._state = store.state
        self._audit = store.audit
        self._platform = platform
        self._owner = f"gateway:{platform}"

    async def offer(self, role: str = "") -> str:
        """Create a code that is valid once, for ten minutes, and replaces an earlier one. Raises StoreFailed."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        kept: Json = {"digest": _digest(code), "until": time.time() + SECONDS, "tries": TRIES, "role": role}
        await self._state.write([StateWrite("profile", self._owner, _CODE, kept)])
        return code

    async def is_open(self) -> bool:
        """Return whether a code is open."""
        return await self._offered() is not None

    async def is_code(self, said: str) -> bool:
        """Return whether a text has the form of a pairing code while a code is open."""
        return bool(_code_in(said)) and await self.is_open()

    async def take(self, said: str, user: str) -> Paired | None:
        """Pair a user whose text is the open code, and return the user as paired, else None. A wrong code counts as a try."""
        if not (word := _code_in(said)):
            return None
        while (offered := await self._offered()) is not None:
            kept, version = offered
            right = hmac.compare_digest(kept["digest"], _digest(word))
            left = None if right or kept["tries"] <= 1 else {**kept, "tries": kept["tries"] - 1}
            if await self._state.write([StateWrite("profile", self._owner, _CODE, left, version)]):
                return await self._let_in(user, kept["role"]) if right else None
        return None

    async def void(self, said: str) -> bool:
        """Void the open code if ``said`` is that code, because others have read it. Return whether it was."""
        if not (word := _code_in(said)):
            return False
        while (offered := await self._offered()) is not None and hmac.compare_digest(offered[0]["digest"], _digest(word)):
            if await self._state.write([StateWrite("profile", self._owner, _CODE, None, offered[1])]):
                await self._note("code void: said in a group")
                return True
        return False

    async def people(self) -> list[Paired]:
        """Return the users who paired, in the order of their first pairing."""
        found, _ = await self._people()
        return [Paired(user, role, at) for user, (role, at) in found.items()]

    async def role_of(self, user: str) -> str | None:
        """Return the role of a paired user, "" for none; None for a user who did not pair."""
        found, _ = await self._people()
        return found[user][0] if user in found else None

    async def remove(self, user: str) -> bool:
        """Unpair a user. Return False if the user was not paired."""
        while True:
            found, version = await self._people()
            if user not in found:
                return False
            rest: Json = {name: list(one) for name, one in found.items() if name != user}
            if await self._state.write([StateWrite("profile", self._owner, _PEOPLE, rest, version)]):
                await self._note("unpaired", user=user)
                return True

    async def _let_in(self, user: str, role: str) -> Paired:
        one = Paired(user, role, time.time())
        while True:
            found, version = await self._people()
            more: Json = {**{name: list(known) for name, known in found.items()}, user: [role, one.at]}
            if await self._state.write([StateWrite("profile", self._owner, _PEOPLE, more, version)]):
                await self._note("paired", user=user, role=role)
                return one

    async def _note(self, decision: str, **detail: Json) -> None:
        about = {"platform": self._platform, **detail}
        await self._audit.record(AuditEntry(time.time(), "", "", "gateway", decision, "gateway", about))

    async def _offered(self) -> tuple[dict[str, Json], int] | None:
        found = (await self._state.of("profile", self._owner)).get(_CODE)
        if found is None or not isinstance(found.value, dict):
            return None
        if not 0 <= found.value["until"] - time.time() <= SECONDS:  # more than SECONDS: the clock was set back
            return None
        return found.value, found.version

    async def _people(self) -> tuple[dict[str, tuple[str, float]], int]:
        found = (await self._state.of("profile", self._owner)).get(_PEOPLE)
        if found is None or found.value is None:
            return {}, 0 if found is None else found.version
        return {user: (role, at) for user, (role, at) in found.value.items()}, found.version


def _code_in(said: str) -> str:
    """Return the code if a text has the form of one, "" otherwise."""
    word = said.strip().upper().replace("-", "")
    return "" if len(word) != _LENGTH or set(word) - set(_LETTERS) else word


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
