"""Writes without a lease, and which process recovers the calls that they began."""

from __future__ import annotations

from toolcrib import ToolCall, ToolCallStatus
from toolcrib.contract.store import Fence, Store


async def test_a_call_that_was_begun_without_a_lease_is_recovered_by_the_first_holder(store: Store) -> None:
    await store.sessions.create("s", platform="cli", user="")
    await store.fenced(Fence()).ledger.open(ToolCall("c1", "t", {}), "s", ToolCallStatus.RUNNING)
    holder = Fence()
    holder.lease = await store.leases.take("s", "me", 60)
    assert holder.lease is not None
    mine = store.fenced(holder)
    await mine.ledger.open(ToolCall("c2", "t", {}), "s", ToolCallStatus.RUNNING)
    assert [record.call.id for record in await mine.recover("s")] == ["c1"]
    own = await store.ledger.get("s", "c2")
    assert own is not None
    assert own.status is ToolCallStatus.RUNNING
