"""A delegate that runs in the background, as its session knows it."""

from __future__ import annotations

import asyncio
import time

from agent.delegates.task import Order


class BackgroundDelegate:
    """A background delegate. ``since``: when this process started it, in Unix seconds."""

    def __init__(self, session_id: str, order: Order, work: asyncio.Task[None]) -> None:
        self.session_id = session_id
        self.name = order.name
        self.task = order.shown
        self.since = time.time()
        self.is_stopped = False
        """True once it was stopped individually, while its session continues."""
        self.work = work

    @property
    def is_lost(self) -> bool:
        """True if its event loop has closed: the next process resumes it."""
        return self.work.get_loop().is_closed()

    def stop(self) -> None:
        """Stop it, from any thread; its session is informed when it has ended."""
        self.is_stopped = True
        self.cancel()

    def cancel(self) -> None:
        """Cancel its work, from any thread. If its process ends while it waits for an answer, the next process resumes it."""
        if not self.is_lost:
            self.work.get_loop().call_soon_threadsafe(self.work.cancel)
