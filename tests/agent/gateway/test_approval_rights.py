"""Who may answer what."""

from __future__ import annotations

from typing import Any

import pytest

from agent.gateway.admission import Admitted
from agent.gateway.approval_rights import Deciding, scopes_of
from toolcrib import Principal, SuspendTicket
from toolcrib.contract.store import TicketRecord

APPROVERS = {"fs": ("owner", "admins"), "git.push-force": ("release",), "service.stop": ()}


def ticket(*keys: str, **more: Any) -> TicketRecord:
    parameters = {"findings": [{"key": key} for key in keys], "scopes": ["once", "session", "always"]}
    return TicketRecord(SuspendTicket("approve", "?", parameters=parameters, **more), "s")


@pytest.mark.parametrize(
    ("keys", "roles", "may"),
    [
        (["fs.recursive-delete@/x"], ["admins"], True),
        (["fs.recursive-delete@/x"], ["members"], False),
        (["git.push-force@origin/main"], ["owner"], False),
        (["git.push-force@origin/main"], ["release"], True),
        (["git.reset@/x"], ["owner"], True),
        (["git.reset@/x"], ["admins"], False),
        (["fs.write@/x", "git.push-force@o/m"], ["admins"], False),
        (["fs.write@/x", "git.push-force@o/m"], ["admins", "release"], True),
        (["service.stop@nginx"], ["owner"], False),
        (["fsx@/y"], ["admins"], False),
        ([], ["admins"], False),
        ([], ["owner"], True),
    ],
)
def test_every_finding_needs_somebody_who_may(keys: list[str], roles: list[str], *, may: bool) -> None:
    """003-25"""
    assert Deciding(APPROVERS).may(Admitted("ann", tuple(roles)), ticket(*keys), Principal("fake", "ann")) is may


def test_a_question_is_for_whoever_asked() -> None:
    deciding, record = Deciding({}), ticket(resume_mode="pass_to_tool")
    assert deciding.may(Admitted("ann"), record, Principal("fake", "ann"))
    assert deciding.may(Admitted("ann"), record, Principal("fake", "room:g", (), "ann"))
    assert not deciding.may(Admitted("bob"), record, Principal("fake", "ann"))
    assert deciding.may(Admitted("bob", ("owner",)), record, Principal("fake", "ann"))
    assert not deciding.may(Admitted("bob"), record, None)


def test_a_chat_gives_nothing_for_always() -> None:
    assert scopes_of(ticket("fs.write@/x")) == ["once", "session"]
