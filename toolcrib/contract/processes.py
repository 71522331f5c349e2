"""Protocols of a store's services between processes: leases on names, and signals. ``agent/store`` implements them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from toolcrib.contract.records import Lease


class LeaseStore(Protocol):
    """Leases by name. Times are the database's own, so no two clocks are compared."""

    async def take(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease that is free or has lapsed, or whose owner is an ended process of this machine. Return None otherwise."""
        ...

    async def renew(self, lease: Lease) -> bool:
        """Extend the lease to ``lease.seconds`` from now. Return False if it is lost: another owner took it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release the lease; ignore one that was lost."""
        ...

    async def holder(self, name: str) -> str | None:
        """Return the owner of a valid lease, or None if it is free, has lapsed, or its owner is known to have ended."""
        ...


class Signals(Protocol):
    """Signals that wake other processes. A signal may be lost, so listeners also poll now and then."""

    async def send(self, topic: str) -> None:
        """Wake all listeners in any process that uses this store. Raises nothing."""
        ...

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Call ``heard(topic)`` for every signal, from any thread; ``heard`` must not block. Return a function that ends this."""
        ...
