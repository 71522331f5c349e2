"""Tickets over SQLite: each is answered once, by whichever process is first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.store._codec import Stored, dump_answer, dump_ticket, load_answer, load_ticket, plain, text
from agent.store._database import Database
from agent.store._ledger import NEWEST
from agent.store._owner import this_process
from agent.store._shared import Clock
from toolcrib import Answer
from toolcrib._store import TicketRecord, TicketState

_SELECT = "SELECT ticket, session_id, state, answer, at, expires_at FROM tickets"


class SqliteTickets:
    """One whose time has run out is expired, whoever answers."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, record: TicketRecord) -> None:
        """Raises ValueError for an id that is known, since a settled ticket must not come to life again."""
        ticket, call = record.ticket, record.ticket.call
        session_id, call_id = text(record.session_id), None if call is None else text(call.id)
        made = self._database.run(
            "INSERT INTO tickets (id, session_id, call_id, call_row, state, ticket, answer, decision_id, at, expires_at)"  # noqa: S608 - NEWEST is ours
            f" VALUES (?, ?, ?, ({NEWEST}), ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (
                text(ticket.id),
                session_id,
                call_id,
                session_id,
                call_id,
                record.state,
                dump_ticket(ticket),
                None if record.answer is None else dump_answer(record.answer),
                None if record.answer is None else text(record.answer.decision_id),
                record.at,
                record.expires_at,
            ),
        )
        if not made:
            raise ValueError(f"the ticket {ticket.id!r} is known already; each ticket needs an id of its own")

    def get(self, ticket_id: str) -> TicketRecord | None:
        found = self._select("WHERE id = ?", (text(ticket_id),))
        return found[0] if found else None

    def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        """In the order in which they were put."""
        if session_id is None:
            return self._select("WHERE state = 'pending' ORDER BY row", ())
        return self._select("WHERE session_id = ? AND state = 'pending' ORDER BY row", (text(session_id),))

    def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        """Every ticket of the newest call of that id, answered or not, oldest first."""
        call = (text(session_id), text(call_id))
        return self._select(f"WHERE session_id = ? AND call_id = ? AND call_row IS ({NEWEST}) ORDER BY row", (*call, *call))

    def settle(self, answer: Answer, state: TicketState) -> bool:
        """pending -> ``state``, by the first answer only. A decision that is delivered again changes nothing (002-31): False.

        The call is this process's from then on, so that nobody takes it for left behind.
        """
        if state == "pending":
            raise ValueError("a ticket is settled as approved, denied or expired")
        ticket, stored, decision = text(answer.ticket_id), dump_answer(answer), text(answer.decision_id)
        with self._database.transaction() as connection:
            self._expire(connection.execute)
            won = connection.execute(
                "UPDATE OR IGNORE tickets SET state = ?, answer = ?, decision_id = ? WHERE id = ? AND state = 'pending'",
                (state, stored, decision, ticket),
            ).rowcount
            if won:
                connection.execute(
                    "UPDATE calls SET owner = ? WHERE status = 'suspended' AND row = (SELECT call_row FROM tickets WHERE id = ?)",
                    (this_process(), ticket),
                )
        return won == 1

    def _select(self, where: str, values: Sequence[Any]) -> Sequence[TicketRecord]:
        found = self._database.records(_record, f"{_SELECT} {where}", values)
        if not any(self._is_late(record) for record in found):
            return found
        self._expire(self._database.run)
        return self._database.records(_record, f"{_SELECT} {where}", values)

    def _is_late(self, record: TicketRecord) -> bool:
        return record.state == "pending" and record.expires_at is not None and self._clock() >= record.expires_at

    def _expire(self, execute: Any) -> None:
        execute("UPDATE tickets SET state = 'expired' WHERE state = 'pending' AND expires_at <= ?", (self._clock(),))


def _record(
    ticket: Stored, session_id: Stored, state: TicketState, answer: Stored | None, at: float, expires_at: float | None
) -> TicketRecord:
    given = None if answer is None else load_answer(answer)
    return TicketRecord(load_ticket(ticket), plain(session_id), state, given, at, expires_at)
