"""Conformance of every store for runs that outlive their process: steps, the inbox, origins, reminders, signals."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolcrib import Answer, SuspendTicket
from toolcrib.contract.store import Grant, InboxItem, RunRecord, Store, TicketRecord

MakeStore = Callable[..., Store]
SAID = {"role": "user", "text": "hi"}


def run_of(session_id: str = "s", step: int = 1, **more: Any) -> RunRecord:
    return RunRecord(**{"id": "r", "session_id": session_id, "status": "running", "step": step, "state": {"turn": step}, **more})


async def open_session(store: Store, session_id: str = "s") -> None:
    await store.sessions.create(session_id, platform="cli", user="me")


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
    run = run_of("s", id="taking", step=1, status="running")
    await store.sessions.create("s", platform="cli", user="")
    await store.runs.commit(run, taken=[first.id, without[0].id])
    await store.inbox.drop([first.id])
    assert list(await store.inbox.waiting("s")) == [without[1]]
    assert await store.inbox.put(said) is None, "what was answered is not said again"
    dropped = await store.inbox.put(replace(said, key="k2"))
    assert dropped is not None
    await store.inbox.drop([dropped.id])
    assert await store.inbox.put(replace(said, key="k2", session_id="u")) is not None
    again = await store.inbox.put(replace(said, key="k2"))
    assert again is not None, "an item that was not taken may be sent again"
    await store.inbox.drop([again.id])
    later = await store.inbox.put(InboxItem("s", "later"))
    assert without[1] is not None
    assert later is not None
    await store.inbox.drop([without[1].id, later.id, 10_000])
    last = await store.inbox.put(InboxItem("s", "last"))
    assert last is not None
    assert last.id > later.id, "a number never means another item"


async def test_sessions_that_could_go_on_are_found(store: Store) -> None:
    for name, status in (("running", "running"), ("parked", "parked"), ("ended", "ended")):
        await store.sessions.create(name, platform="cli", user="")
        await store.runs.commit(run_of(name, id=name, step=1, status=status))
    said = await store.inbox.put(InboxItem("said \ud800", "hello"))
    assert said is not None
    assert sorted(await store.runs.unfinished()) == ["running", "said \ud800"]
    await store.inbox.drop([said.id])
    await store.runs.commit(run_of("running", id="running", step=2, status="ended"))
    assert list(await store.runs.unfinished()) == []


# -- where files came from -------------------------------------------------------------------------------------------


async def test_origins_are_added_and_never_forgotten(store: Store) -> None:
    assert dict(await store.origins.of("s")) == {}
    await store.origins.remember("s", {"/a": 1, "/odd \udcff": 4})
    await store.origins.remember("s", {"/a": 2, "/b": 8})
    await store.origins.remember("t", {f"/{number}": 1 for number in range(1000)})
    await store.origins.remember("s", {})
    assert dict(await store.origins.of("s")) == {"/a": 3, "/b": 8, "/odd \udcff": 4}
    assert len(await store.origins.of("t")) == 1000


async def test_copies_are_remembered_beside_origins(store: Store) -> None:
    assert dict(await store.origins.copies("s")) == {}
    await store.origins.remember("s", {"/a": 1}, {"/b": "/bin/rm", "/odd \udcff": "/odd \udcff"})
    await store.origins.remember("s", {"/b": 2})
    assert dict(await store.origins.copies("s")) == {"/b": "/bin/rm", "/odd \udcff": "/odd \udcff"}
    assert dict(await store.origins.of("s")) == {"/a": 1, "/b": 2, "/odd \udcff": 0}
    await store.origins.remember("s", {}, {"/b": ""})
    assert dict(await store.origins.copies("s")) == {"/odd \udcff": "/odd \udcff"}
    assert dict(await store.origins.copies("t")) == {}


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
    await store.tickets.decide_ticket(Answer("a"), "approved")
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
    await store.signals.send("no listener any more")
    assert heard == ["s \ud800"]
