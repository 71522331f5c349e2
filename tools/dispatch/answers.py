"""Answers to tickets, from any process: checked, and settled once. Needs no session and no environment."""

from __future__ import annotations

import json

from toolcrib.contract.errors import Denied, InvalidArguments, NotFound
from toolcrib.contract.store import Settled, TicketRecord, TicketStore
from toolcrib.contract.types import Answer, Json, SuspendTicket


def is_refusal(answer: Answer) -> bool:
    """Return whether the answer stops the call: a denial, or a cancellation."""
    return answer.denied or answer.action == "cancel"


def misfit(ticket: SuspendTicket, answer: Answer) -> str:
    """Return how the payload violates ``ticket.response_schema``, or "". A refusal always fits."""
    if ticket.response_schema is None or is_refusal(answer):
        return ""
    from tools.arguments import misfit as misfit_of

    return misfit_of(ticket.response_schema, answer.payload)


def why_not(record: TicketRecord | None) -> str:
    """Return the reason why an answer does not count."""
    if record is None:
        return "the request no longer exists"
    if record.state == "expired":
        return "the answer came too late: the request had expired"
    if record.state == "pending":
        return "this decision id was already used for another request; this request still waits"
    by = f", by {record.answer.by}" if record.answer is not None and record.answer.by else ""
    return f"the request was already decided ({record.state}{by})"


def _same(one: Answer, other: Answer) -> bool:
    """Return whether two deliveries carry the same decision. Time, author and reason may differ."""
    return (one.action, _plain(one.payload)) == (other.action, _plain(other.payload))


def _plain(payload: Json) -> str:
    return json.dumps(payload, sort_keys=True, default=str)


async def settle_answer(
    tickets: TicketStore | None, answer: Answer, session_id: str | None = None
) -> tuple[TicketRecord, Settled]:
    """Record an answer. Return the ticket, and ``settled``, or ``repeated`` if this decision was recorded before.

    It runs nothing: the session's next ``run_batch`` or ``Dispatcher.resume`` acts on it. Raises NotFound for an unknown ticket,
    and InvalidArguments if the payload does not fit the ticket's schema (the ticket then still waits). Raises Denied if the
    ticket belongs to another session than ``session_id`` (None: any), was already answered or has expired, or if the
    decision id was used before for another decision or another ticket.
    """
    record = None if tickets is None else await tickets.get(answer.ticket_id)
    if tickets is None or record is None or record.ticket.call is None:
        raise NotFound(f"there is no ticket {answer.ticket_id!r} here")
    if session_id is not None and record.session_id != session_id:
        raise Denied(f"ticket {answer.ticket_id!r} belongs to another session")
    if wrong := misfit(record.ticket, answer):
        raise InvalidArguments(f"the answer does not match the request: {wrong}")
    settled = await tickets.decide_ticket(answer, "denied" if is_refusal(answer) else "approved")
    record = await tickets.get(answer.ticket_id) or record
    if settled == "repeated" and record.answer is not None and not _same(answer, record.answer):
        raise Denied(f"the answer does not count: {why_not(record)}, by another answer with the same decision id")
    if settled == "refused":
        raise Denied(f"the answer does not count: {why_not(record)}")
    return record, settled
