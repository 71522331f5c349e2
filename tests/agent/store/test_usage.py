"""Usage in every store: a row for each reply and call, written with its message, and deleted with its session."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from toolcrib.contract.store import RunRecord, Store, UsageSum

VIA = {"provider": "chat", "model": "asked", "base_url": "http://127.0.0.1/v1"}


def reply(model: str = "m", cost: float | None = None, **usage: int) -> Mapping[str, Any]:
    record = {"role": "assistant", "text": "", "usage": usage, "model": model, "via": VIA, "at": time.time()}
    return record if cost is None else {**record, "cost": cost}


def results(*called: tuple[str, float, bool]) -> Mapping[str, Any]:
    made = [{"call_id": "c", "name": n, "text": "1", "is_error": bad, "seconds": took} for n, took, bad in called]
    return {"role": "results", "results": made}


async def opened(store: Store, *names: str) -> None:
    for name in names:
        await store.sessions.create(name, platform="cli", user="me")


async def test_replies_and_calls_are_summed(today: str, store: Store) -> None:
    await opened(store, "a", "b")
    await store.sessions.append("a", reply(input=10, output=2, cached=4, cost=0.5))
    await store.sessions.append("a", results(("terminal", 1.5, False), ("terminal", 0.5, True), ("todo", 0.25, False)))
    await store.sessions.append("a", reply(input=20, output=3, reasoning=1, cost=0.25))
    await store.sessions.append("b", reply("other", input=5, output=1))
    sums = {(one.session_id, one.model, one.tool): one for one in await store.usage.sums()}
    assert len(sums) == 4
    assert sums["a", "m", ""] == UsageSum("a", today, "m", "chat", "", 2, 0, 30, 5, 4, 1, 0.75, 0.0)
    assert sums["a", "", "terminal"] == UsageSum("a", today, "", "", "terminal", 2, 1, 0, 0, 0, 0, None, 2.0)
    assert sums["a", "", "todo"].seconds == 0.25
    assert sums["b", "other", ""].cost is None
    assert {one.session_id for one in await store.usage.sums(session_id="b")} == {"b"}
    assert await store.usage.sums(since=time.time() + 100) == []


async def test_an_estimated_cost_keeps_the_source_of_its_prices(store: Store) -> None:
    await opened(store, "a", "b")
    await store.sessions.append("a", reply(input=10, cost=0.5))
    await store.sessions.append("a", {**reply(input=10, cost=0.25), "estimated": "list of 2026-11-01"})
    await store.sessions.append("a", {**reply(input=10, cost=0.25), "estimated": "list of 2026-11-02"})
    await store.sessions.append("b", {**reply(input=10), "estimated": "list of 2026-11-02"})
    sums = {one.session_id: one for one in await store.usage.sums()}
    assert (sums["a"].cost, sums["a"].estimated) == (1.0, "list of 2026-11-02")
    assert (sums["b"].cost, sums["b"].estimated) == (None, "")


async def test_a_step_that_is_done_twice_counts_once(store: Store) -> None:
    await opened(store, "a")
    run = RunRecord("r", "a", "running", 1, {})
    for _ in range(2):
        await store.runs.commit(run, messages=[reply(input=10, output=2)])
    (one,) = await store.usage.sums()
    assert (one.count, one.input) == (1, 10)


async def test_what_no_server_counted_and_old_records_count_nothing(store: Store) -> None:
    await opened(store, "a")
    await store.sessions.append("a", {"role": "user", "text": "hi"})
    await store.sessions.append("a", {"role": "assistant", "text": "typed by hand", "usage": {}, "model": "", "at": 1.0})
    await store.sessions.append(
        "a", {"role": "results", "results": [{"call_id": "c", "name": "x", "text": "", "is_error": False}]}
    )
    assert await store.usage.sums() == []
    await store.sessions.append("a", {**reply("", cost=1e3), "usage": {"input": "many", "output": -3}})
    (one,) = await store.usage.sums()
    assert (one.model, one.count, one.input, one.output, one.cost) == ("asked", 1, 0, 0, 1000.0)


async def test_any_name_comes_back_as_it_was(store: Store) -> None:
    await opened(store, "a")
    odd = "m\0\ud800é"
    await store.sessions.append("a", reply(odd, input=1))
    await store.sessions.append("a", results((odd, 1.0, False)))
    assert {(one.model, one.tool) for one in await store.usage.sums()} == {(odd, ""), ("", odd)}


async def test_usage_is_forgotten_with_its_session(store: Store) -> None:
    await opened(store, "a")
    await store.sessions.append("a", {"role": "user", "text": "hi"})
    await store.sessions.append("a", reply(input=1))
    if await store.prune(time.time() + 100):
        assert await store.usage.sums() == []
