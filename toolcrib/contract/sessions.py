"""Protocol of the conversations in a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from toolcrib.contract.records import NO_ENTRIES, SessionInfo
from toolcrib.contract.types import Json


class SessionStore(Protocol):
    """Conversations. A message is a JSON object with a ``role``. ``append`` returns when the message is stored.

    Methods with a ``session_id`` raise KeyError for a session that was never created.
    """

    async def create(
        self,
        session_id: str,
        *,
        platform: str,
        user: str,
        model: str = "",
        cwd: str = "",
        place: Mapping[str, str] = NO_ENTRIES,
        via: Mapping[str, str] = NO_ENTRIES,
        parent: str = "",
        why: str = "",
    ) -> None:
        """Create a session; an existing one is left unchanged. ``parent`` and ``why`` never change."""
        ...

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        place: Mapping[str, str] | None = None,
        host: str | None = None,
        via: Mapping[str, str] | None = None,
        prompt: Mapping[str, Json] | None = None,
    ) -> None:
        """Change the given fields."""
        ...

    async def label(self, session_id: str, *, title: str | None = None, tags: Iterable[str] | None = None) -> None:
        """Set the title that a person chose, and the tags, in their given order without repetitions. The time of the last use
        stays.
        """
        ...

    async def add(self, info: SessionInfo, messages: Sequence[Mapping[str, Json]], times: Sequence[float] = ()) -> bool:
        """Store a session that began elsewhere, with its messages: all fields as in ``info`` except ``host``. ``times`` (Unix
        seconds) are those of the first messages; the others get ``info.updated_at``. An empty title is derived as by ``append``.

        Return False, and change nothing, if a session with that id exists.
        """
        ...

    async def prompt(self, session_id: str) -> Mapping[str, Json]:
        """Return the last ``prompt`` given to ``update``: the fixed part of the system prompt. Empty for none."""
        ...

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Append a message to the session."""
        ...

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """Append all messages or, if this raises, none."""
        ...

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """Return messages in order, from the ``offset``-th on, at most ``limit``."""
        ...

    async def get(self, prefix: str) -> SessionInfo | None:
        """Return the session with that id, or the only one whose id begins with it. Raises ToolcribError with the candidates if
        there are several.
        """
        ...

    async def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        """Return the session that ``list`` would return first, or None."""
        ...

    async def list(
        self,
        limit: int = 20,
        *,
        platform: str | None = None,
        user: str | None = None,
        cwd: str | None = None,
        tags: Iterable[str] = (),
        delegates: bool = True,
    ) -> Sequence[SessionInfo]:
        """Return sessions that a user wrote in, the last used first; given arguments must match. A session must have all
        ``tags``. Without ``delegates``, sessions of delegates are left out.
        """
        ...

    async def children(self, session_id: str) -> Sequence[SessionInfo]:
        """Return the sessions that come from this one, the oldest first: see SessionInfo.parent. An unknown session has none."""
        ...
