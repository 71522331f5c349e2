"""Answers to tickets, from whichever process they come: checked, and settled once. Needs no session and no environment."""

from __future__ import annotations

import json

from toolcrib.contract.errors import Denied, InvalidArguments, NotFound
from toolcrib.contract.store import Settled, TicketRecord, TicketStore
from toolcrib.contract.types import Answer, Json, SuspendTicket


def is_refusal(answer: Answer) -> bool:
    """Return whether the answer keeps the call from going on: a no, or giving it up."""
    return answer.denied or answer.action == "cancel"


def misfit(ticket: SuspendTicket, answer: Answer) -> str:
    """Say where the payload is not what ``ticket.response_schema`` asks for; "" where it fits. A refusal always fits."""
    if ticket.response_schema is None or is_refusal(answer):
        return ""
    from tools.arguments import misfit as misfit_of

    return misfit_of(ticket.response_schema, answer.payload)


def why_not(record: TicketRecord | None) -> str:
    """Say why an answer could not count."""
    if record is None:
        return "the question is not known any more"
    if record.state == "expired":
        return "the answer came too late: the question had expired"
    if record.state == "pending":
        return "this decision was made on another question before, and counts for that one; this question still waits"
    by = f", by {record.answer.by}" if record.answer is not None and record.answer.by else ""
    return f"the question was settled before ({record.state}{by})"


def _same(one: Answer, other: Answer) -> bool:
    """Return whether two deliveries of one decision say the same; when, by whom and why may differ."""
    return (one.action, _plain(one.payload)) == (other.action, _plain(other.payload))


def _plain(payload: Json) -> str:
    return json.dumps(payload, sort_keys=True, default=str)


async def settle_answer(
    tickets: TicketStore | None, answer: Answer, session_id: str | None = None
) -> tuple[TicketRecord, Settled]:
    """Record an answer; the ticket as it is then, and ``settled``, or ``repeated`` where this decision counted before.

    Nothing runs by it: the session's next ``run_batch`` or ``Dispatcher.resume`` acts on it. Raises NotFound for an unknown
    ticket, InvalidArguments where the payload does not fit the ticket's schema (the ticket still waits then), and Denied where
    the ticket is not of session ``session_id`` (None: of any), another answer, or its time, came before this one, or this
    decision was made before with other words or on another ticket.
    """
    record = None if tickets is None else await tickets.get(answer.ticket_id)
    if tickets is None or record is None or record.ticket.call is None:
        raise NotFound(f"no ticket {answer.ticket_id!r} is known here")
    if session_id is not None and record.session_id != session_id:
        raise Denied(f"ticket {answer.ticket_id!r} belongs to another session")
    if wrong := misfit(record.ticket, answer):
        raise InvalidArguments(f"the answer does not fit what was asked for: {wrong}")
    settled = await tickets.decide_ticket(answer, "denied" if is_refusal(answer) else "approved")
    record = await tickets.get(answer.ticket_id) or record
    if settled == "repeated" and record.answer is not None and not _same(answer, record.answer):
        raise Denied(f"the answer does not count: {why_not(record)}, by another answer with the same decision id")
    if settled == "refused":
        raise Denied(f"the answer does not count: {why_not(record)}")
    return record, settled
