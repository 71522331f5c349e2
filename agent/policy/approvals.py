"""Lists, narrows and revokes grants for users, and lists the history of decisions."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from typing import TypeVar

from agent.policy.allowlist import PermanentGrants
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import NotFound, ToolcribError
from toolcrib.contract.store import AuditEntry, Grant, Store
from tools.judge.folders import under

T = TypeVar("T")


class Approvals:
    """The grants and decisions of one store. ``grants`` also has the permanent ones."""

    def __init__(self, store: Store, grants: PermanentGrants) -> None:
        self._store = store
        self._grants = grants

    # -- grants --------------------------------------------------------------------------------------------------

    async def grants(self, session_id: str | None = None) -> list[Grant]:
        """Return the grants that still count: permanent ones, and those of one session or of all."""
        now = time.time()
        return [grant for grant in await self._grants.all(session_id) if _counts(grant, now)]

    async def grant(self, prefix: str) -> Grant:
        """Return the grant whose id starts with ``prefix``. Raises ToolcribError for none or several."""
        found = [grant for grant in await self.grants() if prefix and grant.id.startswith(prefix)]
        return _only(found, prefix, [grant.id[:8] for grant in found])

    async def revoke(self, prefix: str) -> Grant:
        """Revoke a grant and return it: from the next call on it does not count in any process.

        Raises what ``grant`` raises, and ToolcribError if it was just revoked.
        """
        grant = await self.grant(prefix)
        if not await self._grants.revoke(grant.id):
            raise ToolcribError(f"the grant {grant.id[:8]} was just revoked")
        return grant

    async def narrow(self, prefix: str, root: str) -> Grant:
        """Bind a grant to a folder or file below its folder, and return it.

        Raises what ``grant`` raises, and ToolcribError if ``root`` is not below that folder, or if the grant is permanent.
        """
        grant = await self.grant(prefix)
        if grant.scope == "always":
            raise ToolcribError(
                f"the grant {grant.id[:8]} covers one command in one folder and can't be narrowed; revoke it instead"
            )
        root = posixpath.normpath(posixpath.join(grant.root, root))
        if root == grant.root or not under(root, grant.root):
            raise ToolcribError(f"{root} is not below {grant.root}, the folder of the grant {grant.id[:8]}")
        narrower = replace(grant, root=root)
        if not await self._grants.revoke(grant.id):  # first, because a revoked grant must not return as a narrower one
            raise ToolcribError(f"the grant {grant.id[:8]} was just revoked")
        await self._grants.add(narrower)
        return narrower

    # -- decisions -----------------------------------------------------------------------------------------------

    async def history(self, session_id: str | None = None, limit: int | None = None) -> Sequence[AuditEntry]:
        """Return the last ``limit`` decisions, oldest first."""
        entries = await self._store.audit.entries(session_id)
        return entries if limit is None else entries[-limit:]


def _counts(grant: Grant, now: float) -> bool:
    return not (grant.scope == "uses" and not grant.uses_left) and not (grant.until is not None and grant.until <= now)


def _only(found: Sequence[Grant], prefix: str, names: Sequence[str]) -> Grant:
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"no grant begins with {prefix!r}. List grants: toolcrib approvals")
    raise ToolcribError(f"{len(found)} grants begin with {prefix!r} ({', '.join(names)}); use a longer id")
