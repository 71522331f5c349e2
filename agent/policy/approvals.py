"""Approvals for people: list grants and pending tickets, narrow or revoke grants, answer tickets later."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from typing import TypeVar

from agent.conversation.answers import record_answer
from agent.policy.allowlist import PermanentGrants
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import Denied, NotFound, ToolcribError
from toolcrib.contract.store import AuditEntry, Grant, Store, TicketRecord
from toolcrib.contract.types import Answer
from tools.judge.folders import under

T = TypeVar("T")


class Approvals:
    """Over one store. ``grants`` also knows the permanent ones."""

    def __init__(self, store: Store, grants: PermanentGrants) -> None:
        self._store = store
        self._grants = grants

    # -- grants --------------------------------------------------------------------------------------------------

    async def grants(self, session_id: str | None = None) -> list[Grant]:
        """Return the grants that still count: permanent ones, and those of one session or of all."""
        now = time.time()
        return [grant for grant in await self._grants.all(session_id) if _counts(grant, now)]

    async def grant(self, prefix: str) -> Grant:
        """Return the grant whose id begins with ``prefix``. Raises ToolcribError for none or several."""
        found = [grant for grant in await self.grants() if prefix and grant.id.startswith(prefix)]
        return _only(found, prefix, "grant", [grant.id[:8] for grant in found])

    async def revoke(self, prefix: str) -> Grant:
        """Revoke a grant: it counts no longer, from the next call on, in every process."""
        grant = await self.grant(prefix)
        if not await self._grants.revoke(grant.id):
            raise ToolcribError(f"the grant {grant.id[:8]} was revoked meanwhile")
        return grant

    async def narrow(self, prefix: str, root: str) -> Grant:
        """Bind a grant to a folder or file below the one it has. Raises ToolcribError for anything wider."""
        grant = await self.grant(prefix)
        if grant.scope == "always":
            raise ToolcribError(
                f"the grant {grant.id[:8]} covers one command in one folder: nothing narrower can be said; revoke it instead"
            )
        root = posixpath.normpath(posixpath.join(grant.root, root))
        if root == grant.root or not under(root, grant.root):
            raise ToolcribError(f"{root} does not lie below {grant.root}, which is what the grant {grant.id[:8]} covers")
        narrower = replace(grant, root=root)
        if not await self._grants.revoke(grant.id):  # first: what somebody revoked must not come back narrower
            raise ToolcribError(f"the grant {grant.id[:8]} was revoked meanwhile")
        await self._grants.add(narrower)
        return narrower

    # -- questions -----------------------------------------------------------------------------------------------

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Questions that wait, oldest first; a delegate's is listed once, under its parent's session where it is parked there."""
        found = await self._store.tickets.pending(session_id)
        relayed = {record.ticket.relays for record in found}
        return [record for record in found if record.ticket.id not in relayed]

    async def question(self, prefix: str, *, user: str, session_id: str | None = None) -> TicketRecord:
        """The question that somebody answers; without a ``prefix`` the only one that waits.

        ``user`` must be whom the session belongs to; questions to others are neither counted nor named. Raises NotFound, Denied,
        or ToolcribError where several are meant.
        """
        found = [one for one in await self.pending(session_id) if one.ticket.id.startswith(prefix)]
        own = [one for one in found if await self._is_of(one, user)]
        if found and prefix and not own:
            raise Denied(f"the question {prefix[:8]} was put to somebody else")
        if not own and prefix and (record := await self._store.tickets.get(prefix)) is not None and record.state != "pending":
            raise Denied(f"the question {prefix[:8]} was settled before ({record.state}); the answer does not count")
        if not own:
            raise NotFound(f"no question begins with {prefix!r}" if prefix else "no question waits for an answer")
        if len(own) > 1:
            names = ", ".join(record.ticket.id[:8] for record in own)
            raise ToolcribError(f"{len(own)} questions wait ({names}): say which one is meant")
        return own[0]

    async def _is_of(self, record: TicketRecord, user: str) -> bool:
        owner = await self._store.sessions.get(record.session_id)
        return owner is not None and owner.user == user

    async def refuse(self, prefix: str, *, by: str, reason: str = "") -> TicketRecord:
        """Say no to a question, wherever it waits. Raises as ``question``, and Denied where it was settled meanwhile."""
        found = [one for one in await self.pending() if prefix and one.ticket.id.startswith(prefix)]
        if not found and prefix and (settled := await self._store.tickets.get(prefix)) is not None:
            raise Denied(f"the question {prefix[:8]} was settled before ({settled.state})")
        record = _only(found, prefix, "question", [one.ticket.id[:8] for one in found])
        payload = {"approved": False, "reason": reason or "refused by a person, from outside of the session"}
        await record_answer(self._store, Answer(record.ticket.id, payload=payload, by=by, at=time.time()))
        return record

    # -- what was decided ----------------------------------------------------------------------------------------

    async def history(self, session_id: str | None = None, limit: int | None = None) -> Sequence[AuditEntry]:
        """Decisions, oldest first; the last ``limit`` of them."""
        entries = await self._store.audit.entries(session_id)
        return entries if limit is None else entries[-limit:]


def _counts(grant: Grant, now: float) -> bool:
    return not (grant.scope == "uses" and not grant.uses_left) and not (grant.until is not None and grant.until <= now)


def _only(found: Sequence[T], prefix: str, what: str, names: Sequence[str]) -> T:
    if len(found) == 1:
        return found[0]
    if not found:
        lists = "approvals pending" if what == "question" else "approvals"
        raise NotFound(f"no {what} begins with {prefix!r}; `toolcrib {lists}` lists them")
    raise ToolcribError(f"{len(found)} {what}s begin with {prefix!r} ({', '.join(names)}); give more of the id")
