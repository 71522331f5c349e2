"""The lease of a session: taken before its runs and calls, renewed meanwhile, released after the last of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.store import Fence, Lease, Store

_log = logging.getLogger(__name__)
LEASE_SECONDS = 20.0
"""Seconds until a lease lapses after its last renewal. If its owner is known to be dead, others can take it at once."""
_FIRST, _LONGEST = 0.02, 1.0


class Holding:
    """This process's side of a session's lease. ``lost`` is called when another process takes over the session.

    Several tasks may hold it at once, in any thread and event loop: the first takes the lease, the last releases it.
    """

    def __init__(self, store: Store, session_id: str, fence: Fence, lost: Callable[[], None], owner: str) -> None:
        self._store = store
        self._name = session_id
        self._fence = fence
        self._lost = lost
        self._owner = owner
        self._held = 0
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._left: Lease | None = None
        """A lease that could not be released. It is still ours, and must be released before the next one is taken."""
        self.seconds = LEASE_SECONDS
        self.is_lost = False
        """True once this process knows that another one has the session, until it takes the lease again."""

    @property
    def lease(self) -> Lease | None:
        """The lease that was taken last; it may be released or lost."""
        return self._fence.lease

    @asynccontextmanager
    async def held(self, busy: Callable[[], None], gave_up: Callable[[], bool] = lambda: False) -> AsyncIterator[bool]:
        """Hold the lease, and yield whether it was newly taken. If it was, an earlier holder may have left work unfinished.

        While another process holds the lease, this waits and calls ``busy`` once. Raises asyncio.CancelledError when ``gave_up``
        returns True while waiting.
        """
        fresh = await self._enter(busy, gave_up)
        renewing = asyncio.create_task(self._renew())
        try:
            yield fresh
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
            await self._leave()

    async def _enter(self, busy: Callable[[], None], gave_up: Callable[[], bool]) -> bool:
        wait, told = _FIRST, False
        while True:
            with self._lock:
                if self._held:
                    self._held += 1
                    return False
                first = self._taking.acquire(blocking=False)
            if first:
                try:
                    if self._left is not None:  # if the store can't write this, it can't write anything
                        await self._store.leases.release(self._left)
                        self._left = None
                    lease = await self._take()
                    if lease is not None:
                        with self._lock:
                            self._fence.lease = lease
                            self._held, self.is_lost = 1, False
                        return True
                finally:
                    self._taking.release()
                if not told:
                    told = True
                    busy()
            if gave_up():
                raise asyncio.CancelledError
            await asyncio.sleep(wait)
            wait = min(_LONGEST, wait * 2)

    async def _take(self) -> Lease | None:
        """Take the lease if it is free. If the caller is cancelled meanwhile, release the lease that the store granted."""
        taking = asyncio.ensure_future(self._store.leases.take(self._name, self._owner, self.seconds))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            with contextlib.suppress(StoreFailed):
                lease = await taking
                if lease is not None:
                    await self._give_back(lease)
            raise

    async def _leave(self) -> None:
        with self._lock:
            self._held -= 1
            lease = self._fence.lease if not self._held else None
        if lease is not None:
            await self._give_back(lease)

    async def _give_back(self, lease: Lease) -> None:
        try:
            await self._store.leases.release(lease)
        except StoreFailed as error:  # it lapses by itself, or is released before the next one is taken
            self._left = lease
            _log.info("the lease of session %s could not be released: %s", self._name[:12], error)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.seconds / 3)
            lease = self._fence.lease
            try:
                if lease is not None and not await self._store.leases.renew(lease):
                    _log.error("another process took over session %s; work on it here is cancelled", self._name[:12])
                    self.is_lost = True
                    self._lost()
                    return
            except StoreFailed as error:
                _log.warning("the lease of session %s could not be renewed: %s", self._name[:12], error)
