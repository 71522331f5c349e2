"""Limits of what one user may send, and one chat may use."""

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
"""Messages of a user that are taken in an hour beyond what is allowed, where they only end or refuse something."""
_SESSIONS = 1_000
"""Sessions of one day that are looked at."""


class DailyQuotaSpent(ToolcribError):
    """Somebody has used what they may in a day; its text is a line for them."""


class Quotas:
    """For one platform. Messages are counted while the process lives; tokens and costs are those that the store has."""

    def __init__(self, config: PlatformConfig, store: Store) -> None:
        self._config = config
        self._store = store
        self._sent: dict[str, deque[float]] = {}
        self._ended: dict[str, deque[float]] = {}
        self._told: dict[str, float] = {}
        self._begun: dict[str, set[str]] = {}
        """Sessions by the users whose messages they got, as far as they may be at work."""
        self._starting: set[str] = set()

    def use(self, config: PlatformConfig) -> None:
        """Go by other limits from now on; what was counted stays."""
        self._config = config

    def over(self, user: str) -> bool:
        """Count a message of a user, and return whether it is one too many."""
        most = self._config.messages_per_hour
        return bool(most) and not _counted(self._sent, user, most)

    def why_over(self, user: str) -> str:
        """Count a message of a user, and return why it is one too many, "" where it is not."""
        return f"{self._config.messages_per_hour} messages an hour, which is the limit here" if self.over(user) else ""

    def may_end(self, user: str) -> bool:
        """Count one that is too many, and only ends or refuses something. Return whether it is taken all the same."""
        return _counted(self._ended, user, _ENDS)

    def limit_notice(self, user: str) -> str:
        """Return what to say to a user whose message is one too many, "" where that was said within the hour."""
        now = time.monotonic()
        if now - self._told.get(user, -_HOUR) < _HOUR:
            return ""
        if len(self._told) > _USERS:
            self._told.clear()
        self._told[user] = now
        sent, most = self._sent.get(user), self._config.messages_per_hour
        minutes = int((sent[0] + _HOUR - now) // 60) + 1 if sent else 1
        return (
            f"That was {most} messages within an hour, which is the limit here. The next one is taken in {minutes} minutes;"
            " /stop, /new and a no are taken until then too."
        )

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

    async def admit(self, theirs: Principal) -> None:
        """See that a message may still be answered that waited while others were. Raises DailyQuotaSpent and StoreFailed."""
        if OWNER not in theirs.roles and (spent := await self.spent(theirs)):
            raise DailyQuotaSpent(spent)

    async def spent(self, theirs: Principal) -> str:
        """Return what to say where a user's own chats and jobs, or a group, have used what they may in a day; "" where they may
        go on. A new session begins with what the earlier ones left. Raises StoreFailed.
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
            return f"{whose} used the {tokens:,} tokens of a day."
        if cost and (used.cost or 0.0) >= cost:
            return f"{whose} used the {cost:g} of a day."
        return ""


def _counted(times: dict[str, deque[float]], user: str, most: int) -> bool:
    """Count something that a user does now, unless that was done ``most`` times within the hour: then return False."""
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
