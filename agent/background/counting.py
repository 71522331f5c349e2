"""Count the background processes of a principal in all processes of toolcrib that use the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.background.requests import ask, sessions_with_processes
from tools.processes.records import PROCESSES, not_ended

if TYPE_CHECKING:
    from toolcrib.contract.store import Store

_LOOK = 5.0
"""Seconds that an answer may take."""


async def running_elsewhere(store: Store, principal: str, room: int) -> int:
    """Return how many background processes of a principal run in other processes of toolcrib. Raises StoreFailed.

    If the store has fewer than ``room`` records, return their number. It includes ended processes that were not removed.
    Otherwise the processes that have the sessions open report their counts, and a session without an answer counts as 0.
    """
    known = await sessions_with_processes(store, principal, elsewhere=True)
    recorded = {one: await _recorded(store, one, lives=lives) for one, lives in known.items()}
    if sum(recorded.values()) < room:
        return sum(recorded.values())
    requests = {one: {"action": "count"} for one, lives in known.items() if lives and recorded[one]}
    answers = await ask(store, requests, _LOOK)
    unattended = sum(recorded[one] for one, lives in known.items() if not lives)
    return unattended + sum(int(one.get("running", 0)) for one in answers.values() if isinstance(one, Mapping))


async def _recorded(store: Store, session_id: str, *, lives: bool) -> int:
    kept = (await store.state.of("session", session_id)).get(PROCESSES.name)
    records = {} if kept is None or kept.value is None else kept.value
    return sum(lives or not records[name].get("pty") for name in not_ended(records))  # terminals end with their toolcrib
