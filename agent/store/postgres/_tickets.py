"""Tickets: only the first process that answers one settles it. An overdue ticket is returned as expired, and rejects answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.store._codec import dump_answer, dump_ticket
from agent.store._from_rows import read_ticket
from agent.store._shared import check_settling
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._ledger import NEWEST, of_call
from agent.store.postgres._text import Values, digest, to_json, to_text
from toolcrib.contract.store import Fence, Settled, TicketRecord, TicketState
from toolcrib.contract.types import Answer

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

LASTS = f"(expires_at IS NULL OR expires_at > {NOW})"
_SELECT = (
    "SELECT ticket, session_id, CASE WHEN state = 'pending' AND NOT "  # noqa: S608 - ours
    f"{LASTS} THEN 'expired' ELSE state END, answer, at, expires_at, remind_at FROM tickets"
)
_PENDING = f"state = 'pending' AND {LASTS}"


class PostgresTickets:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def put(self, record: TicketRecord) -> None:
        """Store a ticket. Raises ValueError for a known id, because a settled ticket must stay settled."""
        ticket, call, answer = record.ticket, record.ticket.call, record.answer
        made = await self._database.write(
            self._fence,
            "INSERT INTO tickets"  # noqa: S608 - NEWEST is ours
            " (id, session_id, call_key, call_row, state, ticket, answer, decision_key, at, expires_at, remind_at)"
            f" VALUES (%(id)s, %(session)s, %(call_key)s, {NEWEST}, %(state)s, %(ticket)s, %(answer)s, %(decision)s, %(at)s,"
            " %(expires_at)s, %(remind_at)s) ON CONFLICT DO NOTHING RETURNING row",
            {
                "session": to_text(record.session_id),
                "call_key": None if call is None else digest(call.id),
                "id": to_text(ticket.id),
                "state": record.state,
                "ticket": to_json(dump_ticket(ticket)),
                "answer": None if answer is None else to_json(dump_answer(answer)),
                "decision": None if answer is None else digest(answer.decision_id),
                "at": record.at,
                "expires_at": record.expires_at,
                "remind_at": record.remind_at,
            },
        )
        if not made:
            raise ValueError(f"the ticket {ticket.id!r} already exists; each ticket needs its own id")

    async def get(self, ticket_id: str) -> TicketRecord | None:
        found = await self._select("id = %(id)s", {"id": to_text(ticket_id)})
        return found[0] if found else None

    async def pending(self, session_id: str | None = None) -> Sequence[TicketRecord]:
        if session_id is None:
            return await self._select(_PENDING, {})
        return await self._select(f"session_id = %(session)s AND {_PENDING}", {"session": to_text(session_id)})

    async def of_call(self, session_id: str, call_id: str) -> Sequence[TicketRecord]:
        where = f"session_id = %(session)s AND call_key = %(call_key)s AND call_row IS NOT DISTINCT FROM {NEWEST}"
        return await self._select(where, of_call(session_id, call_id))

    async def decide_ticket(self, answer: Answer, state: TicketState) -> Settled:
        """Settle a pending ticket as ``state``, with the first answer only (002-31).

        If one decision is sent for two tickets, the second is refused.
        """
        check_settling(state)
        values = {
            **self._database.now(),
            "id": to_text(answer.ticket_id),
            "state": state,
            "answer": to_json(dump_answer(answer)),
            "decision": digest(answer.decision_id),
        }

        async def work(connection: Connection) -> Settled:
            # the lock makes one answer wait for the other; the decision is compared under the lock
            locked = await connection.execute("SELECT decision_key FROM tickets WHERE id = %(id)s FOR UPDATE", values)
            ticket = await locked.fetchone()
            if ticket is None:
                return "refused"
            if ticket[0] == values["decision"]:
                return "repeated"
            done = await connection.execute(
                f"UPDATE tickets SET state = %(state)s, answer = %(answer)s, decision_key = %(decision)s"  # noqa: S608 - ours
                f" WHERE id = %(id)s AND {_PENDING} AND NOT EXISTS (SELECT FROM tickets WHERE decision_key = %(decision)s)",
                values,
            )
            return "settled" if done.rowcount else "refused"

        return await self._database.transact(None, work)

    async def due(self, now: float) -> Sequence[TicketRecord]:
        return await self._select(f"{_PENDING} AND remind_at <= %(until)s", {"until": now})

    async def reminded(self, ticket_id: str, was: float, again_at: float | None) -> bool:
        sql = (
            "UPDATE tickets SET remind_at = %(again)s"
            " WHERE id = %(id)s AND state = 'pending' AND remind_at = %(was)s RETURNING row"
        )
        return bool(await self._database.write(None, sql, {"id": to_text(ticket_id), "was": was, "again": again_at}))

    async def _select(self, where: str, values: Values) -> Sequence[TicketRecord]:
        sql = f"{_SELECT} WHERE {where} ORDER BY row"
        return await self._database.records(read_ticket, sql, {**values, **self._database.now()})
