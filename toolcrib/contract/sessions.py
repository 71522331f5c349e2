"""Protocol of the conversations in a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from toolcrib.contract.records import NO_ENTRIES, SessionInfo
from toolcrib.contract.types import Json


class SessionStore(Protocol):
    """Conversations. A message is a JSON object with a ``role``. ``append`` returns when the message is kept for good.

    What takes a ``session_id`` raises KeyError for a session that was never created.
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
        """Creating a session again leaves it as it is. ``parent`` and ``why`` stay for good."""
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
        """Change what is given."""
        ...

    async def label(self, session_id: str, *, title: str | None = None, tags: Iterable[str] | None = None) -> None:
        """Set what a person calls the session, and its tags, in this order, each once. The time of its last use stays."""
        ...

    async def add(self, info: SessionInfo, messages: Sequence[Mapping[str, Json]], times: Sequence[float] = ()) -> bool:
        """Keep a session that was elsewhere, whole: as ``info`` tells but for ``host``, and with the times (Unix seconds) of its
        messages; those beyond ``times`` have the session's last one. An empty title is made as by ``append``.

        False, and nothing is changed, where one with its id is there.
        """
        ...

    async def prompt(self, session_id: str) -> Mapping[str, Json]:
        """Return what ``update`` was last given as ``prompt``: the part of the system prompt that stays. Empty for nothing."""
        ...

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Append a message to the session."""
        ...

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """All of them or, where it raises, none."""
        ...

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """Return messages in order, from the ``offset``-th on, at most ``limit``."""
        ...

    async def get(self, prefix: str) -> SessionInfo | None:
        """The session of that id, or the only one whose id begins so. Raises ToolcribError with the candidates of several."""
        ...

    async def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        """The one that ``list`` would give first."""
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
        """Return sessions in which a user said something, the last used first; the arguments that are given must match. Of
        ``tags`` a session has each. Without ``delegates`` those of delegates are left out.
        """
        ...

    async def children(self, session_id: str) -> Sequence[SessionInfo]:
        """Return the sessions that come from this one, the first one first: see SessionInfo.parent. None for an unknown one."""
        ...
