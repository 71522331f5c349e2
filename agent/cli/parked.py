"""Parked runs: the tickets that they wait for, and how to answer these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from toolcrib.contract.store import TicketRecord

_CLIP = 200


async def still_open(session: Session, tickets: Sequence[str]) -> list[TicketRecord]:
    """Return the records of those tickets that are still pending."""
    found = [await session.store.tickets.get(ticket) for ticket in tickets]
    return [record for record in found if record is not None and record.state == "pending"]


def parked_lines(session_id: str, tickets: Sequence[TicketRecord], queued: int) -> list[str]:
    """Return lines about the tickets of a parked run and how to answer them. ``queued`` is the number of messages that wait
    until the run has ended.
    """
    # imported here, because every run loads this module and few runs are parked
    from agent.cli.escape import exact, one_line
    from agent.cli.format_grants import on_one
    from agent.cli.short_forms import ID_CHARS

    if not tickets:
        return [
            f"the run is parked, and all its tickets are answered; to continue it: toolcrib run --resume {session_id[:ID_CHARS]}"
        ]
    lines = [
        "the run is parked: 1 call waits for an answer" if len(tickets) == 1 else f"the run is parked: {len(tickets)} calls wait"
    ]
    for record in tickets:
        lines.append(f"  {exact(one_line(on_one(record.ticket.message), _CLIP))}")
        lines.append(f"    toolcrib approvals answer {record.ticket.id} --continue")
    if queued:
        which = "your task waits" if queued == 1 else f"your task and {queued - 1} before it wait"
        lines.append(f"{which} in the session until that run has ended")
    return lines
