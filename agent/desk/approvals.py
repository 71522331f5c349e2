"""Approval requests, the users who may decide them, and the record of a decision."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent.conversation.answers import asked_of, find_ticket, record_answer, relayed_by, same_question
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import Denied, NotFound, ToolcribError
from toolcrib.contract.store import Settled, Store, TicketRecord
from toolcrib.contract.types import Answer, Json

OWNER = "owner"
"""The role of the gateway's owner."""
_SCOPES = ("once", "path", "session", "task", "uses", "until")
"""Scopes of an approval from outside the terminal. ``always`` is reserved for the local user."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A pending or settled ticket. ``asked`` is the principal of its run, None if its session is unknown."""

    record: TicketRecord
    asked: Principal | None

    @property
    def is_question(self) -> bool:
        """True for a tool's own question, False for the approval of a call."""
        return self.record.ticket.resume_mode != "replay"

    @property
    def keys(self) -> list[str]:
        """The keys of the findings in the request."""
        found: Sequence[Mapping[str, Json]] = self.record.ticket.parameters.get("findings") or ()
        return [str(one.get("key", "")) for one in found]

    @property
    def scopes(self) -> list[str]:
        """The scopes that an approval may have: see scopes_of."""
        return scopes_of(self.record)

    def is_for(self, who: Principal) -> bool:
        """Return whether the request's run belongs to this user. Only the local user needs no user id."""
        asked, is_known = self.asked, bool(who.person) or who.is_local
        return is_known and asked is not None and (asked.platform, asked.person) == (who.platform, who.person)


class ApprovalRights:
    """Rules for who may decide a request.

    ``approvers`` returns ``gateway.approvers``: roles by the key of a finding, or by the key's beginning up to a dot.
    """

    def __init__(self, approvers: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._approvers = approvers

    def may(self, who: Principal, request: ApprovalRequest, payload: Json = None) -> bool:
        """Return whether a user may make this decision on a request.

        The local user may make any decision. A tool's question is for the user of its run, or the owner. An approval needs a
        role for each finding, or the owner's role if there are no findings. The user of the run may always deny.
        """
        if who.is_local or (is_denial(payload) and request.is_for(who)):
            return True
        if request.is_question:
            return OWNER in who.roles or request.is_for(who)
        keys = request.keys
        return all(self.roles_for(key).intersection(who.roles) for key in keys) if keys else OWNER in who.roles

    def roles_for(self, key: str) -> set[str]:
        """Return the roles that may approve a finding with this key."""
        words, approvers = key.partition("@")[0].split("."), self._approvers()
        for length in range(len(words), 0, -1):
            if (roles := approvers.get(".".join(words[:length]))) is not None:
                return set(roles)
        return {OWNER}

    def roles_of(self, request: ApprovalRequest) -> list[str]:
        """Return the roles that together can approve a request."""
        return sorted({role for key in request.keys for role in self.roles_for(key)}) or [OWNER]


class ApprovalDesk:
    """Finds approval requests and records decisions. ``record`` records an answer and wakes the session that waits for it."""

    def __init__(
        self, store: Store, rights: ApprovalRights, record: Callable[[Answer], Awaitable[Settled]] | None = None
    ) -> None:
        self._store = store
        self._record = record or (lambda answer: record_answer(store, answer))
        self.rights = rights

    async def waiting(self, session_id: str | None = None) -> list[ApprovalRequest]:
        """Return the pending requests of a session, or of all sessions, oldest first.

        A delegate's request that is parked under its parent's session appears once, under that session. Raises StoreFailed.
        """
        found = await self._store.tickets.pending(session_id)
        relayed = {own.ticket.id for record in found if (own := await relayed_by(self._store, record)) is not None}
        return [await self.request(record) for record in found if record.ticket.id not in relayed]

    async def find(self, prefix: str) -> ApprovalRequest:
        """Return the pending request whose ticket id starts with ``prefix``, or the settled one with that full id.

        Raises NotFound, Denied for several matches, and StoreFailed.
        """
        return await self.request(await find_ticket(self._store, prefix))

    async def deny(self, prefix: str, *, who: Principal, by: str, reason: str = "") -> ApprovalRequest:
        """Deny the pending request whose ticket id starts with ``prefix``, in any session.

        Raises NotFound, ToolcribError for several matches, and what ``decide`` raises.
        """
        found = [one for one in await self.waiting() if prefix and one.record.ticket.id.startswith(prefix)]
        if not found and prefix and (settled := await self._store.tickets.get(prefix)) is not None:
            raise Denied(f"the request {prefix[:8]} was already decided ({settled.state})")
        if not found:
            raise NotFound(f"no request begins with {prefix!r}. List the pending ones: toolcrib approvals pending")
        if len(found) > 1:
            names = ", ".join(one.record.ticket.id[:8] for one in found)
            raise ToolcribError(f"{len(found)} requests begin with {prefix!r} ({names}); use a longer id")
        payload = {"approved": False, "reason": reason or "denied by a user outside the session"}
        await self.decide(found[0], payload, who=who, by=by)
        return found[0]

    async def request(self, record: TicketRecord) -> ApprovalRequest:
        """Return the request of a ticket. Raises StoreFailed."""
        return ApprovalRequest(record, await asked_of(self._store, record))

    async def decide(
        self, request: ApprovalRequest, payload: Json, *, who: Principal, by: str = "", decision_id: str = ""
    ) -> Settled:
        """Record a decision: ``{"approved": True, "scope": "once"}`` or ``{"approved": False, "reason": "..."}`` for a call, or
        the answer to a tool's question.

        ``by`` is the user's name as other users see it. A ``decision_id`` that is already recorded counts once.

        Raises Denied if the user may not make this decision or the request is already settled; InvalidArguments for a payload
        that the ticket does not accept; NotFound and StoreFailed.
        """
        for one in [request, *await self._settled_with(request)]:
            self._check(one, payload, who)
        answer = Answer(request.record.ticket.id, payload=payload, by=by or who.key, at=time.time())
        return await self._record(replace(answer, decision_id=decision_id) if decision_id else answer)

    async def _settled_with(self, request: ApprovalRequest) -> list[ApprovalRequest]:
        """Return the other requests that an answer to this one settles, because they ask the same question of a delegate."""
        own = request.record.ticket.id
        records = [await self._store.tickets.get(one) for one in await same_question(self._store, own) if one != own]
        return [await self.request(record) for record in records if record is not None]

    def _check(self, request: ApprovalRequest, payload: Json, who: Principal) -> None:
        """Raise Denied unless this user may make this decision on the request, with the scope that ``payload`` names."""
        if not self.rights.may(who, request, payload):
            raise Denied(f"{who.key} may not decide this; {', '.join(self.rights.roles_of(request))} may")
        approves = isinstance(payload, Mapping) and bool(payload.get("approved")) and not request.is_question
        if approves and not who.is_local and payload.get("scope", "once") not in request.scopes:
            raise Denied(f"this scope is not available here; choose from: {', '.join(request.scopes)}")


def scopes_of(record: TicketRecord) -> list[str]:
    """Return the scopes that an approval of this ticket may have when it comes from outside the terminal."""
    offered = record.ticket.parameters.get("scopes") or ["once"]
    return [scope for scope in _SCOPES if scope in offered]


def is_denial(payload: Json) -> bool:
    """Return whether a decision denies a call."""
    return isinstance(payload, Mapping) and payload.get("approved") is False
