"""Relays a delegate's questions to the users who answer its parent's: asks now, or parks them under the parent's session."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

from agent.conversation.answers import record_answer
from agent.policy.smart import person_behind
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import replace
from toolcrib.contract.entry import is_async_callable
from toolcrib.contract.errors import Denied, NotFound
from toolcrib.contract.store import Store, TicketRecord, TicketStore
from toolcrib.contract.types import RELAYS, Answer, Json, SuspendTicket, ToolCall
from tools.dispatch.threads import in_own_thread

if TYPE_CHECKING:
    from agent.delegates.budget import Allowance
    from tools.dispatch.scope import Asker

ABOUT = "delegate"
"""Parameter of a ticket: the delegate's name and task."""
_LOOKS = 0.2
Waiting: TypeAlias = Callable[[str], AbstractContextManager[None]]


class Relay:
    """An asker (see CallScope) that uses the parent's asker, and adds the delegate's name and task.

    If no user can be asked, the call is denied. A background delegate asks while its parent runs. If a user sits at the prompt
    (``SessionDelegates.asks_at_once``), it may ask between runs too; otherwise no user expects a question then.
    """

    def __init__(
        self,
        asker: Callable[[], Asker | None],
        expects: Callable[[], bool],
        tickets: TicketStore,
        about: Mapping[str, Json],
        allowance: Allowance,
        waiting: Waiting,
    ) -> None:
        """Create a relay.

        ``asker`` returns the parent's asker. ``expects`` returns whether a question may be asked now. ``waiting`` is entered
        with the reason while the delegate waits for an answer.
        """
        self._asker = asker
        self._expects = expects
        self._tickets = tickets
        self._about = about
        self._allowance = allowance
        self._waiting = waiting

    async def __call__(self, ticket: SuspendTicket, ctx: ToolCallContext) -> Answer | None:
        self._allowance.stop()
        try:
            with self._waiting("waits for an answer"):
                return await self._answered(ticket, ctx)
        finally:
            self._allowance.go_on()

    async def _answered(self, ticket: SuspendTicket, ctx: ToolCallContext) -> Answer | None:
        if (answer := await self._waited(ticket.id)) is not None:
            return answer
        asker = person_behind(self._asker())
        if asker is None:
            return None
        shown = add_delegate(ticket, self._about)
        given = asker(shown, ctx) if is_async_callable(asker) else await in_own_thread(asker, shown, ctx)
        while inspect.isawaitable(given):
            given = await given
        return given

    async def _waited(self, ticket_id: str) -> Answer | None:
        """Wait until a user can be asked; return an answer that arrives from elsewhere meanwhile, else None."""
        while not self._expects():
            record = await self._tickets.get(ticket_id)
            if record is not None and record.answer is not None:
                return record.answer
            await asyncio.sleep(_LOOKS)
        return None


def add_delegate(ticket: SuspendTicket, about: Mapping[str, Json]) -> SuspendTicket:
    """Return the ticket with the delegate's name and task in its message."""
    if ABOUT in ticket.parameters:
        return ticket
    message = f"{about['name']} (a delegate, for: {about['task']}) asks: {ticket.message}"
    return replace(ticket, message=message, parameters={**ticket.parameters, ABOUT: dict(about)})


def stand_in(ticket: SuspendTicket, about: Mapping[str, Json]) -> SuspendTicket:
    """Return a ticket of the parent's session in place of a delegate's parked ticket, bound to the id of that ticket."""
    shown, call = add_delegate(ticket, about), ticket.call
    asks: dict[str, Json] = {} if call is None else {"call": {"name": call.name, "args": call.args}}
    return SuspendTicket(
        shown.action,
        shown.message,
        None,
        {**shown.parameters, **asks, RELAYS: ticket.id},
        ticket.response_schema,
        "replay" if ticket.resume_mode == "replay" else "pass_to_tool",
        binds=ticket.id,
    )


async def hand_on(store: Store, session_id: str, answer_to: Callable[[str], Answer | None]) -> None:
    """Pass the parent's answers on to the delegate's pending tickets; ``answer_to`` returns the answer for a ticket id."""
    for record in await store.tickets.pending(session_id):
        answer = answer_to(record.ticket.id)
        if answer is not None:
            await answer_delegate_ticket(store, record.ticket.id, answer)


async def answer_delegate_ticket(store: Store, ticket_id: str, answer: Answer) -> None:
    """Record an answer for a delegate's ticket; an already decided ticket stays unchanged."""
    try:
        await record_answer(store, replace(answer, ticket_id=ticket_id, decision_id=f"{answer.decision_id}-{ticket_id}"))
    except (Denied, NotFound):
        return


async def answered_under(
    store: Store, parent: str, records: Sequence[TicketRecord], about: Mapping[str, Json], said: Callable[[SuspendTicket], None]
) -> None:
    """Park a delegate's questions under the parent's session. Return once one of them is decided, with both its tickets settled.

    This is for a delegate that no call of its parent waits for.
    """
    known = {one.ticket.relays: one.ticket.id for one in await store.tickets.pending(parent) if one.ticket.relays}
    waiting: dict[str, str] = {}
    for record in records:
        own = record.ticket.id
        if own not in known:
            ticket, call = stand_in(record.ticket, about), record.ticket.call or ToolCall("", "?", {})
            ticket = replace(ticket, call=replace(call, id=f"{record.session_id}:{call.id}"))  # not a parent's call id
            await store.tickets.put(replace(record, ticket=ticket, session_id=parent))
            known[own] = ticket.id
            said(ticket)
        waiting[known[own]] = own
    while not await _one_is_settled(store, waiting):  # noqa: ASYNC110 - other processes decide them too
        await asyncio.sleep(_LOOKS)


async def _one_is_settled(store: Store, waiting: Mapping[str, str]) -> bool:
    for standing, own in waiting.items():
        for here, there in ((standing, own), (own, standing)):
            record = await store.tickets.get(here)
            if record is None or record.state != "pending":
                if record is not None and record.answer is not None:
                    await answer_delegate_ticket(store, there, record.answer)
                return True
    return False
