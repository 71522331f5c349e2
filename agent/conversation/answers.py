"""An answer to a ticket: checked, recorded once, and told to whoever hosts the session. From any process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from agent.conversation.lineage import PARENT, is_delegate
from toolcrib import Answer, Denied, NotFound, Principal
from toolcrib._store import Settled, Store, TicketRecord


def topic_of(session_id: str) -> str:
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

    ``approver`` must be who the ticket's run is for, or the local person; None leaves that to the caller. Raises as
    tools.dispatch.answers.settle_answer, and Denied for an approver whom the ticket was not put to.
    """
    from tools.dispatch.answers import settle_answer

    if approver is not None:
        await _check_approver(store, answer.ticket_id, approver)
    record, settled = await settle_answer(store.tickets, answer)
    if own := record.ticket.relays:  # a delegate's: in whichever process it goes on, it was answered
        with suppress(Denied, NotFound):
            await settle_answer(store.tickets, replace(answer, ticket_id=own, decision_id=f"{answer.decision_id}-{own}"))
    await store.signals.send(topic_of(record.session_id))
    return settled


async def _check_approver(store: Store, ticket_id: str, approver: Principal) -> None:
    """Raises Denied unless the approver is who the ticket's run is for, or the local person."""
    if approver.is_local:
        return
    record = await store.tickets.get(ticket_id)
    asked = None if record is None else await asked_of(store, record)
    if asked is None or asked.key != approver.key:
        raise Denied(f"the ticket {ticket_id[:12]} was put to somebody else")


async def asked_of(store: Store, record: TicketRecord) -> Principal | None:
    """Return whom a ticket was put to: whom its run is for, else whose session it is. None for a session that is not known."""
    run = await store.runs.current(record.session_id)
    if run is not None:
        return Principal.from_json(run.state.get("principal", {}))
    info = await store.sessions.get(record.session_id)
    return None if info is None else Principal(info.platform, info.user)


async def persons_session(store: Store, session_id: str) -> str:
    """Return the session that goes on once a ticket of this one was answered: itself, or above a delegate's the person's. A
    delegate is driven by its parent alone, with what that lets it do.
    """
    seen: set[str] = set()
    while session_id not in seen:
        seen.add(session_id)
        info = await store.sessions.get(session_id)
        parent = "" if info is None or not is_delegate(info.place) else info.place.get(PARENT, "")
        if not parent or await store.sessions.get(parent) is None:
            break
        session_id = parent
    return session_id


async def hosted(store: Store, session_id: str) -> bool:
    """Return True if a living process wants to continue this session's parked run: every answer wakes it."""
    info = await store.sessions.get(session_id)
    return info is not None and bool(info.host) and await store.leases.holder(info.host) is not None
