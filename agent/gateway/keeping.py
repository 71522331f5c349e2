"""Restarts a platform that failed, after growing pauses, while the other platforms continue."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from agent.gateway.platform_runner import ChatLine

_LONGEST = 300.0
_NOTES_EVERY = 10.0


class LineKeeper:
    """Runs a platform's ChatLine, and replaces the line when it fails or loses its account.

    ``first`` is the first pause in seconds. The line starts once the keepers in ``after`` have ended, because they may still
    hold the account.
    """

    def __init__(self, make: Callable[[], ChatLine], first: float, after: Sequence[LineKeeper] = ()) -> None:
        self._make = make
        self._first = first
        self._after = after
        self.ended = asyncio.Event()
        """Set once the keeper has stopped."""
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.line = make()

    async def start(self) -> None:
        """Start the line, and return once it runs or has failed; a failed line is replaced automatically."""
        async with self._turn:
            await self._start()

    async def _start(self) -> None:
        for keeper in self._after:
            await keeper.ended.wait()
        if self.ended.is_set():  # stopped meanwhile
            return
        await self.line.start()
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def drain(self, seconds: float) -> None:
        """Stop restarting the line, and drain it; see ChatLine.drain."""
        await self._let_be()
        await self.line.drain(seconds)

    async def stop(self, *, now: bool = False) -> None:
        """Stop the line, and do not restart it; see ChatLine.stop."""
        await self._let_be()
        await self.line.stop(now=now)
        self.ended.set()

    async def renew(self, seconds: float) -> None:
        """Drain the line for up to ``seconds``, and start another in its place. Simultaneous calls run one after another."""
        async with self._turn:
            await self.drain(seconds)
            await self.line.stop()
            self.line = self._make()
            await self._start()

    async def _let_be(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self) -> None:
        pause = self._first
        while True:
            if self.line.problem == "":
                await self.line.lost.wait()
                await self.line.stop()
                pause = self._first
            await self._wait(pause * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST)
            self.line = self._make()
            await self.line.start()

    async def _wait(self, seconds: float) -> None:
        """Wait, and record meanwhile why the platform is not running, unless another process runs it."""
        self.line.retry_at, ends = time.time() + seconds, time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if not self.line.is_anothers:
                await self.line.note_status()
            await asyncio.sleep(min(left, _NOTES_EVERY))
