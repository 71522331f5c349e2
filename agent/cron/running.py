"""The lease of the processes that run jobs; one of them holds it at a time."""

from __future__ import annotations

from toolcrib.contract.store import Store

RUNNER = "cron:runner"
"""Name of the lease."""
SECONDS = 30.0


async def whether_run(store: Store) -> str:
    """Return the owner of the process that runs jobs, "" if there is none. Raises StoreFailed."""
    return await store.leases.holder(RUNNER) or ""
