"""Sessions of one platform's chats: a manager that can drain, leave runs to the next process, and take a new configuration."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.conversation.manager import SessionManager
from agent.conversation.waiting import has_work

if TYPE_CHECKING:
    from agent.conversation.session import Session


class ChatSessions(SessionManager):
    """A SessionManager for a gateway, which is restarted and reconfigured while people chat."""

    _draining = False
    _stale: frozenset[str] = frozenset()
    """Open sessions of an earlier configuration."""

    async def drain(self, seconds: float) -> None:
        """Begin nothing more, and return once what is under way has ended, or that time is over."""
        self._draining = True
        for session in self._open.values():
            session.begin_nothing()
        await self.rest(max(0.0, seconds))

    async def leave(self) -> None:
        """Break off what runs, where ``close`` interrupts it, and close: the next host goes on with it, as after a kill."""
        self._closing = True
        driving = list(self._driving.values())
        for task in driving:
            task.cancel()
        await asyncio.gather(*driving, return_exceptions=True)
        await self.close()

    async def give_up(self, session_id: str) -> None:
        """End a session's run that is parked, and go on with what was said behind it. Raises as Crib.open."""
        session = await self.opened(session_id)
        await session.give_up()
        await self._woken(session_id)

    def use(self, most: int) -> None:
        """Keep so many sessions open from now on."""
        self._most = most

    async def renew(self) -> None:
        """Have each chat's next message open its session anew. What runs ends first, delegates in the background too."""
        self._stale = frozenset(self._open)
        for session_id in list(self._open):
            if not self._is_busy(session_id):
                await self._renewed(session_id)
            elif (session := self._open.get(session_id)) is not None and not self._has_delegates(session_id):
                session.begin_nothing()

    @property
    def at_work_now(self) -> int:
        """The number of sessions in which a run is under way."""
        return len(self._driving)

    async def opened(self, session_id: str) -> Session:
        """See SessionManager."""
        session = await super().opened(session_id)
        if self._draining:
            session.begin_nothing()
        return session

    def _wake(self, session_id: str) -> None:
        if not self._draining:
            super()._wake(session_id)

    async def _drive(self, session_id: str) -> None:
        await super()._drive(session_id)
        if session_id in self._stale and not self._is_busy(session_id) and not self._closing:
            await self._renewed(session_id)

    async def _renewed(self, session_id: str) -> None:
        """Close a session, and let the next one of its chat go on with what waits."""
        self._stale -= {session_id}
        await self._close(session_id)
        if await has_work(self._store, session_id):
            self._wake(session_id)
