"""Lineage of a session: which session it comes from and why, and what a delegate's session inherits."""

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
"""Key, in ``SessionInfo.place``, of the session's depth: 0 for a user, 1 for a delegate of that, and so on."""
ORDER = "order"
"""Key of a delegate's task, as agent.delegates.task writes it."""

BOUNDS = "bounds"
"""Key of the only tools that users other than the local user may use in a session; set when its host opens it."""
IMPORTED = "imported"
"""Key of the source of an imported session: toolcrib, or another tool's name.

A file may contain anything, so its server, backend, mode and any folder outside the project are ignored. The session gets its own
when the user resumes it.
"""
_KEYS = (DEPTH, ORDER)


def session_id_of(platform: str, key: str) -> str:
    """Return the session id for a platform's ``key`` (a chat, a thread): the same in every process."""
    return hashlib.sha256(f"{platform}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def kept_lineage(place: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of ``SessionInfo.place`` about the session's origin."""
    return {key: place[key] for key in (*_KEYS, IMPORTED) if key in place}


def without_lineage(place: Mapping[str, str]) -> dict[str, str]:
    """Return the entries without a delegate's depth and task, for a fork."""
    return {key: text for key, text in place.items() if key not in _KEYS}


def depth_of(place: Mapping[str, str]) -> int:
    """Return the delegation depth of a session, 0 for a user's session. An unreadable depth counts as very deep."""
    text = place.get(DEPTH, "0")
    return int(text) if text.isascii() and text.isdecimal() else 1_000_000


def is_delegate(info: SessionInfo) -> bool:
    """Return True for the session of a delegate."""
    return info.why == DELEGATE


def never_ran(place: Mapping[str, str]) -> bool:
    """Return whether a session was imported and has not run here yet."""
    return IMPORTED in place and "name" not in place


class Descent(NamedTuple):
    """Inheritance of a delegate's session: the tools that it may call, where it runs, and its model.

    ``parent`` is the id of the parent session, ``place`` the entries that the new session begins with.
    """

    names: Sequence[str]
    location: Location
    parent: str
    place: Mapping[str, str]
    via: Mapping[str, str]
