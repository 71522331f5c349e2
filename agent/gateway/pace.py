"""Rate limit for the messages of one account."""

from __future__ import annotations

import asyncio
import time


class SendRate:
    """Limits sending to ``per_second`` messages; after a pause, ``burst`` messages or one second's worth may go at once."""

    def __init__(self, per_second: float, burst: int = 0) -> None:
        self._rate = max(per_second, 0.01)
        self._saved = max(1.0, burst / self._rate)
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the next message may be sent."""
        now = time.monotonic()
        self._next = max(self._next, now - self._saved) + 1.0 / self._rate
        if self._next > now:
            await asyncio.sleep(self._next - now)
