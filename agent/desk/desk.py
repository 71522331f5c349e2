"""FrontDesk: opens sessions for every interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.desk.request import SessionRequest
    from toolcrib.contract.store import Store


class FrontDesk:
    """``open_session`` opens the session of a request in its workspace."""

    def __init__(self, store: Store, open_session: Callable[[SessionRequest], Awaitable[Session]]) -> None:
        self._store = store
        self._open_session = open_session

    async def open(self, request: SessionRequest) -> Session:
        """Open the session of a request. Close it at the end. Raises as Crib.open."""
        return await self._open_session(request)
