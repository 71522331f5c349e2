"""What every store does for runs that outlive their process: leases and fencing, steps, the inbox, reminders, signals."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.store._owner import new_owner
from toolcrib import Answer, LeaseLost, StoreFailed, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib._store import AuditEntry, Fence, Grant, InboxItem, Lease, RunRecord, Store, TicketRecord
from toolcrib._undo import ChangeStep, FileChange

S = ToolCallStatus
MakeStore = Callable[..., Store]
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
    assert await store.leases.renew(replace(first, seconds=HOUR)), "nobody else took it meanwhile"
    assert await store.leases.holder("s") == first.owner
    assert await store.leases.renew(replace(first, seconds=0.0))
    second = await taken(store)
    assert second.token == first.token + 1
    assert not await store.leases.renew(first)


@pytest.mark.parametrize("part", [1, 2, 3])
async def test_an_owner_of_another_boot_or_namespace_is_never_assumed_dead(store: Store, part: int) -> None:
    """Nor one that nothing is known of."""
    mine = new_owner().split(":")
    mine[0] = "4194304"  # above every process number
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
    "sessions.append": lambda store: store.sessions.append("s", SAID),
    "sessions.append_many": lambda store: store.sessions.append_many("s", [SAID, SAID]),
    "changes.begin": lambda store: store.changes.begin(ChangeStep("s", 1, "c", "x", 1.0, (FileChange("/a", "", None, None),))),
    "changes.forget": lambda store: store.changes.forget([1]),
    "changes.settle": lambda store: store.changes.settle(1, undone=[1]),
    "changes.told": lambda store: store.changes.told([1]),
    "changes.prune": lambda store: store.changes.prune(1e12),
    "runs.commit": lambda store: store.runs.commit(run_of(step=2), messages=[SAID]),
    "origins.remember": lambda store: store.origins.remember("s", {"/a": 1}),
    "recover": lambda store: store.recover("s"),
}


async def everything(store: Store) -> list[Any]:
    """All that the writes above could change."""
    return [
        await store.ledger.calls("s"),
        await store.tickets.pending(),
        await store.grants.all(),
        await store.audit.entries(),
        await store.sessions.get("s"),
        await store.sessions.get("late"),
        await store.sessions.messages("s"),
        await store.changes.steps("s"),
        await store.changes.untold("s"),
        await store.runs.get("r"),
        await store.origins.of("s"),
    ]


async def fill(store: Store) -> None:
    await open_session(store)
    await store.ledger.open(ToolCall("c", "x"), "s", S.RUNNING)
    await store.grants.add(Grant("g", "uses", "k", "/", session_id="s", uses_left=2))
    await store.changes.begin(ChangeStep("s", 1, "c", "x", 1.0, (FileChange("/a", "", None, None),)))
    await store.changes.begin(ChangeStep("s", 1, "c", "x", 1.0, (FileChange("/a", "", None, None),), kind="undo"))
    await store.runs.commit(run_of())
    await store.origins.remember("s", {"/b": 2})


def test_every_write_of_a_view_is_tried() -> None:
    """A member that is added later must be added here too."""
    from toolcrib import _store, _undo

    guarded = {
        "ledger": _store.CallLedger, "tickets": _store.TicketStore, "grants": _store.GrantStore, "audit": _store.AuditLog,
        "sessions": _store.SessionStore, "changes": _undo.ChangeJournal, "runs": _store.RunStore, "origins": _store.OriginStore,
    }  # fmt: skip
    reads = {
        "ledger.get", "ledger.calls", "tickets.get", "tickets.pending", "tickets.of_call", "tickets.due", "grants.all",
        "audit.entries", "sessions.messages", "sessions.get", "sessions.latest", "sessions.list", "changes.steps",
        "changes.sessions", "changes.untold", "runs.get", "runs.current", "runs.parked", "origins.of",
    }  # fmt: skip
    open_to_all = {"tickets.settle", "tickets.reminded"}
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
    await view.sessions.append("s", SAID)  # nobody else took it
    view.close()
    await store.sessions.append("s", SAID)


async def test_a_lost_lease_is_a_fault_of_the_store(store: Store) -> None:
    fence = Fence()
    view = store.fenced(fence)
    await open_session(view)  # nothing was taken yet
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
    assert await view.tickets.settle(Answer(ticket.id), "approved") == "settled"


# -- recovery --------------------------------------------------------------------------------------------------------


async def test_calls_that_an_earlier_holder_left_are_ended(store: Store) -> None:
    """002-27"""
    await store.ledger.open(ToolCall("alone", "x"), "s", S.RUNNING)  # by who took no lease
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
        ("works", S.FAILED, "interrupted; it may have run, or still run"),
    ]
    assert all(one.ended_at for one in ended)
    assert list(await mine.recover("s")) == []
    found = {one.call.id: one.status for one in await store.ledger.calls("s")}
    assert [found[name] for name in ("asks", "ended", "moved", "mine")] == [S.SUSPENDED, S.SUCCEEDED, S.RUNNING, S.RUNNING]
    assert [one.status for one in await store.ledger.calls("other")] == [S.NEW]


async def test_a_call_that_another_suspended_goes_on_here(store: Store) -> None:
    """002-31: the answer comes to another process"""
    earlier = store.fenced(Fence(await taken(store, seconds=0.0)))
    call = ToolCall("c", "x")
    ticket = SuspendTicket("approve", "?", call)
    await earlier.ledger.open(call, "s", S.RUNNING)
    await earlier.tickets.put(TicketRecord(ticket, "s"))
    await earlier.ledger.finish("s", "c", S.SUSPENDED, ToolResult.suspended_with("x", "?", ticket))
    mine = store.fenced(Fence(await taken(store)))
    assert list(await mine.recover("s")) == []
    assert await mine.tickets.settle(Answer(ticket.id, payload={"approved": True}), "approved") == "settled"
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


# -- runs ------------------------------------------------------------------------------------------------------------


async def test_a_step_is_kept_whole_and_once(store: Store) -> None:
    await open_session(store)
    item = await store.inbox.put(InboxItem("s", "hello", key="k"))
    assert item is not None
    step = run_of(state={"turn": 1, "odd": ["\ud800", None, {"a": 1.5}]})
    assert await store.runs.commit(step, messages=[SAID, {"role": "assistant", "text": "yes"}], taken=[item.id])
    assert not await store.runs.commit(step, messages=[SAID], taken=[item.id])
    assert not await store.runs.commit(run_of(step=0), messages=[SAID])
    assert len(await store.sessions.messages("s")) == 2
    assert list(await store.inbox.waiting("s")) == []
    found = await store.runs.get("r")
    assert found is not None
    assert replace(found, updated_at=0.0) == step
    assert found.updated_at > 0
    info = await store.sessions.get("s")
    assert info is not None
    assert (info.messages, info.title) == (2, "hi")
    assert await store.runs.commit(run_of(step=2), messages=[SAID])
    assert len(await store.sessions.messages("s")) == 3
    assert await store.runs.get("unknown") is None


async def test_a_step_that_fails_leaves_nothing(store: Store) -> None:
    item = await store.inbox.put(InboxItem("never", "hello"))
    assert item is not None
    with pytest.raises(KeyError):
        await store.runs.commit(run_of("never"), messages=[SAID], taken=[item.id])
    assert await store.runs.get("r") is None
    assert list(await store.inbox.waiting("never")) == [item]


async def test_of_many_one_keeps_a_step(store: Store) -> None:
    await open_session(store)
    for step in range(1, 11):
        found = await asyncio.gather(*(store.runs.commit(run_of(step=step), messages=[SAID]) for _ in range(4)))
        assert found.count(True) == 1
    assert len(await store.sessions.messages("s")) == 10


async def test_runs_are_found_by_what_they_do(make_store: MakeStore) -> None:
    clock = itertools.count(100.0)
    store = make_store(clock=lambda: next(clock))
    for session in ("a", "b", "c"):
        await open_session(store, session)
        await store.runs.commit(run_of(session, id=f"old-{session}", status="ended"))
        assert await store.runs.current(session) is None
    for session, status in (("b", "parked"), ("a", "parked"), ("c", "running")):
        await store.runs.commit(run_of(session, id=session, status=status))
    assert [run.id for run in await store.runs.parked()] == ["b", "a"]
    assert [run.id for run in await store.runs.parked(1)] == ["b"]
    await store.runs.commit(run_of("b", id="b", step=2, status="parked"))
    assert [run.id for run in await store.runs.parked()] == ["a", "b"]
    current = await store.runs.current("c")
    assert current is not None
    assert current.id == "c"
    await store.runs.commit(run_of("c", id="c", step=2, status="ended"))
    assert await store.runs.current("c") is None


# -- the inbox -------------------------------------------------------------------------------------------------------


async def test_what_was_said_waits_in_order_and_is_known_by_its_key(store: Store) -> None:
    said = InboxItem(
        "s", "caf\u00e9 \ud800", "steer", "k1", {"platform": "telegram", "user": "7", "roles": ["x"]},
        ({"media_type": "image/png", "data": "AA=="},), {"limits": {"turns": 3}}, at=12.5,
    )  # fmt: skip
    first = await store.inbox.put(said)
    assert first is not None
    assert (replace(first, id=0), first.id > 0) == (said, True)
    assert await store.inbox.put(replace(said, text="again")) is None
    assert await store.inbox.put(replace(said, session_id="t")) is not None
    without = [await store.inbox.put(InboxItem("s", "no key")) for _ in range(2)]
    assert list(await store.inbox.waiting("s")) == [first, *without]
    assert without[0] is not None
    assert without[0].at > 0
    await store.inbox.drop([first.id, without[0].id])
    assert list(await store.inbox.waiting("s")) == [without[1]]
    assert await store.inbox.put(said) is None, "what was answered is not said again"
    later = await store.inbox.put(InboxItem("s", "later"))
    assert without[1] is not None
    assert later is not None
    await store.inbox.drop([without[1].id, later.id, 10_000])
    last = await store.inbox.put(InboxItem("s", "last"))
    assert last is not None
    assert last.id > later.id, "a number never means another item"


# -- where files came from -------------------------------------------------------------------------------------------


async def test_origins_are_added_and_never_forgotten(store: Store) -> None:
    assert dict(await store.origins.of("s")) == {}
    await store.origins.remember("s", {"/a": 1, "/odd \udcff": 4})
    await store.origins.remember("s", {"/a": 2, "/b": 8})
    await store.origins.remember("t", {f"/{number}": 1 for number in range(1000)})
    await store.origins.remember("s", {})
    assert dict(await store.origins.of("s")) == {"/a": 3, "/b": 8, "/odd \udcff": 4}
    assert len(await store.origins.of("t")) == 1000


# -- reminders, hosts, principals ------------------------------------------------------------------------------------


async def test_of_many_one_reminds(make_store: MakeStore) -> None:
    now = [10.0]
    store = make_store(clock=lambda: now[0])
    for name, remind_at, expires_at in (("a", 20.0, None), ("b", 15.0, 18.0), ("c", None, None), ("d", 30.0, None)):
        ticket = SuspendTicket("approve", "?", id=name)
        await store.tickets.put(TicketRecord(ticket, "s", remind_at=remind_at, expires_at=expires_at))
    assert [one.ticket.id for one in await store.tickets.due(15.0)] == ["b"]
    now[0] = 25.0
    assert [one.ticket.id for one in await store.tickets.due(25.0)] == ["a"]
    found = await asyncio.gather(*(store.tickets.reminded("a", 20.0, 40.0) for _ in range(4)))
    assert found.count(True) == 1
    assert [one.ticket.id for one in await store.tickets.due(39.0)] == ["d"]
    assert [one.remind_at for one in await store.tickets.due(40.0)] == [40.0, 30.0]
    await store.tickets.settle(Answer("a"), "approved")
    assert not await store.tickets.reminded("a", 40.0, None)
    assert not await store.tickets.reminded("unknown", 40.0, None)
    assert await store.tickets.reminded("d", 30.0, None)
    assert list(await store.tickets.due(99.0)) == []


async def test_the_host_of_a_session_is_kept(store: Store) -> None:
    await open_session(store)
    await store.sessions.update("s", host="h")
    await store.sessions.update("s", title="t")
    info = await store.sessions.get("s")
    assert info is not None
    assert (info.host, info.title) == ("h", "t")


async def test_lasting_grants_belong_to_a_principal(store: Store) -> None:
    mine = Grant("m", "always", "k", "/", argv=("ls",))
    theirs = Grant("t", "always", "k", "/", argv=("ls",), principal="telegram:7")
    here = Grant("h", "session", "k", "/", session_id="s", principal="telegram:7")
    for grant in (mine, theirs, here):
        await store.grants.add(grant)
    assert list(await store.grants.all("s")) == [mine, here]
    assert list(await store.grants.all("s", "telegram:7")) == [theirs, here]
    assert list(await store.grants.all("", "telegram:8")) == []
    assert list(await store.grants.all()) == [mine, theirs, here]


# -- signals ---------------------------------------------------------------------------------------------------------


async def test_signals_reach_who_listens(store: Store) -> None:
    heard: list[str] = []
    came = threading.Event()

    def hear(topic: str) -> None:
        heard.append(topic)
        came.set()

    await store.signals.send("nobody listens")

    def broken(topic: str) -> None:
        raise RuntimeError("this listener is broken")

    ends = [store.signals.listen(broken), store.signals.listen(hear)]
    await store.signals.send("s \ud800")
    assert await asyncio.to_thread(came.wait, 60)
    for end in ends:
        end()
        end()
    await store.signals.send("nobody listens any more")
    assert heard == ["s \ud800"]
