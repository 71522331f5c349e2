"""The grants of one session: the local person's lasting ones, and what the store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.policy.allowlist import PermanentGrants
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.store import Grant, GrantStore


@dataclass(frozen=True, slots=True)
class SessionGrants:
    """A GrantStore over ``kept``, a session's fenced view, with ``lasting``: the local person's, from the configuration.

    A lasting grant of any other principal is kept in the store, and never covers the local person's calls, nor theirs its own.
    """

    lasting: PermanentGrants
    kept: GrantStore

    async def add(self, grant: Grant) -> None:
        """Raises ConfigError where a lasting grant can't be written: then it is not given."""
        is_local = grant.scope == "always" and not grant.principal
        await (self.lasting if is_local else self.kept).add(grant)

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Raises ConfigError where what another process changed can't be read."""
        own = self.lasting.permanent() if session_id is None or not principal else ()
        return [*own, *await self.kept.all(session_id, principal)]

    async def spend(self, grant_id: str) -> bool:
        return await self.kept.spend(grant_id)

    async def revoke(self, grant_id: str) -> bool:
        return await self.kept.revoke(grant_id) or await self.lasting.revoke(grant_id)


if TYPE_CHECKING:

    def _conforms(grants: SessionGrants) -> GrantStore:
        return grants
