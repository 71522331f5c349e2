"""Limits of what one user may send, and one chat may use."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.config import PlatformConfig

if TYPE_CHECKING:
    from toolcrib import Principal
    from toolcrib._store import Store

_HOUR, _DAY = 3600.0, 86_400.0
_USERS = 100_000
_SESSIONS = 1_000
"""Sessions of one day that are looked at."""


class Quotas:
    """For one platform. Messages are counted while the process lives; tokens and costs are those that the store has."""

    def __init__(self, config: PlatformConfig, store: Store) -> None:
        self._config = config
        self._store = store
        self._sent: dict[str, deque[float]] = {}
        self._told: dict[str, float] = {}
        self._begun: dict[str, set[str]] = {}
        """Sessions by the users whose messages they got, as far as they may be at work."""
        self._starting: set[str] = set()

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

    def busy(self, user: str, session_id: str, at_work: Callable[[str], bool]) -> str:
        """Count a user's run in a session. Return what to say where those in other sessions are too many, "" where they are not.
        Call ``begun`` then, whatever comes of it.
        """
        most = self._config.runs_at_once
        if not most:
            return ""
        if len(self._begun) > _USERS:
            self._begun.clear()
        begun = self._begun[user] = {one for one in self._begun.get(user, ()) if one in self._starting or at_work(one)}
        if len(begun - {session_id}) >= most:
            return f"{most} runs of yours are under way in other chats, which is the limit here: say it again when one has ended."
        begun.add(session_id)
        self._starting.add(session_id)
        return ""

    def begun(self, session_id: str) -> None:
        """Count the session's run by whether it is at work, from now on: it has its message."""
        self._starting.discard(session_id)

    async def spent(self, theirs: Principal) -> str:
        """Return what to say where a user's own chats, or a group, have used what they may in a day; "" where they may go on. A
        new session begins with what the earlier ones left. Raises StoreFailed.
        """
        tokens, cost = self._config.tokens_per_day, self._config.cost_per_day
        if not tokens and not cost:
            return ""
        from agent.usage import sums_of, total

        since = time.time() - _DAY
        found = await self._store.sessions.list(_SESSIONS, platform=theirs.platform, user=theirs.user, delegates=False)
        used = total([one for info in found if info.updated_at >= since for one in await sums_of(self._store, info.id, since)])
        whose = "This group has" if theirs.speaker else "You have"
        if tokens and used.tokens >= tokens:
            return f"{whose} used the {tokens:,} tokens of a day."
        if cost and (used.cost or 0.0) >= cost:
            return f"{whose} used the {cost:g} of a day."
        return ""
