"""Lineage of a session: which one it comes from and why, or which file, in what the store keeps of where and how it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib._namedtuple import NamedTuple

if TYPE_CHECKING:
    from agent.backends import Location
    from toolcrib._store import SessionInfo, SessionStore

PARENT = "parent"
"""Key of the session's parent, by its id."""
WHY = "why"
"""Key of the reason for which it was begun: ``DELEGATE`` or ``FORK``."""
DEPTH = "depth"
"""Key of the number of delegates above it, itself included."""
ORDER = "order"
"""Key of a delegate's task, as agent.delegates.orders writes it."""

DELEGATE, FORK = "delegate", "fork"
IMPORTED = "imported"
"""Key of what a session was imported from: toolcrib, or the other tool's name. A file may say anything: what it says of a
server, a backend, a folder or a mode is not gone by, until a person resumes the session and it has its own.
"""
_LEAST_LOOK = 20
_KEYS = (PARENT, WHY, DEPTH, ORDER)


def kept_lineage(place: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of ``SessionInfo.place`` that say where the session comes from."""
    return {key: place[key] for key in (*_KEYS, IMPORTED) if key in place}


def without_lineage(place: Mapping[str, str]) -> dict[str, str]:
    """Return the other entries, as a fork has them, and what it was imported from."""
    return {key: text for key, text in place.items() if key not in _KEYS}


def depth_of(place: Mapping[str, str]) -> int:
    """Return how many delegates a session is below one of a person; 0 for that one. What can't be read is deep."""
    text = place.get(DEPTH, "0")
    return int(text) if text.isascii() and text.isdecimal() else 1_000_000


def is_delegate(place: Mapping[str, str]) -> bool:
    """Return True for the session of a delegate."""
    return place.get(WHY) == DELEGATE


async def peoples_sessions(sessions: SessionStore, limit: int, **given: Any) -> Sequence[SessionInfo]:
    """Return what ``sessions.list`` does with these arguments, without delegates' sessions. Raises StoreFailed."""
    look = max(2 * limit, _LEAST_LOOK)
    while True:
        found = await sessions.list(look, **given)
        own = [one for one in found if not is_delegate(one.place)]
        if len(own) >= limit or len(found) < look:
            return own[:limit]
        look *= 10


def never_ran(place: Mapping[str, str]) -> bool:
    """Return whether a session was imported, and nothing of it ran here yet."""
    return IMPORTED in place and "name" not in place


class Descent(NamedTuple):
    """Inheritance of a delegate's session: the tools that it may call, where it runs, and the model that is asked.

    ``place`` are its entries of lineage.
    """

    names: Sequence[str]
    location: Location
    place: Mapping[str, str]
    via: Mapping[str, str]
