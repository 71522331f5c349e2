"""SessionManager: many sessions in one process, opened by key, driven while they have work, with few resources while idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agent.conversation.answers import record_answer, topic_of
from agent.conversation.hosting import is_only_retried, knock, remind, settled, take_over
from agent.conversation.lineage import session_id_of
from agent.conversation.waiting import has_news, has_work, parked_runs
from agent.desk.request import SessionRequest
from agent.events import Event
from agent.store._owner import new_owner
from toolcrib.contract.context import Principal
from toolcrib.contract.deprecated import old_name
from toolcrib.contract.errors import LeaseLost, StoreFailed, ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.store import InboxMode, Lease, Settled
from toolcrib.contract.types import Answer

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.conversation.state import RunResult
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from agent.workspace import Workspace

__all__ = ["SessionManager", "session_id_of"]
_log = logging.getLogger(__name__)
_HOST_SECONDS, _RETRY_SECONDS = 20.0, 10.0
"""Seconds that a host's lease lasts, and seconds before a session is retried after the store failed."""
_TOPIC = topic_of("")
Watch = Callable[[str, Event], None]
"""A listener for a session's id and an event."""
Done = Callable[[str, "RunResult | Exception"], None]
"""A listener for a session's id and the outcome of a run."""


class SessionManager:
    """Opens sessions of one platform by key, and drives each in its own task while it has work.

    A run that waits for an answer is parked and costs only its row in the store; an answer from any process wakes it here. After
    ``idle_seconds`` idle sessions close their shells and connections. If more than ``most`` sessions are open, the least recently
    used are closed. ``prepare`` receives each opened session, ``watch`` each event, ``done`` each run's outcome. ``request``
    returns the SessionRequest for an id, even of a session that does not exist yet; ``crib`` opens the session. Without
    ``request``, ``opening`` holds the request's fields. ``opens`` replaces both. An async context manager for one event loop.
    """

    def __init__(
        self,
        crib: Crib | Workspace,
        *,
        platform: str = "api",
        choice: ModelChoice | None = None,
        instructions: str = "",
        watch: Watch = lambda session_id, event: None,
        done: Done = lambda session_id, result: None,
        prepare: Callable[[Session], None] = lambda session: None,
        idle_seconds: float = 30.0,
        look_seconds: float = 300.0,
        most: int = 2_000,
        opens: Callable[[str], Awaitable[Session]] | None = None,
        request: Callable[[str], Awaitable[SessionRequest]] | None = None,
        **opening: Any,
    ) -> None:
        self._crib = crib
        self._store = crib.store
        self._platform = platform
        self._plain: dict[str, Any] = {"choice": choice, "instructions": instructions, **opening}
        self._watch = watch
        self._done = done
        self._prepare = prepare
        self._idle_seconds, self._look_seconds = idle_seconds, look_seconds
        self._most = most
        self._request = request or self._plain_request
        self._opens = opens or self._requested
        self._open: OrderedDict[str, Session] = OrderedDict()
        """Open sessions by id, least recently used first."""
        self._used: dict[str, float] = {}
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._failed, self._resting = set[str](), set[str]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._host: Lease | None = None
        self._stop_listening: Callable[[], None] = lambda: None
        self._closing = False

    # -- start and close -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> SessionManager:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def start(self) -> None:
        """Start hosting: from now on answers wake this process. Raises StoreFailed."""
        loop = asyncio.get_running_loop()
        owner = new_owner()
        self._host = await self._store.leases.take(f"host:{owner}", owner, _HOST_SECONDS)
        self._stop_listening = self._store.signals.listen(lambda topic: knock(loop, self._heard, topic))
        self._spawn(self._renew())
        self._spawn(self._look_again())

    async def close(self) -> None:
        """Interrupt running work, and close every session. Parked runs stay parked for the next host."""
        self._closing = True
        self._stop_listening()
        for task in list(self._tasks):
            task.cancel()
        for session in list(self._open.values()):
            session.stop()
        await asyncio.gather(*self._driving.values(), *self._tasks, return_exceptions=True)
        for session_id in list(self._open):
            try:
                await self._close(session_id)
            except Exception:  # noqa: BLE001 - a session that can't be closed must not keep the others open
                _log.exception("session %s could not be closed", session_id[:12])
        if self._host is not None:
            with contextlib.suppress(StoreFailed):  # the lease expires by itself
                await self._store.leases.release(self._host)

    # -- messages and answers ------------------------------------------------------------------------------------

    async def say(
        self,
        key: str,
        text: str,
        images: Sequence[Image] = (),
        *,
        principal: Principal | None = None,
        mode: InboxMode = "queue",
        message_key: str = "",
    ) -> str | None:
        """Put a message into the session's inbox and wake the session. Return the session's id, or None for a repeated message.

        Raises what Crib.open raises, StoreFailed, and ToolcribError once the manager is closing.
        """
        session_id = session_id_of(self._platform, key)
        kept = await self.say_in(session_id, text, images, principal=principal, mode=mode, message_key=message_key)
        return session_id if kept else None

    async def say_in(
        self,
        session_id: str,
        text: str,
        images: Sequence[Image] = (),
        *,
        principal: Principal | None = None,
        mode: InboxMode = "queue",
        message_key: str = "",
    ) -> bool:
        """Do what ``say`` does, for a session id. Return False for a repeated message."""
        if self._closing:
            raise ToolcribError("this process is stopping and accepts no more messages; send it again after the restart")
        session = await self.opened(session_id)
        item = await session.say(text, images, mode=mode, key=message_key, principal=principal or Principal(self._platform))
        if item is not None:
            await self._woken(session_id)
        return item is not None

    async def answer(self, answer: Answer, approver: Principal | None = None) -> Settled:
        """Record an answer, and wake its session if this process hosts it. Raises what record_answer raises."""
        settled = await record_answer(self._store, answer, approver)
        record = await self._store.tickets.get(answer.ticket_id)
        if record is not None:
            await self._woken(record.session_id)
        return settled

    def interrupt(self, key: str) -> None:
        """End the current work in a session, whichever user started it; the session continues with the next message."""
        self.interrupt_in(session_id_of(self._platform, key))

    def interrupt_in(self, session_id: str) -> None:
        """Do what ``interrupt`` does, for a session id."""
        if (session := self._open.get(session_id)) is not None:
            session.interrupt()

    async def session(self, key: str) -> Session:
        """Return the session of this key, opened. Raises what Crib.open raises."""
        return await self.opened(session_id_of(self._platform, key))

    def run_id(self, session_id: str) -> str:
        """Return the id of the last run of an open session; "" if there is none."""
        run = None if (session := self._open.get(session_id)) is None else session.run
        return "" if run is None else run.id

    async def wait_until_idle(self, seconds: float) -> None:
        """Wait until no session is driven, or until the time is over."""
        if self._driving:
            await asyncio.wait(list(self._driving.values()), timeout=seconds)

    rest = old_name(wait_until_idle, "rest")

    def at_work(self, session_id: str) -> bool:
        """Return whether the session is being driven here."""
        return session_id in self._driving

    @property
    def open_sessions(self) -> int:
        """The number of open sessions."""
        return len(self._open)

    # -- driving -------------------------------------------------------------------------------------------------

    async def opened(self, session_id: str) -> Session:
        """Return the session of an id, opened. Raises what Crib.open raises."""
        session = self._open.get(session_id)
        if session is None:
            made = await self._opens(session_id)
            session = self._open.setdefault(session_id, made)
            if session is not made:  # two callers opened it at once
                await made.close()
            else:
                session.watch = lambda event: self._tell(self._watch, session_id, event)
                self._prepare(session)
                if self._host is not None:  # if this process ends, the next host takes the session over
                    await self._store.sessions.update(session_id, host=self._host.name)
                await self._shrink(besides=session_id)
        self._touch(session_id)
        return session

    async def _requested(self, session_id: str) -> Session:
        return await self._crib.open_by(await self._request(session_id))

    async def _plain_request(self, session_id: str) -> SessionRequest:
        return SessionRequest(platform=self._platform, named=session_id, suspends=True, **self._plain)

    def _touch(self, session_id: str) -> None:
        self._open.move_to_end(session_id)
        self._used[session_id] = time.monotonic()
        self._resting.discard(session_id)

    def _wake(self, session_id: str) -> None:
        """Drive a session with its waiting work. If it is already driven, drive it once more afterwards."""
        if self._closing:
            return
        if session_id in self._driving:
            self._again.add(session_id)
            return
        self._failed.discard(session_id)
        self._driving[session_id] = asyncio.get_running_loop().create_task(self._drive(session_id))

    async def _drive(self, session_id: str) -> None:
        try:
            while True:
                self._again.discard(session_id)
                parked = await self._advance(session_id)
                more = session_id in self._again
                self._again.discard(session_id)
                if not more or not await has_work(self._store, session_id):
                    break
            if parked and not self._works_in_background(session_id):
                await self._close(session_id)
        except Exception as error:  # noqa: BLE001 - it is reported, and the other sessions continue
            self._again.discard(session_id)  # otherwise the session would fail again at once
            self._failed.add(session_id)  # so that late signals about earlier messages do not wake it
            _log.error("session %s could not continue: %s", session_id[:12], error, exc_info=not isinstance(error, ToolcribError))
            if not (passes := is_only_retried(error)):
                self._tell(self._done, session_id, error)
            if passes or (isinstance(error, StoreFailed) and not isinstance(error, LeaseLost)):
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._wake, session_id)
        finally:
            del self._driving[session_id]
            if session_id in self._again and not self._closing:
                self._spawn(self._woken(session_id))  # not _wake: the news may not concern the parked run

    async def _advance(self, session_id: str) -> bool:
        """Work until nothing is left to do. Return whether a run is parked."""
        session = await self.opened(session_id)
        last: RunResult | Exception | None = None

        def done(outcome: RunResult | Exception) -> None:
            nonlocal last
            last = outcome
            self._tell(self._done, session_id, outcome)

        try:
            result = await session.advance(done=done)
        except ToolcribError as error:
            if error is not last:
                raise
            return False
        return result is not None and result.stopped == "parked"

    def _tell(self, told: Callable[[str, Any], None], session_id: str, what: Event | RunResult | Exception) -> None:
        """Call a listener. Its failure must not end the run."""
        try:
            told(session_id, what)
        except Exception:  # noqa: BLE001 - the listener is the caller's code
            _log.exception("a listener of session %s failed", session_id[:12])

    # -- signals and polling -------------------------------------------------------------------------------------

    def _heard(self, topic: str) -> None:
        if topic.startswith(_TOPIC) and not self._closing:
            self._spawn(self._woken(topic.removeprefix(_TOPIC)))

    async def _woken(self, session_id: str) -> None:
        """Handle a signal about a session: wake the session if this process hosts it and it has work."""
        session = self._open.get(session_id)
        if session is not None and session_id in self._driving:
            self._again.add(session_id)  # before the store is read, because the task that drives it may end meanwhile
            for item in await self._store.inbox.waiting(session_id):
                if item.mode == "interrupt":
                    session.interrupt_for(item)
            return
        info = None if session is not None else await self._store.sessions.get(session_id)
        ours = session is not None or (info is not None and self._host is not None and info.host == self._host.name)
        if ours and await (has_news if session_id in self._failed else has_work)(self._store, session_id):
            self._wake(session_id)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_HOST_SECONDS / 3)
            try:
                if self._host is not None and not await self._store.leases.renew(self._host):
                    _log.error("another process took over as host; it continues parked runs")
                    return
                await self._give_back_idle()
            except StoreFailed as error:
                _log.warning("the host lease could not be renewed: %s", error)
            except Exception:  # noqa: BLE001 - without this task the host's lease would lapse
                _log.exception("idle sessions could not release their resources")

    async def _look_again(self) -> None:
        """Check parked runs regularly, because signals may be lost and tickets expire; send reminders that are due."""
        while True:
            try:
                await self._adopt()
                pause = await self._look()
            except StoreFailed as error:
                _log.warning("parked runs could not be checked: %s", error)
                pause = min(_RETRY_SECONDS, self._look_seconds)
            except Exception:  # noqa: BLE001 - without this task parked runs would never be looked at again
                _log.exception("parked runs could not be checked")
                pause = self._look_seconds
            await asyncio.sleep(pause)

    async def _look(self) -> float:
        """Check the parked runs once. Return the seconds until the next check."""
        await remind(self._store, self._platform, lambda reminder: self._tell(self._watch, reminder.session_id, reminder))
        found, ends = await settled(self._store)
        for session_id in found:
            await self._woken(session_id)
        return max(0.2, min(ends - time.time(), self._look_seconds))

    async def _adopt(self) -> None:
        """Host the sessions of this platform whose host has ended, if a run is parked or unfinished."""
        if self._host is None:
            return
        async for run in parked_runs(self._store):
            await take_over(self._store, run.session_id, self._platform, self._host.name)
        for session_id in await self._store.runs.unfinished():
            if session_id not in self._driving and await take_over(self._store, session_id, self._platform, self._host.name):
                self._wake(session_id)

    # -- idle sessions -------------------------------------------------------------------------------------------

    async def _give_back_idle(self) -> None:
        before = time.monotonic() - self._idle_seconds
        for session_id, session in list(self._open.items()):
            if self._used.get(session_id, 0.0) > before:
                break
            if session_id in self._open and session_id not in self._resting and not self._is_busy(session_id):
                self._resting.add(session_id)
                await session.release_idle()

    async def _shrink(self, besides: str) -> None:
        for session_id in list(self._open) if len(self._open) > self._most else ():
            if len(self._open) > self._most and session_id != besides and not self._is_busy(session_id):
                await self._close(session_id)

    def _is_busy(self, session_id: str) -> bool:
        """Return whether closing the session would end work in it: its own run, or background delegates or processes."""
        return session_id in self._driving or self._works_in_background(session_id)

    def _works_in_background(self, session_id: str) -> bool:
        session = self._open.get(session_id)
        return session is not None and session.works_in_background

    async def _close(self, session_id: str) -> None:
        self._used.pop(session_id, None)
        self._resting.discard(session_id)
        self._failed.discard(session_id)
        if (session := self._open.pop(session_id, None)) is not None:
            await session.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
