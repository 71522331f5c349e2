"""Lineage of a session: what the store says of which one it comes from and why, and what a delegate's takes on from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.namedtuple import NamedTuple

if TYPE_CHECKING:
    from agent.backends import Location
    from toolcrib.contract.store import SessionInfo

DELEGATE, FORK, IMPORT = "delegate", "fork", "import"
"""Values of ``SessionInfo.why``."""
DEPTH = "depth"
"""Key, in ``SessionInfo.place``, of the number of delegates above it, itself included."""
ORDER = "order"
"""Key of a delegate's task, as agent.delegates.task writes it."""

IMPORTED = "imported"
"""Key of what a session was imported from: toolcrib, or the other tool's name. A file may say anything: what it says of a
server, a backend, a folder or a mode is not gone by, until a person resumes the session and it has its own.
"""
_KEYS = (DEPTH, ORDER)


def session_id_of(platform: str, key: str) -> str:
    """Return the id of the session that a platform knows as ``key`` (a chat, a thread): the same in every process."""
    return hashlib.sha256(f"{platform}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def kept_lineage(place: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of ``SessionInfo.place`` that say what the session was begun with."""
    return {key: place[key] for key in (*_KEYS, IMPORTED) if key in place}


def without_lineage(place: Mapping[str, str]) -> dict[str, str]:
    """Return the other entries, as a fork has them, and what it was imported from."""
    return {key: text for key, text in place.items() if key not in _KEYS}


def depth_of(place: Mapping[str, str]) -> int:
    """Return how many delegates a session is below one of a person; 0 for that one. What can't be read is deep."""
    text = place.get(DEPTH, "0")
    return int(text) if text.isascii() and text.isdecimal() else 1_000_000


def is_delegate(info: SessionInfo) -> bool:
    """Return True for the session of a delegate."""
    return info.why == DELEGATE


def never_ran(place: Mapping[str, str]) -> bool:
    """Return whether a session was imported, and nothing of it ran here yet."""
    return IMPORTED in place and "name" not in place


class Descent(NamedTuple):
    """Inheritance of a delegate's session: the tools that it may call, where it runs, and the model that is asked.

    ``parent`` is the id of the session whose delegate it is, ``place`` the entries that it begins with.
    """

    names: Sequence[str]
    location: Location
    parent: str
    place: Mapping[str, str]
    via: Mapping[str, str]
