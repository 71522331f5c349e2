"""Sessions of a service: a manager that can drain, leave runs to the next process, and take a new configuration."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agent.conversation.answers import topic_of
from agent.conversation.manager import SessionManager
from agent.conversation.state import RunState, run_id_of
from agent.conversation.transcript import source_of
from agent.conversation.waiting import has_work
from toolcrib.contract.context import Principal
from toolcrib.contract.types import Answer
from tools.approval.grants import end_session_grants
from tools.dispatch.gates import NO_USER

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.process import Crib
    from toolcrib.contract.store import InboxItem

_log = logging.getLogger(__name__)


class HostedSessions(SessionManager):
    """A SessionManager for a gateway or for jobs, which restart and change their configuration while users work.

    ``is_left`` returns whether the session's chat has another session now, so that no work happens in this one. ``may_go_on``
    waits until work in a session is allowed. Both raise StoreFailed. ``more`` are the arguments of SessionManager.
    """

    def __init__(
        self,
        crib: Crib,
        *,
        is_left: Callable[[str], Awaitable[bool]],
        may_go_on: Callable[[str], Awaitable[None]] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(crib, **more)
        self._is_left = is_left
        self._may_go_on = may_go_on
        self._draining = False
        self._stale = frozenset[str]()
        """Open sessions of an earlier configuration."""
        self._ending = frozenset[str]()
        """Left sessions that have not been ended yet."""
        self._at_their_end = frozenset[str]()
        """Left sessions that are being ended now."""

    async def drain(self, seconds: float) -> None:
        """Begin no more runs, and return once the current ones have ended, or ``seconds`` have passed."""
        self._draining = True
        for session in self._open.values():
            session.begin_nothing()
        await self.wait_until_idle(max(0.0, seconds))

    async def leave(self) -> None:
        """Stop driving the sessions without ending their runs, and close: the next host continues the runs, as after a kill."""
        self._closing = True
        driving = list(self._driving.values())
        for task in driving:
            task.cancel()
        await asyncio.gather(*driving, return_exceptions=True)
        await self.close()

    async def end_unfinished(self, session_id: str) -> None:
        """End a session's parked run and its background delegates, and continue with the next messages.

        Raises what Crib.open raises.
        """
        session = await self.opened(session_id)
        for delegate in session.delegates.at_work:
            delegate.stop()
        await session.end_unfinished()
        await self._woken(session_id)

    async def stop_run(self, session_id: str, speaker: str = "") -> bool:
        """End the current or next run of a session, and return whether there is one.

        With ``speaker`` only that user's run is ended; "" ends any. Raises what Crib.open raises.
        """
        session = await self.opened(session_id)
        run, waiting = await self._store.runs.current(session_id), await self._store.inbox.waiting(session_id)
        if run is None and not waiting:
            return False
        whose = RunState.of(run).principal if run is not None else Principal.from_json(waiting[0].principal)
        if speaker and whose.person not in ("", speaker):  # the speaker's run has just ended
            return False
        session.interrupt(run.id if run is not None else run_id_of(session_id, waiting[0].id))
        return True

    async def go_on(self, session_id: str) -> None:
        """Open a session, and continue its waiting work. Raises what Crib.open raises."""
        await self.opened(session_id)
        await self._woken(session_id)

    async def has_left(self, session_id: str) -> bool:
        """Return whether a session has unfinished work: a run that is under way or waits for an answer, background delegates, or
        a waiting message.

        Raises StoreFailed.
        """
        if self._is_busy(session_id) or await self._store.runs.current(session_id) is not None:
            return True
        return bool(await self._store.inbox.waiting(session_id))

    async def speaker_in(self, session_id: str) -> str:
        """Return the user of the session's unfinished run, or else of the next message; "" for none. Raises StoreFailed."""
        if (run := await self._store.runs.current(session_id)) is not None:
            return RunState.of(run).principal.person
        for item in await self._store.inbox.waiting(session_id):
            return Principal.from_json(item.principal).person
        return ""

    async def waiting_of_others(self, session_id: str, user: str) -> list[InboxItem]:
        """Return the waiting messages of users other than ``user``. Raises StoreFailed."""
        waiting = [one for one in await self._store.inbox.waiting(session_id) if not source_of(one)]
        return [one for one in waiting if Principal.from_json(one.principal).person != user]

    async def end(self, session_id: str) -> None:
        """End everything in a session that its chat has left: its run, messages, approval requests and grants.

        Returns at once if a run is under way: the run is stopped, and the rest follows. ``end_again`` retries what can't be ended
        yet; ``is_left`` prevents work in the session meanwhile, also in a later process.
        """
        self._ending |= {session_id}
        if (session := self._open.get(session_id)) is not None:
            session.stop()
        if session_id not in self._driving:
            await self._end(session_id)

    async def waits(self, session_id: str) -> bool:
        """Return whether a session's run is parked.

        If the chat has left the session, a process ended before it could end the session. Then this ends the session in the
        background, and returns False. Raises StoreFailed.
        """
        run = await self._store.runs.current(session_id)
        if run is None or run.status != "parked":
            return False
        if await self._is_left(session_id):
            self._spawn(self.end(session_id))
            return False
        return True

    async def end_again(self) -> None:
        """Retry ending the sessions that could not be ended."""
        for session_id in self._ending - self._driving.keys():
            await self._end(session_id, logging.DEBUG)

    async def _end(self, session_id: str, level: int = logging.WARNING) -> None:
        if session_id in self._at_their_end:
            return
        self._ending |= {session_id}
        self._at_their_end |= {session_id}
        try:
            await self._take_back(session_id)
            self._ending -= {session_id}
        except Exception as error:  # noqa: BLE001 - it is retried, and the new session continues
            _log.log(level, "the session %s could not be ended, retrying: %s", session_id[:12], error)
        finally:
            self._at_their_end -= {session_id}

    async def _take_back(self, session_id: str) -> None:
        """End a left session.

        The approval requests come first: withdrawing them needs no open session, and a missing backend may prevent opening it.
        """
        for record in await self._store.tickets.pending(session_id):
            answer = Answer(record.ticket.id, action="cancel", reason="the chat has another session", by=NO_USER, at=time.time())
            await self._store.tickets.decide_ticket(answer, "expired")
        await self._drop(session_id)
        await self._store.signals.send(topic_of(session_id))
        if await self._store.runs.current(session_id) is not None:
            await (await self.opened(session_id)).end_unfinished()
        if (session := self._open.get(session_id)) is not None:
            for delegate in session.delegates.at_work:
                delegate.stop()
        await self._close(session_id)  # this ends the delegates; their last reports are dropped next
        await self._drop(session_id)
        await end_session_grants(self._store.grants, session_id)

    async def _drop(self, session_id: str) -> None:
        """Remove the waiting messages from a session's inbox."""
        if waiting := [item.id for item in await self._store.inbox.waiting(session_id)]:
            await self._store.inbox.drop(waiting)

    def use(self, most: int) -> None:
        """Keep at most this many sessions open from now on."""
        self._most = most

    async def renew(self) -> None:
        """Close the open sessions, each as soon as its running work and its background delegates have ended. The next message
        of a chat reopens its session.
        """
        self._stale = frozenset(self._open)
        for session_id in list(self._open):
            if not self._is_busy(session_id):
                await self._renewed(session_id)
            elif (session := self._open.get(session_id)) is not None and not session.works_in_background:
                session.begin_nothing()

    @property
    def at_work_now(self) -> int:
        """The number of sessions with a run under way."""
        return len(self._driving)

    @property
    def processes_now(self) -> int:
        """The number of running background processes of the open sessions."""
        return sum(len(session.running_processes) for session in self._open.values())

    async def opened(self, session_id: str) -> Session:
        """Do what SessionManager.opened does. The session begins no run during a drain, or if it is being ended."""
        session = await super().opened(session_id)
        if self._draining or session_id in self._ending:
            session.begin_nothing()
        return session

    def _wake(self, session_id: str) -> None:
        if not self._draining:
            super()._wake(session_id)

    async def _advance(self, session_id: str) -> bool:
        if self._may_go_on is not None:
            await self._may_go_on(session_id)
        if await self._is_left(session_id):
            await self._end(session_id)
            return False
        return await super()._advance(session_id)

    async def _drive(self, session_id: str) -> None:
        await super()._drive(session_id)
        session = self._open.get(session_id)
        if session_id in self._stale and not self._draining and session is not None and session.works_in_background:
            session.begin_again()  # a process that its last run started may run for months
        if session_id in self._ending and not self._closing:
            await self._end(session_id)
        if session_id in self._stale and not self._is_busy(session_id) and not self._closing:
            await self._renewed(session_id)

    async def _renewed(self, session_id: str) -> None:
        """Close a session, and reopen it if it has waiting work."""
        self._stale -= {session_id}
        await self._close(session_id)
        if await has_work(self._store, session_id):
            self._wake(session_id)
