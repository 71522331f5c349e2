"""FrontDesk: opens sessions for every interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.desk.approvals import ApprovalDesk
    from agent.desk.request import SessionRequest
    from toolcrib.contract.store import Store


class FrontDesk:
    """The service that opens sessions. ``open_session`` opens a session in its workspace; ``approvers`` is for ApprovalRights."""

    def __init__(
        self,
        store: Store,
        open_session: Callable[[SessionRequest], Awaitable[Session]],
        approvers: Callable[[], Mapping[str, Sequence[str]]] = dict,
    ) -> None:
        self._store = store
        self._open_session = open_session
        self._approvers = approvers

    @cached_property
    def approvals(self) -> ApprovalDesk:
        """The approval requests of all sessions."""
        from agent.desk.approvals import ApprovalDesk, ApprovalRights

        return ApprovalDesk(self._store, ApprovalRights(self._approvers))

    async def open(self, request: SessionRequest) -> Session:
        """Open the session of a request; the caller closes it. Raises what Crib.open raises."""
        return await self._open_session(request)
