"""Answers to tickets: check an answer, record it once, and signal the session's host. Any process may answer."""

from __future__ import annotations

from contextlib import suppress

from agent.conversation.lineage import is_delegate
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import Denied, NotFound
from toolcrib.contract.store import Settled, Store, TicketRecord
from toolcrib.contract.types import Answer

_DEEPEST = 100
"""Maximum nesting depth of delegates."""


def topic_of(session_id: str) -> str:
    """Return the topic of the signals about a session."""
    return f"session:{session_id}"


async def find_ticket(store: Store, prefix: str) -> TicketRecord:
    """Return the pending ticket whose id starts with ``prefix``, or the settled one with that id.

    Raises NotFound if there is none, and Denied if several start with it.
    """
    found = [one for one in await store.tickets.pending() if prefix and one.ticket.id.startswith(prefix)]
    if len(found) > 1:
        names = ", ".join(one.ticket.id[:12] for one in found)
        raise Denied(f"{len(found)} tickets begin with {prefix!r} ({names}); use a longer id")
    record = found[0] if found else await store.tickets.get(prefix)
    if record is None:
        raise NotFound(f"no ticket begins with {prefix!r}. List the pending ones: toolcrib approvals pending")
    return record


async def record_answer(store: Store, answer: Answer, approver: Principal | None = None) -> Settled:
    """Settle a ticket with this answer, and wake the session's host. The result is ``repeated`` if this decision was already
    recorded.

    ``approver`` must be the principal of the ticket's run, or the local user; None leaves that check to the caller. Raises what
    tools.dispatch.answers.settle_answer raises, and Denied for another approver.
    """
    from tools.dispatch.answers import settle_answer

    if approver is not None:
        await _check_approver(store, answer.ticket_id, approver)
    first, *others = await same_question(store, answer.ticket_id)
    for ticket_id in others:
        if (known := await store.tickets.get(ticket_id)) is not None and known.answer is not None:
            await _adopt(store, first, known.answer)
            break
    record, settled = await settle_answer(store.tickets, _for(first, answer))  # this decides which of two answers counts
    sessions = {record.session_id}
    for ticket_id in others:  # the answer counts in every process that may continue the delegate
        if ticket_id == answer.ticket_id:
            record, settled = await settle_answer(store.tickets, answer)
        else:
            with suppress(Denied, NotFound):
                record, _ = await settle_answer(store.tickets, _for(ticket_id, answer))
        sessions.add(record.session_id)
    for session_id in sessions:
        await store.signals.send(topic_of(session_id))
    return settled


async def adopt_answers(store: Store, session_id: str) -> None:
    """Settle the session's tickets that relay a delegate's answered ticket, with the same answer."""
    for record in await store.tickets.pending(session_id):
        if (answer := await answer_below(store, record)) is not None:
            await _adopt(store, record.ticket.id, answer)


async def answer_below(store: Store, record: TicketRecord) -> Answer | None:
    """Return the answer to the delegate's ticket that this one relays; None if it relays none, or if that ticket is still
    pending.
    """
    own = await relayed_by(store, record)
    return None if own is None else own.answer


async def relayed_by(store: Store, record: TicketRecord) -> TicketRecord | None:
    """Return the delegate's ticket that this one relays, None if it relays none.

    A session relays only what its own delegates ask: any other id in ``SuspendTicket.relays`` counts as none.
    """
    own = await store.tickets.get(record.ticket.relays) if record.ticket.relays else None
    return own if own is not None and await _parent_of(store, own.session_id) == record.session_id else None


async def _parent_of(store: Store, session_id: str) -> str:
    """Return the session that a delegate's session works for; "" for any other session."""
    info = await store.sessions.get(session_id)
    return "" if info is None or not is_delegate(info) else info.parent


async def _adopt(store: Store, ticket_id: str, answer: Answer) -> None:
    from tools.dispatch.answers import settle_answer

    with suppress(Denied, NotFound):  # the ticket may be settled already
        await settle_answer(store.tickets, _for(ticket_id, answer))


def _for(ticket_id: str, answer: Answer) -> Answer:
    """Return the answer, addressed to another ticket with the same question."""
    if ticket_id == answer.ticket_id:
        return answer
    return replace(answer, ticket_id=ticket_id, decision_id=f"{answer.decision_id}-{ticket_id}")


async def same_question(store: Store, ticket_id: str) -> list[str]:
    """Return the tickets that one answer settles, topmost first: all tickets that relay this one, this ticket, and all tickets
    that it relays.
    """
    above, below = list[str](), list[str]()
    record = await store.tickets.get(ticket_id)
    while record is not None:
        parent, own = await _parent_of(store, record.session_id), record.ticket.id
        waiting = await store.tickets.pending(parent) if parent else ()
        record = next((one for one in waiting if one.ticket.relays == own and one.ticket.id not in above), None)
        if record is not None:
            above.append(record.ticket.id)
    record = await store.tickets.get(ticket_id)
    while record is not None and (record := await relayed_by(store, record)) is not None and record.ticket.id not in below:
        below.append(record.ticket.id)
    return [*reversed(above), ticket_id, *below]


async def _check_approver(store: Store, ticket_id: str, approver: Principal) -> None:
    """Raise Denied unless the approver is the principal of the ticket's run, or the local user."""
    if approver.is_local:
        return
    record = await store.tickets.get(ticket_id)
    asked = None if record is None else await asked_of(store, record)
    if asked is None or not approver.user or asked.key != approver.key:
        raise Denied(f"the ticket {ticket_id[:12]} belongs to another user")


async def asked_of(store: Store, record: TicketRecord) -> Principal | None:
    """Return the principal of the ticket's run, or else the owner of its session. None if the session is unknown.

    A ticket that relays a delegate's ticket belongs to the delegate's principal, whichever run of a parent is in progress.
    """
    for _ in range(_DEEPEST):
        own = await relayed_by(store, record)
        if own is None:
            break
        record = own
    run = await store.runs.current(record.session_id)
    if run is not None:
        return Principal.from_json(run.state.get("principal", {}))
    info = await store.sessions.get(record.session_id)
    return None if info is None else Principal(info.platform, info.user)


async def persons_session(store: Store, session_id: str) -> str:
    """Return the session that continues once a ticket of this one is answered: itself, or the user's session above a delegate.

    A delegate is driven only by its parent, with the rights that the parent gave it.
    """
    seen: set[str] = set()
    while session_id not in seen:
        seen.add(session_id)
        parent = await _parent_of(store, session_id)
        if not parent or await store.sessions.get(parent) is None:
            break
        session_id = parent
    return session_id


async def hosted(store: Store, session_id: str) -> bool:
    """Return True if a living process hosts the session, so that every answer wakes it there."""
    info = await store.sessions.get(session_id)
    return info is not None and bool(info.host) and await store.leases.holder(info.host) is not None
