"""A session's lease: shared within one process, lost to another process, and taken by a caller that no longer waits."""

from __future__ import annotations

import asyncio
import logging

import pytest

from agent.conversation.holding import Holding
from agent.store.memory import MemoryStore
from toolcrib.contract.store import Fence, Lease


def holding(store: MemoryStore, lost: asyncio.Event | None = None) -> Holding:
    return Holding(store, "s", Fence(), (lost or asyncio.Event()).set, "me")


async def test_the_last_of_several_gives_it_back() -> None:
    store = MemoryStore()
    own = holding(store)
    async with own.held(lambda: None) as first:
        async with own.held(lambda: None) as second:
            assert (first, second) == (True, False)
        assert await store.leases.holder("s") == "me"
    assert await store.leases.holder("s") is None


async def test_one_waits_for_another_process_and_says_so_once() -> None:
    store, busy = MemoryStore(), list[str]()
    other = await store.leases.take("s", "other", 60)
    assert other is not None

    def say() -> None:
        busy.append("busy")

    async def hold() -> None:
        async with holding(store).held(say):
            assert await store.leases.holder("s") == "me"

    waiting = asyncio.ensure_future(hold())
    while not busy:
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    await store.leases.release(other)
    await waiting
    assert busy == ["busy"]


async def test_who_gives_up_waiting_is_cancelled() -> None:
    store = MemoryStore()
    assert await store.leases.take("s", "other", 60) is not None
    with pytest.raises(asyncio.CancelledError):
        async with holding(store).held(lambda: None, lambda: True):
            pytest.fail("it was not free")


async def test_losing_it_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    store, lost = MemoryStore(), asyncio.Event()
    own = holding(store, lost)
    own.seconds = 0.03  # the lease is renewed every third of it
    with caplog.at_level(logging.ERROR):
        async with own.held(lambda: None):
            assert not own.is_lost
            assert own.lease is not None
            await store.leases.release(own.lease)
            assert await store.leases.take("s", "other", 60) is not None
            async with asyncio.timeout(30):
                await lost.wait()
            assert own.is_lost
    assert "another process took over session s" in caplog.text
    assert await store.leases.holder("s") == "other"


async def test_a_lease_that_comes_after_its_taker_was_cancelled_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked, may = MemoryStore(), asyncio.Event(), asyncio.Event()
    take = store.leases.take

    async def slowly(name: str, owner: str, seconds: float) -> Lease | None:
        asked.set()
        await may.wait()
        return await take(name, owner, seconds)

    monkeypatch.setattr(store.leases, "take", slowly)

    async def hold() -> None:
        async with holding(store).held(lambda: None):
            pytest.fail("it was cancelled")

    taking = asyncio.ensure_future(hold())
    await asked.wait()
    taking.cancel()
    await asyncio.sleep(0)
    may.set()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await store.leases.holder("s") is None
