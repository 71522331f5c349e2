"""Limits on the messages of a user, and on the usage of a chat."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.cron import PLATFORM
from agent.desk.approvals import OWNER
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from toolcrib.contract.context import Principal
    from toolcrib.contract.store import Store

_HOUR, _DAY = 3600.0, 86_400.0
_USERS = 100_000
_ENDS = 30
"""Maximum number of messages of a user per hour that are accepted above the limit because they only end or refuse something."""
_SESSIONS = 1_000
"""Maximum number of sessions of one day that are checked."""


class DailyQuotaSpent(ToolcribError):
    """Raised if a user has used up the daily quota. The text is a line for that user."""


class Quotas:
    """Quotas of one platform. Messages are counted in memory; tokens and costs come from the store."""

    def __init__(self, config: PlatformConfig, store: Store) -> None:
        self._config = config
        self._store = store
        self._sent: dict[str, deque[float]] = {}
        self._ended: dict[str, deque[float]] = {}
        self._told: dict[str, float] = {}
        self._begun: dict[str, set[str]] = {}
        """Sessions that got messages, by user. Sessions that no longer run are removed at the user's next message."""
        self._starting: set[str] = set()

    def use(self, config: PlatformConfig) -> None:
        """Use other limits from now on; the counts are kept."""
        self._config = config

    def over(self, user: str) -> bool:
        """Count a message of a user, and return whether it exceeds the limit."""
        most = self._config.messages_per_hour
        return bool(most) and not _counted(self._sent, user, most)

    def why_over(self, user: str) -> str:
        """Count a message of a user, and return why it exceeds the limit, "" if it does not."""
        return f"the limit is {self._config.messages_per_hour} messages an hour" if self.over(user) else ""

    def may_end(self, user: str) -> bool:
        """Count a message above the limit that only ends or refuses something. Return whether it is accepted anyway."""
        return _counted(self._ended, user, _ENDS)

    def limit_notice(self, user: str) -> str:
        """Return the text for a user whose message exceeds the limit, "" if it was shown within the hour."""
        now = time.monotonic()
        if now - self._told.get(user, -_HOUR) < _HOUR:
            return ""
        if len(self._told) > _USERS:
            self._told.clear()
        self._told[user] = now
        sent, most = self._sent.get(user), self._config.messages_per_hour
        minutes = int((sent[0] + _HOUR - now) // 60) + 1 if sent else 1
        wait = f"{minutes} minute{'s' if minutes != 1 else ''}"
        return (
            f"You have sent {most} messages within an hour, which is the limit. Write again in {wait}. You can still use /stop"
            " and /new, and deny requests."
        )

    def busy(self, user: str, session_id: str, at_work: Callable[[str], bool]) -> str:
        """Count a user's run in a session. Return the text to show if the user has too many runs in other sessions, "" otherwise.

        Call ``begun`` afterwards, whatever the outcome.
        """
        most = self._config.runs_at_once
        if not most:
            return ""
        if len(self._begun) > _USERS:
            self._begun.clear()
        begun = self._begun[user] = {one for one in self._begun.get(user, ()) if one in self._starting or at_work(one)}
        if len(begun - {session_id}) >= most:
            return f"You have {most} runs in other chats, which is the limit. Send this again when one has ended."
        begun.add(session_id)
        self._starting.add(session_id)
        return ""

    def begun(self, session_id: str) -> None:
        """Stop counting the session as starting: from now on it counts only while it has a run."""
        self._starting.discard(session_id)

    async def admit(self, theirs: Principal) -> None:
        """Check that a message that waited may still be answered. Raises DailyQuotaSpent and StoreFailed."""
        if OWNER not in theirs.roles and (spent := await self.spent(theirs)):
            raise DailyQuotaSpent(spent)

    async def spent(self, theirs: Principal) -> str:
        """Return the text to show if a user or group has used up its daily quota, "" otherwise. Raises StoreFailed.

        The chats and jobs of the user or group count together. Starting a new session does not renew the quota.
        """
        tokens, cost = self._config.tokens_per_day, self._config.cost_per_day
        if not tokens and not cost:
            return ""
        from agent.usage import sums_of, total

        since = time.time() - _DAY
        sessions = self._store.sessions
        found = [
            *await sessions.list(_SESSIONS, platform=theirs.platform, user=theirs.user, delegates=False),
            *await sessions.list(_SESSIONS, platform=PLATFORM, user=theirs.key, delegates=False),
        ]
        used = total([one for info in found if info.updated_at >= since for one in await sums_of(self._store, info.id, since)])
        whose = "This group has" if theirs.speaker else "You have"
        if tokens and used.tokens >= tokens:
            return f"{whose} used up the daily quota of {tokens:,} tokens."
        if cost and (used.cost or 0.0) >= cost:
            return f"{whose} used up the daily quota of {cost:g}."
        return ""


def _counted(times: dict[str, deque[float]], user: str, most: int) -> bool:
    """Count an action of a user and return True; return False if it happened ``most`` times within the hour."""
    if len(times) > _USERS:
        times.clear()
    now = time.monotonic()
    done = times.setdefault(user, deque())
    while done and done[0] < now - _HOUR:
        done.popleft()
    if len(done) >= most:
        return False
    done.append(now)
    return True
