"""A delegate that works in the background, as its session knows it."""

from __future__ import annotations

import asyncio
import time

from agent.delegates.task import Order


class BackgroundDelegate:
    """``since`` is in Unix seconds: when this process sent it off."""

    def __init__(self, session_id: str, order: Order, work: asyncio.Task[None]) -> None:
        self.session_id = session_id
        self.name = order.name
        self.task = order.shown
        self.since = time.time()
        self.is_stopped = False
        """True once it was stopped by itself, and its session goes on."""
        self.work = work

    @property
    def is_lost(self) -> bool:
        """True where the event loop in which it worked has closed: the next process goes on with it."""
        return self.work.get_loop().is_closed()

    def stop(self) -> None:
        """Have it end, from any thread; its session is told once it has."""
        self.is_stopped = True
        self.cancel()

    def cancel(self) -> None:
        """Have it leave off with its process, from any thread: one that waits for an answer goes on in the next."""
        if not self.is_lost:
            self.work.get_loop().call_soon_threadsafe(self.work.cancel)
