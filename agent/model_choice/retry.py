"""Retry requests to a model server, if that may help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ProviderError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of retries: ``attempts`` in all. Waits double from ``first`` seconds up to ``longest``.

    Each wait is shortened randomly by up to a half. A server's own ``retry_after`` takes precedence. It is ignored if it is 0,
    as for a time in the past, and ends the retries if it is longer than ``patience`` seconds.
    """

    attempts: int = 4
    first: float = 0.5
    longest: float = 20.0
    patience: float = 60.0

    def wait(self, attempt: int, error: ProviderError) -> float | None:
        """Return the seconds before the next attempt after ``attempt`` (from 1), or None to stop."""
        if not error.retryable or attempt >= self.attempts:
            return None
        if error.retry_after:
            return error.retry_after if error.retry_after <= self.patience else None
        return min(self.longest, self.first * 2.0 ** (attempt - 1)) * _spread()


def _spread() -> float:
    return random.uniform(0.5, 1.0)  # noqa: S311 - spreads the retries of many clients; no secret


async def with_retry(
    ask: Callable[[], Awaitable[T]], policy: RetryPolicy, on_wait: Callable[[int, float, ProviderError], None]
) -> T:
    """Return the result of ``ask``, retried by ``policy``. Raises the last ProviderError."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await ask()
        except ProviderError as error:
            seconds = policy.wait(attempt, error)
            if seconds is None:
                raise
            on_wait(attempt, seconds, error)
        await asyncio.sleep(seconds)
