"""Conformance of every store: leases, the writes that they guard, and what the next holder finds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.store._owner import new_owner
from toolcrib import Answer, LeaseLost, StoreFailed, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.artifacts import ArtifactStore
from toolcrib.contract.state import StateStore, StateWrite
from toolcrib.contract.store import AuditEntry, Fence, Grant, InboxItem, Lease, RunRecord, SessionInfo, Store, TicketRecord
from toolcrib.contract.undo import ChangeStep, FileChange

S = ToolCallStatus
HOUR = 3600.0
SAID = {"role": "user", "text": "hi"}


async def taken(store: Store, name: str = "s", seconds: float = HOUR) -> Lease:
    lease = await store.leases.take(name, new_owner(), seconds)
    assert lease is not None
    return lease


def run_of(session_id: str = "s", step: int = 1, **more: Any) -> RunRecord:
    return RunRecord(**{"id": "r", "session_id": session_id, "status": "running", "step": step, "state": {"turn": step}, **more})


async def open_session(store: Store, session_id: str = "s") -> None:
    await store.sessions.create(session_id, platform="cli", user="me")


# -- leases ----------------------------------------------------------------------------------------------------------


async def test_a_lease_has_one_holder_and_its_token_grows(store: Store) -> None:
    first = await taken(store)
    assert (first.name, first.token, first.seconds) == ("s", 1, HOUR)
    assert await store.leases.take("s", new_owner(), HOUR) is None
    assert await store.leases.take("s", first.owner, HOUR) is None
    assert await store.leases.holder("s") == first.owner
    assert (await taken(store, "t")).token == 1
    assert await store.leases.renew(first)
    await store.leases.release(first)
    assert await store.leases.holder("s") is None
    second = await taken(store)
    assert second.token == 2
    await store.leases.release(first)
    assert await store.leases.holder("s") == second.owner
    assert not await store.leases.renew(first)
    assert await store.leases.holder("never") is None


async def test_a_lease_that_lapsed_is_taken_over(store: Store) -> None:
    first = await taken(store, seconds=0.0)
    assert await store.leases.holder("s") is None
    assert await store.leases.renew(replace(first, seconds=HOUR)), "no other owner took it"
    assert await store.leases.holder("s") == first.owner
    assert await store.leases.renew(replace(first, seconds=0.0))
    second = await taken(store)
    assert second.token == first.token + 1
    assert not await store.leases.renew(first)


@pytest.mark.parametrize("part", [1, 2, 3])
async def test_an_owner_of_another_boot_or_namespace_is_never_assumed_dead(store: Store, part: int) -> None:
    """Neither is an owner in an unknown form."""
    mine = new_owner().split(":")
    mine[0] = "4194304"  # above every process id
    odd = ":".join([*mine[:part], "elsewhere" if part > 1 else "", *mine[part + 1 :]])
    assert await store.leases.take("s", odd, HOUR) is not None
    assert await store.leases.take("s", new_owner(), HOUR) is None
    assert await store.leases.take("t", "somebody", HOUR) is not None
    assert await store.leases.take("t", new_owner(), HOUR) is None
    assert await store.leases.take("gone", ":".join(mine), HOUR) is not None
    assert await store.leases.holder("gone") is None
    assert await store.leases.take("gone", new_owner(), HOUR) is not None


async def test_of_many_one_takes_a_lease(store: Store) -> None:
    for name in map(str, range(10)):
        found = await asyncio.gather(*(store.leases.take(name, new_owner(), HOUR) for _ in range(8)))
        assert [lease.token for lease in found if lease is not None] == [1]


# -- fencing ---------------------------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "ledger.open": lambda store: store.ledger.open(ToolCall("new", "x"), "s"),
    "ledger.move": lambda store: store.ledger.move("s", "c", S.SUSPENDED),
    "ledger.handler_started": lambda store: store.ledger.handler_started("s", "c"),
    "ledger.finish": lambda store: store.ledger.finish("s", "c", S.SUCCEEDED, ToolResult.success("x", 1)),
    "tickets.put": lambda store: store.tickets.put(TicketRecord(SuspendTicket("a", "?", id="late"), "s")),
    "grants.add": lambda store: store.grants.add(Grant("late", "session", "k", "/", session_id="s")),
    "grants.spend": lambda store: store.grants.spend("g"),
    "grants.revoke": lambda store: store.grants.revoke("g"),
    "audit.record": lambda store: store.audit.record(AuditEntry(1.0, "s", "c", "x", "approved", "me")),
    "sessions.create": lambda store: store.sessions.create("late", platform="cli", user="me"),
    "sessions.update": lambda store: store.sessions.update("s", title="late"),
    "sessions.label": lambda store: store.sessions.label("s", title="late", tags=["late"]),
    "sessions.add": lambda store: store.sessions.add(SessionInfo("late", "", "cli", "me", "", "", 1.0, 1.0, 1), [SAID]),
    "sessions.append": lambda store: store.sessions.append("s", SAID),
    "sessions.append_many": lambda store: store.sessions.append_many("s", [SAID, SAID]),
    "changes.begin": lambda store: store.changes.begin(ChangeStep("s", 1, "c", "x", 1.0, (FileChange("/a", "", None, None),))),
    "changes.forget": lambda store: store.changes.forget([1]),
    "changes.mark_changes": lambda store: store.changes.mark_changes(1, undone=[1]),
    "changes.mark_reported": lambda store: store.changes.mark_reported([1]),
    "changes.prune": lambda store: store.changes.prune(1e12),
    "runs.commit": lambda store: store.runs.commit(run_of(step=2), messages=[SAID]),
    "origins.remember": lambda store: store.origins.remember("s", {"/a": 1}),
    "state.write": lambda store: store.state.write([StateWrite("session", "s", "late", 1)]),
    "artifacts.put": lambda store: store.artifacts.put("s", b"late"),
    "artifacts.share": lambda store: store.artifacts.share("other", "s"),
    "recover": lambda store: store.recover("s"),
}


async def everything(store: Store) -> list[Any]:
    """Return everything that the writes above could change."""
    return [
        await store.ledger.calls("s"),
        await store.tickets.pending(),
        await store.grants.all(),
        await store.audit.entries(),
        await store.sessions.get("s"),
        await store.sessions.get("late"),
        await store.sessions.messages("s"),
        await store.changes.steps("s"),
        await store.changes.unreported("s"),
        await store.runs.get("r"),
        await store.origins.of("s"),
        await store.state.of("session", "s"),
        await store.artifacts.of("s"),
    ]


async def fill(store: Store) -> None:
    await open_session(store)
    await store.ledger.open(ToolCall("c", "x"), "s", S.RUNNING)
    await store.grants.add(Grant("g", "uses", "k", "/", session_id="s", uses_left=2))
    await store.changes.begin(ChangeStep("s", 1, "c", "x", 1.0, (FileChange("/a", "", None, None),)))
    await store.changes.begin(ChangeStep("s", 1, "c", "x", 1.0, (FileChange("/a", "", None, None),), kind="undo"))
    await store.runs.commit(run_of())
    await store.origins.remember("s", {"/b": 2})
    await store.artifacts.put("other", b"x")


def test_every_write_of_a_view_is_tried() -> None:
    """A method that is added later must be added here too."""
    from toolcrib.contract import store as _store
    from toolcrib.contract import undo as _undo

    guarded = {
        "ledger": _store.CallLedger, "tickets": _store.TicketStore, "grants": _store.GrantStore, "audit": _store.AuditLog,
        "sessions": _store.SessionStore, "changes": _undo.ChangeJournal, "runs": _store.RunStore, "origins": _store.OriginStore,
        "state": StateStore, "artifacts": ArtifactStore,
    }  # fmt: skip
    reads = {
        "ledger.get", "ledger.calls", "tickets.get", "tickets.pending", "tickets.of_call", "tickets.due", "grants.all",
        "audit.entries", "sessions.messages", "sessions.prompt", "sessions.get", "sessions.latest", "sessions.list",
            "sessions.children",
        "changes.steps", "changes.sessions", "changes.unreported", "runs.get", "runs.current", "runs.parked", "runs.unfinished",
        "runs.last",
        "origins.of", "origins.copies", "state.of", "artifacts.get", "artifacts.of",
        "artifacts.newest",
    }  # fmt: skip
    open_to_all = {"tickets.decide_ticket", "tickets.reminded"}
    names = {f"{member}.{name}" for member, of in guarded.items() for name in vars(of) if not name.startswith("_")}
    assert names - reads - open_to_all == WRITES.keys() - {"recover"}


@pytest.mark.parametrize("name", WRITES)
async def test_a_stale_holder_writes_nothing(store: Store, name: str) -> None:
    fence = Fence(await taken(store, seconds=0.0))
    mine = store.fenced(fence)
    await fill(mine)
    assert fence.lease is not None
    await taken(store)
    before = await everything(store)
    with pytest.raises(LeaseLost, match="'s' was taken over by another process"):
        await WRITES[name](mine)
    assert await everything(store) == before
    assert await everything(mine) == before, "it may still read"


@pytest.mark.parametrize("name", WRITES)
async def test_who_holds_the_lease_writes(store: Store, name: str) -> None:
    lease = await taken(store)
    view = store.fenced(Fence(lease))
    await fill(view)
    await WRITES[name](view)
    await store.leases.release(lease)
    await store.sessions.append("s", SAID)
    await view.sessions.append("s", SAID)  # no other owner took it
    view.close()
    await store.sessions.append("s", SAID)


async def test_a_lost_lease_is_a_fault_of_the_store(store: Store) -> None:
    fence = Fence()
    view = store.fenced(fence)
    await open_session(view)  # no lease was taken yet
    fence.lease = await taken(store, seconds=0.0)
    await view.sessions.append("s", SAID)
    await taken(store)
    with pytest.raises(StoreFailed):
        await view.sessions.append("s", SAID)
    fence.lease = await taken(store, "other")
    await view.sessions.append("s", SAID)
    assert len(await store.sessions.messages("s")) == 2


async def test_anybody_answers_and_says_something(store: Store) -> None:
    stale = Fence(await taken(store, seconds=0.0))
    view = store.fenced(stale)
    await open_session(view)
    ticket = SuspendTicket("approve", "?")
    await view.tickets.put(TicketRecord(ticket, "s", remind_at=5.0))
    await taken(store)
    assert await view.inbox.put(InboxItem("s", "hello")) is not None
    assert await view.tickets.reminded(ticket.id, 5.0, None)
    assert await view.tickets.decide_ticket(Answer(ticket.id), "approved") == "settled"


# -- recovery --------------------------------------------------------------------------------------------------------


async def test_calls_that_an_earlier_holder_left_are_ended(store: Store) -> None:
    """002-27"""
    await store.ledger.open(ToolCall("alone", "x"), "s", S.RUNNING)  # by a writer without a lease
    earlier = store.fenced(Fence(await taken(store, seconds=0.0)))
    for name, moves in {
        "new": (), "asks": (S.RUNNING, S.SUSPENDED), "resumes": (S.RUNNING, S.SUSPENDED, S.RESUMING), "works": (S.RUNNING,),
        "ended": (S.RUNNING, S.SUCCEEDED), "moved": (),
    }.items():  # fmt: skip
        await earlier.ledger.open(ToolCall(name, "x"), "s")
        for move in moves:
            await earlier.ledger.move("s", name, move)
    await earlier.ledger.handler_started("s", "works")
    await earlier.ledger.open(ToolCall("c", "x"), "other")
    mine = store.fenced(Fence(await taken(store)))
    await mine.ledger.open(ToolCall("mine", "x"), "s", S.RUNNING)
    await mine.ledger.move("s", "moved", S.RUNNING)
    assert list(await store.recover("s")) == [], "it holds no lease"
    ended = await mine.recover("s")
    assert [(one.call.id, one.status, one.result and one.result.message) for one in ended] == [
        ("alone", S.FAILED, "interrupted before it ran"),
        ("new", S.FAILED, "interrupted before it ran"),
        ("resumes", S.FAILED, "interrupted before it ran"),
        ("works", S.FAILED, "interrupted; it may have run, or may still be running"),
    ]
    assert all(one.ended_at for one in ended)
    assert list(await mine.recover("s")) == []
    found = {one.call.id: one.status for one in await store.ledger.calls("s")}
    assert [found[name] for name in ("asks", "ended", "moved", "mine")] == [S.SUSPENDED, S.SUCCEEDED, S.RUNNING, S.RUNNING]
    assert [one.status for one in await store.ledger.calls("other")] == [S.NEW]


async def test_a_call_that_another_suspended_goes_on_here(store: Store) -> None:
    """002-31: the answer arrives in another process"""
    earlier = store.fenced(Fence(await taken(store, seconds=0.0)))
    call = ToolCall("c", "x")
    ticket = SuspendTicket("approve", "?", call)
    await earlier.ledger.open(call, "s", S.RUNNING)
    await earlier.tickets.put(TicketRecord(ticket, "s"))
    await earlier.ledger.finish("s", "c", S.SUSPENDED, ToolResult.suspended_with("x", "?", ticket))
    mine = store.fenced(Fence(await taken(store)))
    assert list(await mine.recover("s")) == []
    assert await mine.tickets.decide_ticket(Answer(ticket.id, payload={"approved": True}), "approved") == "settled"
    for move in (S.RESUMING, S.RUNNING):
        await mine.ledger.move("s", "c", move)
    await mine.ledger.handler_started("s", "c")
    await mine.ledger.finish("s", "c", S.SUCCEEDED, ToolResult.success("x", 1))
    [record] = await store.ledger.calls("s")
    assert (record.status, record.result) == (S.SUCCEEDED, ToolResult.success("x", 1))


async def test_a_call_begins_as_new_or_running(store: Store) -> None:
    await store.ledger.open(ToolCall("c", "x"), "s", S.RUNNING)
    [record] = await store.ledger.calls("s")
    assert record.status is S.RUNNING
    with pytest.raises(ValueError, match="opened as new or running, not as failed"):
        await store.ledger.open(ToolCall("d", "x"), "s", S.FAILED)
