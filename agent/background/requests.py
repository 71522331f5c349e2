"""Ask the processes that have sessions open about the sessions' background processes.

The requests and the answers are in the store, so they reach processes on other machines that use the same store. A signal wakes
the process that must answer.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping

from agent.store._owner import is_dead, is_ours
from toolcrib.contract.state import StateValue, StateWrite
from toolcrib.contract.store import Store
from toolcrib.contract.types import Json

SESSIONS, REQUESTS, ANSWERS = "sessions", "requests", "answers"
"""Names in the store of three maps: session id -> the process that has it open; request id -> request; request id -> answer.

Each principal has its own map of sessions.
"""
_OWNER = "processes"
_FORGOTTEN = 60.0
"""Seconds after which a request or an answer is removed."""
_SIGNAL, _LOOK = 1.0, 0.02
"""Seconds between two signals, because one may be lost, and between two looks for the answers."""


def topic_of(session_id: str) -> str:
    """Return the topic of the signal that a request for a session waits."""
    return f"processes:{session_id}"


async def stored(store: Store, name: str, principal: str = "") -> Mapping[str, Json]:
    """Return one of the maps in the store; that of a principal if it has its own. Raises StoreFailed."""
    found = (await store.state.of("profile", _owner(principal))).get(name)
    return found.value if found is not None and isinstance(found.value, dict) else {}


async def add(store: Store, name: str, more: Mapping[str, Json], principal: str = "") -> None:
    """Add to one of the maps in the store, and remove requests and answers that are no longer waited for. Raises StoreFailed."""
    await _change(
        store, name, principal, lambda known: {**{one: each for one, each in known.items() if not _is_old(each)}, **more}
    )


async def drop(store: Store, name: str, gone: Collection[str], principal: str = "") -> None:
    """Remove from one of the maps in the store. Raises StoreFailed."""
    await _change(store, name, principal, lambda known: {one: each for one, each in known.items() if one not in gone})


async def _change(store: Store, name: str, principal: str, change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> None:
    while True:
        found = (await store.state.of("profile", _owner(principal))).get(name, StateValue(None, 0))
        value = dict(change(found.value or {}))
        if await store.state.write([StateWrite("profile", _owner(principal), name, value, was=found.version)]):
            return


def _owner(principal: str) -> str:
    return f"{_OWNER}:{principal}" if principal else _OWNER


async def sessions_with_processes(store: Store, principal: str = "", *, elsewhere: bool = False) -> Mapping[str, bool]:
    """Return a principal's sessions that use background processes: id -> False if the process that had the session open was
    killed. ``elsewhere``: without the sessions of this process. Raises StoreFailed.
    """
    found = (await stored(store, SESSIONS, principal)).items()
    return {session_id: not is_dead(owner) for session_id, owner in found if not (elsewhere and is_ours(owner))}


async def ask(store: Store, requests: Mapping[str, Json], within: float) -> Mapping[str, Json]:
    """Send a request to each of these sessions, and return the answers that come ``within`` some seconds: session id -> answer.

    Raises StoreFailed.
    """
    if not requests:
        return {}
    by_id = {secrets.token_hex(8): session_id for session_id in requests}
    now = time.time()
    asked = {one: {"session": session_id, "at": now, "request": requests[session_id]} for one, session_id in by_id.items()}
    await add(store, REQUESTS, asked)
    try:
        return await _answers(store, by_id, time.monotonic() + within)
    finally:
        await drop(store, REQUESTS, by_id)
        await drop(store, ANSWERS, by_id)


async def _answers(store: Store, by_id: Mapping[str, str], give_up: float) -> Mapping[str, Json]:
    signal_at = 0.0
    while True:
        found = await stored(store, ANSWERS)
        if by_id.keys() <= found.keys() or (now := time.monotonic()) >= give_up:
            return {session_id: found[one]["answer"] for one, session_id in by_id.items() if one in found}
        if now >= signal_at:
            signal_at = now + _SIGNAL
            for one, session_id in by_id.items():
                if one not in found:
                    await store.signals.send(topic_of(session_id))
        await asyncio.sleep(_LOOK)


def _is_old(entry: Json) -> bool:
    return isinstance(entry, dict) and abs(time.time() - float(entry["at"])) > _FORGOTTEN
