"""Rights to decide an approval request; a decision counts once, and only if its author has the right."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.conversation.answers import record_answer
from agent.desk.approvals import ApprovalDesk, ApprovalRequest, ApprovalRights
from agent.store.memory import MemoryStore
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, NotFound, Principal, SuspendTicket, ToolCall, ToolcribError
from toolcrib.contract.errors import Denied
from toolcrib.contract.store import Store, TicketRecord

LOCAL = Principal()
APPROVERS = {"fs": ("owner", "admins"), "git.push-force": ("release",), "service.stop": ()}


def ticket(*keys: str, **more: Any) -> TicketRecord:
    """Return a ticket about findings with these keys."""
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
def test_every_finding_needs_a_role(keys: list[str], roles: list[str], *, may: bool) -> None:
    """003-25"""
    ann = Principal("fake", "ann", tuple(roles))
    assert rights().may(ann, ApprovalRequest(ticket(*keys), Principal("fake", "bob"))) is may


def rights() -> ApprovalRights:
    return ApprovalRights(lambda: APPROVERS)


@pytest.mark.parametrize("keys", [["service.stop@nginx"], []])
def test_the_local_user_may_always_decide(keys: list[str]) -> None:
    request = ApprovalRequest(ticket(*keys), Principal("fake", "ann"))
    assert rights().may(Principal("cli"), request)
    assert not rights().may(Principal("fake"), request)
    assert not rights().may(Principal("cli", "ann"), request)


def test_a_question_is_for_the_user_of_the_run() -> None:
    record = ticket(resume_mode="pass_to_tool")
    ann, bob, owner = Principal("fake", "ann"), Principal("fake", "bob"), Principal("fake", "bob", ("owner",))
    assert rights().may(ann, ApprovalRequest(record, ann))
    assert rights().may(ann, ApprovalRequest(record, Principal("fake", "room:g", (), "ann")))
    assert not rights().may(Principal("other", "ann"), ApprovalRequest(record, ann))
    assert not rights().may(bob, ApprovalRequest(record, ann))
    assert rights().may(owner, ApprovalRequest(record, ann))
    assert not rights().may(bob, ApprovalRequest(record, None))


def test_the_user_of_the_run_may_always_deny() -> None:
    ann, bob = Principal("fake", "ann"), Principal("fake", "bob")
    request = ApprovalRequest(ticket("fs.write@/x"), ann)
    assert rights().may(ann, request, {"approved": False})
    assert not rights().may(ann, request, {"approved": True})
    assert not rights().may(bob, request, {"approved": False})


def test_nobody_away_from_the_terminal_approves_for_always() -> None:
    assert ApprovalRequest(ticket("fs.write@/x"), None).scopes == ["once", "session"]


async def a_desk() -> ApprovalDesk:
    """Return a desk with one request of ann's."""
    store = MemoryStore()
    await store.sessions.create("s", platform="fake", user="ann", model="", cwd="/", place={}, via={})
    await store.tickets.put(ticket("fs.write@/x", call=ToolCall("c", "terminal", {}), id="t1"))
    return ApprovalDesk(store, rights())


async def test_a_decision_counts_once() -> None:
    desk = await a_desk()
    admin, yes = Principal("fake", "bob", ("admins",)), {"approved": True, "scope": "once"}
    [request] = await desk.waiting()
    assert request.asked == Principal("fake", "ann")
    assert await desk.decide(request, yes, who=admin, decision_id="press-1") == "settled"
    assert await desk.decide(request, yes, who=admin, decision_id="press-1") == "repeated"
    with pytest.raises(Denied):
        await desk.decide(request, {"approved": False}, who=admin)
    assert await desk.waiting() == []
    settled = await desk.find("t1")
    assert settled.record.answer is not None
    assert settled.record.answer.by == "fake:bob"


@pytest.mark.parametrize(
    ("who", "payload"),
    [
        (Principal("fake", "ann"), {"approved": True}),
        (Principal("fake", "bob"), {"approved": False}),
        (Principal("fake", "bob", ("admins",)), {"approved": True, "scope": "always"}),
    ],
)
async def test_a_decision_that_is_not_theirs_is_not_recorded(who: Principal, payload: Any) -> None:
    """003-28"""
    desk = await a_desk()
    [request] = await desk.waiting()
    with pytest.raises(Denied):
        await desk.decide(request, payload, who=who)
    assert [one.record.state for one in await desk.waiting()] == ["pending"]


@pytest.mark.parametrize(
    ("payload", "mode"), [({"approved": False}, "replay"), ("tea", "pass_to_tool"), ({"approved": False}, "pass_to_tool")]
)
async def test_a_principal_without_a_user_decides_nothing(payload: Any, mode: Any) -> None:
    """Two users without ids are not the same user."""
    store, nobody = MemoryStore(), Principal("page")
    await store.sessions.create("s", platform="page", user="")
    await store.tickets.put(ticket(call=ToolCall("c", "t", {}), id="t1", resume_mode=mode))
    desk = ApprovalDesk(store, rights())
    [request] = await desk.waiting()
    assert request.asked == nobody
    assert not request.is_for(nobody)
    with pytest.raises(Denied, match="may not decide this"):
        await desk.decide(request, payload, who=nobody)
    with pytest.raises(Denied, match="belongs to another user"):
        await record_answer(store, Answer("t1", payload=payload), nobody)
    assert len(await desk.waiting()) == 1


def test_a_request_of_the_local_user_is_for_the_local_user() -> None:
    assert ApprovalRequest(ticket(), LOCAL).is_for(LOCAL)


