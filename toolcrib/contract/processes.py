"""Protocols of what a store does between processes: leases on names, and signals. ``agent/store`` implements them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from toolcrib.contract.records import Lease


class LeaseStore(Protocol):
    """Leases by name. Times are the database's own, so that no two clocks are compared."""

    async def take(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease that is free or has lapsed, or whose owner is a process of this machine that has ended; else None."""
        ...

    async def renew(self, lease: Lease) -> bool:
        """Let it last for ``lease.seconds`` from now. False where another took it: it is lost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give it back; one that was lost is left alone."""
        ...

    async def holder(self, name: str) -> str | None:
        """The owner of a lease that lasts, None where it is free, has lapsed, or its owner is known to have ended."""
        ...


class Signals(Protocol):
    """A knock on other processes' doors. It may be lost: whoever listens looks again now and then all the same."""

    async def send(self, topic: str) -> None:
        """Wake whoever listens, in any process that uses this store. Raises nothing."""
        ...

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Call ``heard(topic)`` at every signal, from any thread; it must not block. Returns what ends it."""
        ...
