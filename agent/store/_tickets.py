"""Tickets over SQLite: of several processes that answer a ticket, only the first settles it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agent.store._codec import dump_answer, dump_ticket, text
from agent.store._database import Access
from agent.store._from_rows import read_ticket
from agent.store._ledger import NEWEST
from agent.store._shared import Clock, check_settling
from toolcrib.contract.store import Settled, TicketRecord, TicketState
from toolcrib.contract.types import Answer

EXPIRE = "UPDATE tickets SET state = 'expired' WHERE state = 'pending' AND expires_at <= ?"
_SELECT = (
    "SELECT ticket, session_id, CASE WHEN state = 'pending' AND expires_at <= ? THEN 'expired' ELSE state END,"
    " answer, at, expires_at, remind_at FROM tickets"
)
_PENDING = "state = 'pending' AND (expires_at IS NULL OR expires_at > ?)"


class SqliteTickets:
    """Tickets. An overdue ticket is returned as expired, and rejects answers.

    ``shared`` carries no lease, because any process may answer.
    """

    def __init__(self, access: Access, shared: Access, clock: Clock) -> None:
        self._access = access
        self._shared = shared
        self._clock = clock

    async def put(self, record: TicketRecord) -> None:
        """Store a ticket. Raises ValueError for a known id, because a settled ticket must stay settled."""
        ticket, call, answer = record.ticket, record.ticket.call, record.answer
        session_id, call_id = text(record.session_id), None if call is None else text(call.id)
        made = await self._access.run(
            "INSERT INTO tickets (id, session_id, call_id, call_row, state, ticket, answer, decision_id, at, expires_at,"  # noqa: S608 - NEWEST is ours
            f" remind_at) VALUES (?, ?, ?, ({NEWEST}), ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (
                text(ticket.id),
                session_id,
                call_id,
                session_id,
                call_id,
                record.state,
                dump_ticket(ticket),
                None if answer is None else dump_answer(answer),
                None if answer is None else text(answer.decision_id),
                record.at,
                record.expires_at,
                record.remind_at,
            ),
        )
        if not made:
            raise ValueError(f"the ticket {ticket.id!r} already exists; each ticket needs its own id")

    async def get(self, ticket_id: str) -> TicketRecord | None:
        found = await self._select("WHERE id = ?", (text(ticket_id),))
        return found[0] if found else None

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """Return pending tickets, oldest first."""
        if session_id is None:
            return await self._select(f"WHERE {_PENDING} ORDER BY row", (self._clock(),))
        return await self._select(f"WHERE session_id = ? AND {_PENDING} ORDER BY row", (text(session_id), self._clock()))

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Return every ticket of the newest call of an id, answered or not, oldest first."""
        call = (text(session_id), text(call_id))
        return await self._select(f"WHERE session_id = ? AND call_id = ? AND call_row IS ({NEWEST}) ORDER BY row", (*call, *call))

    async def decide_ticket(self, answer: Answer, state: TicketState) -> Settled:
        """Settle a pending ticket as ``state``, with the first answer only (002-31)."""
        check_settling(state)
        ticket, stored, decision, now = text(answer.ticket_id), dump_answer(answer), text(answer.decision_id), self._clock()

        def work(connection: sqlite3.Connection) -> Settled:
            connection.execute(EXPIRE, (now,))
            won = connection.execute(
                "UPDATE OR IGNORE tickets SET state = ?, answer = ?, decision_id = ? WHERE id = ? AND state = 'pending'",
                (state, stored, decision, ticket),
            ).rowcount
            if won:
                return "settled"
            same = connection.execute("SELECT 1 FROM tickets WHERE id = ? AND decision_id = ?", (ticket, decision)).fetchone()
            return "refused" if same is None else "repeated"

        return await self._shared.write(work)

    async def due(self, now: float) -> Sequence[TicketRecord]:
        return await self._select(f"WHERE remind_at <= ? AND {_PENDING} ORDER BY row", (now, self._clock()))

    async def reminded(self, ticket_id: str, was: float, again_at: float | None) -> bool:
        sql = "UPDATE tickets SET remind_at = ? WHERE id = ? AND remind_at = ? AND state = 'pending'"
        return await self._shared.run(sql, (again_at, text(ticket_id), was)) == 1

    async def _select(self, where: str, values: Sequence[Any]) -> Sequence[TicketRecord]:
        return await self._access.records(read_ticket, f"{_SELECT} {where}", (self._clock(), *values))
