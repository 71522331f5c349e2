"""An answer to a ticket: checked, recorded once, and told to whoever hosts the session. From any process."""

from __future__ import annotations

from typing import TypeAlias

from toolcrib import Answer, Denied, InvalidArguments, NotFound, Principal
from toolcrib._store import Settled, Store, TicketRecord
from tools.arguments import misfit
from tools.dispatch.gates import why_not

Topic: TypeAlias = str


def topic_of(session_id: str) -> Topic:
    """Return the topic of the signals about a session."""
    return f"session:{session_id}"


async def find_ticket(store: Store, prefix: str) -> TicketRecord:
    """Return the pending ticket whose id begins so, or the settled one of that id. Raises NotFound, and Denied for several."""
    found = [one for one in await store.tickets.pending() if prefix and one.ticket.id.startswith(prefix)]
    if len(found) > 1:
        names = ", ".join(one.ticket.id[:12] for one in found)
        raise Denied(f"{len(found)} tickets begin with {prefix!r} ({names}); give more of the id")
    record = found[0] if found else await store.tickets.get(prefix)
    if record is None:
        raise NotFound(f"no ticket begins with {prefix!r}; `toolcrib approvals pending` lists those that wait")
    return record


async def record_answer(store: Store, answer: Answer, approver: Principal | None = None) -> Settled:
    """Settle a ticket by this answer, and wake the session's host. ``repeated`` where the same decision counted before.

    ``approver`` must be whom the session belongs to, or the local person; None leaves that to the caller. Raises NotFound for an
    unknown ticket, InvalidArguments where the payload does not fit the ticket's schema (nothing is settled then), and Denied with
    the reason where the answer can't count.
    """
    record = await store.tickets.get(answer.ticket_id)
    if record is None:
        raise NotFound(f"no ticket {answer.ticket_id!r} is known here")
    if approver is not None:
        await _check_approver(store, record, approver)
    if answer.action == "resume" and not answer.denied and (fault := misfit(record.ticket.response_schema, answer.payload)):
        raise InvalidArguments(f"the answer does not fit: {fault}")
    settled = await store.tickets.settle(answer, "denied" if answer.denied or answer.action == "cancel" else "approved")
    if settled == "refused":
        raise Denied(f"the answer does not count: {why_not(await store.tickets.get(answer.ticket_id))}")
    await store.signals.send(topic_of(record.session_id))
    return settled


async def _check_approver(store: Store, record: TicketRecord, approver: Principal) -> None:
    if approver.is_local:
        return
    owner = await store.sessions.get(record.session_id)
    if owner is None or (owner.platform, owner.user) != (approver.platform, approver.user):
        raise Denied(f"the ticket {record.ticket.id[:12]} was put to somebody else")


async def hosted(store: Store, session_id: str) -> bool:
    """Whether a living process wants to continue this session's parked run: it is woken by every answer."""
    info = await store.sessions.get(session_id)
    return info is not None and bool(info.host) and await store.leases.holder(info.host) is not None
