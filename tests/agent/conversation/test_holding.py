"""Holding a session's lease while the store fails now and then."""

from __future__ import annotations

import pytest

from agent.conversation.holding import Holding
from agent.store.memory import MemoryStore
from toolcrib import StoreFailed
from toolcrib.contract.store import Fence, Lease


async def test_a_lease_that_could_not_be_given_back_is_taken_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder does not wait until the old lease expires. It takes a new one, so calls that the failure left are recovered."""
    store, fence, waited = MemoryStore(), Fence(), list[str]()
    release, failures = store.leases.release, [StoreFailed("the disk is full")]

    async def releases(lease: Lease) -> None:
        if failures:
            raise failures.pop()
        await release(lease)

    monkeypatch.setattr(store.leases, "release", releases)
    own = Holding(store, "s", fence, lambda: None, "me")
    async with own.held(lambda: waited.append("first")) as fresh:
        first = fence.lease
    assert fresh
    assert await store.leases.holder("s") == "me"
    async with own.held(lambda: waited.append("again")) as fresh:
        assert fresh
        assert first is not None
        assert fence.lease is not None
        assert fence.lease.token > first.token
    assert await store.leases.holder("s") is None
    assert waited == []
