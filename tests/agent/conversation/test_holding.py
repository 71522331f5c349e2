"""Holding a session's lease through a store that fails now and then."""

from __future__ import annotations

from agent.conversation.holding import Holding
from agent.store.memory import MemoryStore
from toolcrib import StoreFailed
from toolcrib._store import Fence, Lease, LeaseStore


class FullDisk:
    """Leases of a store whose disk is full for as many releases as ``failures``."""

    def __init__(self, inner: LeaseStore, failures: int) -> None:
        self._inner = inner
        self._failures = failures
        self.take, self.renew, self.holder = inner.take, inner.renew, inner.holder

    async def release(self, lease: Lease) -> None:
        if self._failures:
            self._failures -= 1
            raise StoreFailed("the disk is full")
        await self._inner.release(lease)


class Store(MemoryStore):
    def __init__(self, failures: int) -> None:
        super().__init__()
        self._full = FullDisk(super().leases, failures)

    @property
    def leases(self) -> LeaseStore:
        return self._full


async def test_a_lease_that_could_not_be_given_back_keeps_its_own_holder_out_of_nothing() -> None:
    """It is taken anew, so that calls which the failure left are recovered; another holder waits for it as for any."""
    store, fence, waited = Store(1), Fence(), list[str]()
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