async def a_relaying_desk(**lineage: str) -> ApprovalDesk:
    """Return a desk with an approval request of ann's session ``s``, and a question of the session ``above`` that relays it."""
    store = MemoryStore()
    await store.sessions.create("above", platform="fake", user="ann")
    await store.sessions.create("s", platform="fake", user="ann", **lineage)
    await store.tickets.put(ticket("fs.write@/x", call=ToolCall("c", "terminal", {}), id="t1"))
    asks = SuspendTicket("form", "tea?", ToolCall("c2", "form", {}), {"relays": "t1"}, None, "pass_to_tool", id="tea")
    await store.tickets.put(TicketRecord(asks, "above"))
    return ApprovalDesk(store, rights())


async def test_a_question_hides_and_settles_no_request_of_another_session() -> None:
    desk, ann = await a_relaying_desk(), Principal("fake", "ann")
    waiting = {one.record.ticket.id: one for one in await desk.waiting()}
    assert set(waiting) == {"t1", "tea"}
    assert await desk.decide(waiting["tea"], {"approved": True, "scope": "once"}, who=ann) == "settled"
    assert [one.record.ticket.id for one in await desk.waiting()] == ["t1"]


async def test_an_answer_needs_the_rights_and_a_scope_of_every_request_that_it_settles() -> None:
    desk = await a_relaying_desk(parent="above", why="delegate")
    [tea] = await desk.waiting()
    assert tea.record.ticket.id == "tea"
    with pytest.raises(Denied, match="fake:ann may not decide this; admins, owner may"):
        await desk.decide(tea, {"approved": True, "scope": "once"}, who=Principal("fake", "ann"))
    owner = Principal("fake", "bob", ("owner",))
    with pytest.raises(Denied, match="this scope is not available here"):
        await desk.decide(tea, {"approved": True, "scope": "always"}, who=owner)
    assert [one.record.state for one in (tea, await desk.find("t1"))] == ["pending", "pending"]
    assert await desk.decide(tea, {"approved": True, "scope": "once"}, who=owner) == "settled"
    assert (await desk.find("t1")).record.state == "approved"


# -- denied from outside the session -------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    asyncio.run(made.sessions.create("s1", platform="cli", user="ann"))
    yield made
    made.close()


def desk_of(store: Store) -> ApprovalDesk:
    return ApprovalDesk(store, rights())


async def ask(store: Store, ticket_id: str, session: str = "s1", *, expires_at: float | None = None) -> TicketRecord:
    call = ToolCall(f"c-{ticket_id}", "terminal", {"command": "rm -rf build"})
    ticket = SuspendTicket("approve_tool", "terminal: rm -rf build\nrecursive delete", call, {}, id=ticket_id)
    record = TicketRecord(ticket, session, at=time.time(), expires_at=expires_at)
    await store.tickets.put(record)
    return record


async def test_a_late_denial_is_told_why(stored: Store) -> None:
    await ask(stored, "aa11")
    await ask(stored, "bb22", expires_at=time.time() - 1)
    await desk_of(stored).deny("aa11", who=LOCAL, by="ann", reason="not today")
    for ticket_id, state in (("aa11", "denied"), ("bb22", "expired")):
        with pytest.raises(Denied, match=rf"already decided \({state}\)"):
            await desk_of(stored).deny(ticket_id, who=LOCAL, by="ann")


async def test_a_request_of_another_session_is_not_listed(stored: Store) -> None:
    await stored.sessions.create("s3", platform="cli", user="ann")
    await ask(stored, "aa11")
    assert [one.record.ticket.id for one in await desk_of(stored).waiting("s1")] == ["aa11"]
    assert await desk_of(stored).waiting("s3") == []


async def test_a_denial_is_kept_with_who_and_why(stored: Store) -> None:
    """003-28"""
    await ask(stored, "aa11")
    await ask(stored, "aa22")
    with pytest.raises(ToolcribError, match=r"2 requests begin with 'aa' \(aa11, aa22\)"):
        await desk_of(stored).deny("aa", who=LOCAL, by="ann")
    for prefix in ("", "zz"):
        with pytest.raises(NotFound, match="List the pending ones: toolcrib approvals pending"):
            await desk_of(stored).deny(prefix, who=LOCAL, by="ann")
    await desk_of(stored).deny("aa1", who=LOCAL, by="ann", reason="not today")
    record = await stored.tickets.get("aa11")
    assert record is not None
    assert record.answer is not None
    assert (record.state, record.answer.by, record.answer.payload) == (
        "denied",
        "ann",
        {"approved": False, "reason": "not today"},
    )
    assert [one.record.ticket.id for one in await desk_of(stored).waiting()] == ["aa22"]


async def test_of_an_approval_and_a_denial_at_once_one_counts(stored: Store) -> None:
    for number in range(20):
        ticket_id = f"t{number}"
        await ask(stored, ticket_id)
        start = threading.Barrier(2)
        won: list[str] = []

        async def yes(ticket_id: str = ticket_id, won: list[str] = won) -> None:
            answer = Answer(ticket_id, payload={"approved": True}, by="ann")
            if await stored.tickets.decide_ticket(answer, "approved") == "settled":
                won.append("approved")

        async def no(ticket_id: str = ticket_id, won: list[str] = won) -> None:
            with contextlib.suppress(Denied):
                await desk_of(stored).deny(ticket_id, who=LOCAL, by="ben")
                won.append("denied")

        def in_time(work: Callable[[], Coroutine[Any, Any, None]], start: threading.Barrier = start) -> None:
            start.wait()
            asyncio.run(work())

        threads = [threading.Thread(target=in_time, args=(one,)) for one in (yes, no)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join, 60)
        record = await stored.tickets.get(ticket_id)
        assert record is not None
        assert won == [record.state]
