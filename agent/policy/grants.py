"""The grants of one session: the local user's permanent ones, and those in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.policy.allowlist import PermanentGrants
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.store import Grant, GrantStore


@dataclass(frozen=True, slots=True)
class SessionGrants:
    """A GrantStore over ``kept``, a session's fenced view, and ``lasting``, the local user's grants in the configuration.

    Permanent grants of other principals are in the store. They never cover the local user's calls, and the local user's grants
    never cover calls of other principals.
    """

    lasting: PermanentGrants
    kept: GrantStore

    async def add(self, grant: Grant) -> None:
        """Store a grant. Raises ConfigError if a permanent grant can't be written; then it is not given."""
        is_local = grant.scope == "always" and not grant.principal
        await (self.lasting if is_local else self.kept).add(grant)

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Return the grants. Raises ConfigError if another process's change can't be read."""
        own = self.lasting.permanent() if session_id is None or not principal else ()
        return [*own, *await self.kept.all(session_id, principal)]

    async def spend(self, grant_id: str) -> bool:
        return await self.kept.spend(grant_id)

    async def revoke(self, grant_id: str) -> bool:
        return await self.kept.revoke(grant_id) or await self.lasting.revoke(grant_id)


if TYPE_CHECKING:

    def _conforms(grants: SessionGrants) -> GrantStore:
        return grants
