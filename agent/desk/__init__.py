"""The front desk: the one service behind every interface. docs/front-desk.md shows how to write an interface.

    from agent.desk import SessionRequest

    session = await crib.desk.open(SessionRequest(platform="page", user="ann", suspends=True, watch=show))
    waiting = await crib.desk.approvals.waiting(session.id)

agent.events defines the events of a session. Each interface translates them for its users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.contract.late import late

if TYPE_CHECKING:
    from agent.desk.approvals import ApprovalDesk, ApprovalRequest, ApprovalRights
    from agent.desk.desk import FrontDesk
    from agent.desk.request import SessionRequest
else:
    _APPROVALS = "agent.desk.approvals"
    __getattr__ = late(
        __name__,
        {
            "ApprovalDesk": _APPROVALS,
            "ApprovalRequest": _APPROVALS,
            "ApprovalRights": _APPROVALS,
            "FrontDesk": "agent.desk.desk",
            "SessionRequest": "agent.desk.request",
        },
    )

__all__ = ["ApprovalDesk", "ApprovalRequest", "ApprovalRights", "FrontDesk", "SessionRequest"]
