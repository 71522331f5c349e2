"""How much one user may send, and one chat may use."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from agent.config import PlatformConfig

if TYPE_CHECKING:
    from toolcrib._store import Store

_HOUR, _DAY = 3600.0, 86_400.0
_USERS = 100_000


class Quotas:
    """For one platform. Messages are counted while the process lives; tokens and costs are those that the store has."""

    def __init__(self, config: PlatformConfig, store: Store) -> None:
        self._config = config
        self._store = store
        self._sent: dict[str, deque[float]] = {}
        self._told: dict[str, float] = {}

    def use(self, config: PlatformConfig) -> None:
        """Go by other limits from now on; what was counted stays."""
        self._config = config

    def over(self, user: str) -> str:
        """Count a message of a user. Return what to say where it is one too many, "again" where that was said before."""
        most = self._config.messages_per_hour
        if not most:
            return ""
        if len(self._sent) > _USERS:
            self._sent.clear()
        now = time.monotonic()
        sent = self._sent.setdefault(user, deque())
        while sent and sent[0] < now - _HOUR:
            sent.popleft()
        if len(sent) < most:
            sent.append(now)
            return ""
        if now - self._told.get(user, -_HOUR) < _HOUR:
            return "again"
        self._told[user] = now
        minutes = int((sent[0] + _HOUR - now) // 60) + 1
        return f"That was {most} messages within an hour, which is the limit here. The next one is taken in {minutes} minutes."

    async def spent(self, session_id: str) -> str:
        """Return what to say where a session has used what a chat may in a day; "" where it may go on. Raises StoreFailed."""
        tokens, cost = self._config.tokens_per_day, self._config.cost_per_day
        if not tokens and not cost:
            return ""
        from agent.usage import sums_of, total

        used = total(await sums_of(self._store, session_id, time.time() - _DAY))
        if tokens and used.tokens >= tokens:
            return f"This chat has used its {tokens:,} tokens of a day."
        if cost and (used.cost or 0.0) >= cost:
            return f"This chat has used its {cost:g} of a day."
        return ""
