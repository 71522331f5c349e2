"""Parked runs in the store, and whether a session can continue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from agent.conversation.answers import answer_below
from agent.conversation.state import RunState
from toolcrib.contract.store import RunRecord, Store

_PAGE = 200
"""Parked runs in one read."""


async def parked_runs(store: Store) -> AsyncIterator[RunRecord]:
    """Yield the parked runs of all sessions, in pages because there may be many."""
    place = 0
    while page := await store.runs.parked(_PAGE, place):
        for run in page:
            yield run
        place += len(page)


def tickets_of(run: RunRecord) -> Iterator[str]:
    """Yield the ids of the tickets that a parked run waits for."""
    for one in run.state.get("batch", ()):
        yield from one["tickets"]


async def has_work(store: Store, session_id: str) -> bool:
    """Return True if a session can continue.

    A run can continue if it is not parked, or if it was answered or interrupted. Without a run, a message must be waiting.
    """
    run = await store.runs.current(session_id)
    if run is None:
        return bool(await store.inbox.waiting(session_id))
    if run.status != "parked":
        return True
    state = RunState.of(run)
    if any(map(state.ends_for, await store.inbox.waiting(session_id))):
        return True
    records = [await store.tickets.get(ticket) for ticket in tickets_of(run)]
    for record in records:
        if record is None or record.state != "pending" or await answer_below(store, record) is not None:
            return True
    return not records


async def has_news(store: Store, session_id: str) -> bool:
    """Return True if a session that just failed may try again: it has a message, or its ticket was settled."""
    if await store.inbox.waiting(session_id):
        return True
    run = await store.runs.current(session_id)
    return run is not None and run.status == "parked" and await has_work(store, session_id)
