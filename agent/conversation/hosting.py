"""Parked runs that a host serves: reminders that are due, settled tickets, and sessions whose host ended."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

from agent.conversation.waiting import parked_runs, tickets_of
from agent.events import TicketReminder
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.passing import is_passing
from toolcrib.contract.store import Store


async def remind(store: Store, platform: str, tell: Callable[[TicketReminder], None]) -> None:
    """Call ``tell`` for each due reminder of a platform's tickets. Only one process reports each reminder. Raises StoreFailed."""
    now = time.time()
    for record in await store.tickets.due(now):
        info = await store.sessions.get(record.session_id)
        if info is None or info.platform != platform:  # another host serves the sessions of other platforms
            continue
        was, ticket = record.remind_at or now, record.ticket
        again = now + max(60.0, was - record.at)
        if await store.tickets.reminded(ticket.id, was, again):
            tell(TicketReminder(ticket.id, record.session_id, ticket.message, record.expires_at))


async def settled(store: Store) -> tuple[list[str], float]:
    """Return the sessions with a settled ticket of a parked run, and when the next ticket expires: in Unix seconds, infinite if
    none does.

    Raises StoreFailed.
    """
    found: list[str] = []
    ends = math.inf
    async for run in parked_runs(store):
        for ticket_id in tickets_of(run):
            record = await store.tickets.get(ticket_id)
            if record is None or record.state != "pending":
                found.append(run.session_id)
            elif record.expires_at is not None:
                ends = min(ends, record.expires_at)
    return found, ends


async def take_over(store: Store, session_id: str, platform: str, host: str) -> bool:
    """Return True if this host serves the session of ``platform``: it did already, or takes over because the old host ended.

    Raises StoreFailed.
    """
    info = await store.sessions.get(session_id)
    if info is None or info.platform != platform or not info.host:
        return False
    if info.host != host:
        if await store.leases.holder(info.host) is not None:
            return False
        await store.sessions.update(session_id, host=host)
    return True


def knock(loop: asyncio.AbstractEventLoop, heard: Callable[[str], None], topic: str) -> None:
    """Call ``heard`` with a signal's topic in ``loop``, from any thread. Does nothing if the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(heard, topic)


def is_only_retried(error: Exception) -> bool:
    """Return whether the error means only that this machine was short of resources. Then the session is retried, and its users
    are not shown the error.
    """
    return is_passing(error) and not isinstance(error, ToolcribError)
