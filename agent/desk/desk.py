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
    """``open_session`` opens the session of a request in its workspace, ``approvers`` is what ApprovalRights reads."""

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
        """What waits for a user's decision, in any session."""
        from agent.desk.approvals import ApprovalDesk, ApprovalRights

        return ApprovalDesk(self._store, ApprovalRights(self._approvers))

    async def open(self, request: SessionRequest) -> Session:
        """Open the session of a request. Close it at the end. Raises as Crib.open."""
        return await self._open_session(request)
