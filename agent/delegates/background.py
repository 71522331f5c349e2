"""Background delegates, which run beside their session's runs, across processes, until their ends are delivered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.conversation import lineage
from agent.delegates import BACKGROUND, SEARCH
from agent.delegates.background_delegate import BackgroundDelegate
from agent.delegates.budget import tokens_in
from agent.delegates.delegate import DelegateOutcome
from agent.delegates.relaying import answered_under
from agent.delegates.task import Order, delegate_id, delivered
from agent.delegates.waiting import record_waiting
from toolcrib.contract.errors import LeaseLost, StoreFailed, ToolcribError
from toolcrib.contract.store import InboxItem
from toolcrib.contract.types import ToolCallStatus

if TYPE_CHECKING:
    from agent.delegates.budget import Allowance
    from agent.delegates.delegate import Delegate
    from agent.delegates.starting import DelegateStarter
    from agent.events import DelegateEnded
    from toolcrib.contract.types import SuspendTicket

_CLOSE_SECONDS = 15.0
_log = logging.getLogger(__name__)


class BackgroundDelegates:
    """The background delegates of one session. ``starter`` starts them."""

    def __init__(self, starter: DelegateStarter) -> None:
        self._starter = starter
        self._session = starter.session
        self._store = starter.store
        self._at_work: dict[str, BackgroundDelegate] = {}
        self._told: set[str] = set()
        """Delegates whose end was delivered, as far as this process knows."""
        self._closing = False
        self.in_front = False
        """True if the session's caller waits for the delegates: then an interrupt of the session ends them too."""

    @property
    def at_work(self) -> Sequence[BackgroundDelegate]:
        """The running delegates, in the order of their start."""
        return list(self._at_work.values())

    def is_told(self, session_id: str) -> bool:
        """Return whether this process knows that a delegate's end was delivered."""
        return session_id in self._told

    async def begin(self, session_id: str, order: Order) -> None:
        """Store a delegate's task before its start is reported, and start it. Raises the same errors as Crib.open."""
        delegate, allowance = self._starter.new(session_id, order)
        child = await self._starter.open(delegate, allowance)
        try:
            with self._starter.share() as share:
                await delegate.say(child, self._starter.limits(order, share))
        finally:
            await child.close()
        self._send_off(session_id, order)

    def _send_off(self, session_id: str, order: Order) -> None:
        if session_id in self._at_work:
            return
        task = asyncio.get_running_loop().create_task(self._in_background(session_id, order))
        self._at_work[session_id] = BackgroundDelegate(session_id, order, task)
        if self.in_front:
            self._session.scope.running.add(task)

    async def _in_background(self, session_id: str, order: Order) -> None:
        task, running = asyncio.current_task(), self._session.scope.running
        ended: DelegateEnded | None = None
        try:
            try:
                outcome = await self._ended(session_id, order)
            finally:
                if task is not None:
                    running.discard(task)
            if outcome is not None:
                ended = await self._deliver(session_id, order, outcome)
        finally:
            del self._at_work[session_id]
        if ended is not None:  # after the removal, so that listeners no longer find it running
            self._session.watch(ended)

    async def _ended(self, session_id: str, order: Order) -> DelegateOutcome | None:
        """Return the outcome of a delegate; None if another process must report it."""
        delegate, allowance = self._starter.new(session_id, order)
        try:
            outcome = await self._through(delegate, allowance)
        except asyncio.CancelledError:
            told = self._at_work[session_id].is_stopped or (self.in_front and self._session.scope.cancelled)
            if not (told or delegate.outcome is not None or self._closing):  # the loop is closing: the next process resumes it
                raise
            if delegate.outcome is not None and delegate.outcome.ended == "parked" and not told:
                return None  # it waits for an answer; the next process resumes it
            outcome = delegate.outcome or DelegateOutcome("interrupted", problem="it was cancelled before it began")
        except LeaseLost:  # another process runs it, and delivers its end
            return None
        except ToolcribError as error:
            outcome = DelegateOutcome(type(error).__name__, problem=str(error))
        except Exception as error:  # noqa: BLE001 - its parent gets any error
            _log.exception("the delegate %s failed", session_id[:12])
            outcome = DelegateOutcome(type(error).__name__, problem=str(error))
        return outcome

    async def _through(self, delegate: Delegate, allowance: Allowance) -> DelegateOutcome:
        """Run a delegate to its end; its questions are parked under the session."""
        while True:
            outcome = await self._starter.run(delegate, allowance)
            records = [record for ticket in outcome.tickets if (record := await self._store.tickets.get(ticket)) is not None]
            if outcome.ended != "parked":
                return outcome
            waiting = [record for record in records if record.state == "pending"]
            if not waiting:  # the tickets were decided before they could be parked under the session
                continue
            allowance.stop()
            try:
                await answered_under(
                    self._store,
                    self._session.id,
                    waiting,
                    delegate.order.about(),
                    self._parked,
                )
            finally:
                allowance.go_on()

    def _parked(self, ticket: SuspendTicket) -> None:
        from agent.events import TicketOpened

        if ticket.call is not None:
            self._session.watch(TicketOpened(ticket.id, ticket.call))

    async def _deliver(self, session_id: str, order: Order, outcome: DelegateOutcome) -> DelegateEnded | None:
        """Put a delegate's end into the parent's inbox, once, for its next turn or run. None if the store fails."""
        from agent.conversation.answers import topic_of
        from agent.events import DelegateEnded

        said = outcome.clipped(session_id, searches=SEARCH in self._session.names)
        answer = "\n".join(part for part in (said, outcome.problem) if part) or "(no answer)"
        options = {"delegate": session_id, "usage": dict(outcome.usage), "cost": outcome.cost}
        text = self._session.scope.redactor.text(delivered(order.name, session_id, outcome.ended, answer))
        who = order.principal.to_json()
        item = InboxItem(self._session.id, text, "steer", f"delegate:{session_id}", who, (), options, time.time())
        try:
            await self._store.inbox.put(item)
            await self._store.signals.send(topic_of(self._session.id))
        except StoreFailed as error:
            _log.error("the end of the delegate %s could not be delivered, retrying later: %s", session_id[:12], error)
            return None
        self._told.add(session_id)
        problem, tokens = self._session.scope.redactor.text(outcome.problem), tokens_in(outcome.usage)
        with contextlib.suppress(StoreFailed):  # the next process finds that it has ended
            await record_waiting(self._store.state, self._session.scope, session_id, waits=False)
        return DelegateEnded(session_id, order.name, outcome.ended, problem, outcome.turns, tokens)

    async def go_on(self) -> None:
        """Resume the delegates that an ended process left. The caller holds the session's lease."""
        for session_id in self._session.scope.state.get(BACKGROUND.name) or ():
            if session_id in self._at_work or session_id in self._told:
                continue
            info = await self._store.sessions.get(session_id)
            if info is None or info.parent != self._session.id:  # a delegate of the session that this one was forked from
                self._told.add(session_id)
                continue
            try:
                order = Order.from_text(info.place.get(lineage.ORDER, ""))
            except (ValueError, KeyError, TypeError):
                _log.error("the task of the delegate %s can't be read", session_id[:12])
                self._told.add(session_id)
                continue
            self._send_off(session_id, order)

    async def ended(self) -> None:
        """Wait until all delegates have ended."""
        await asyncio.gather(*(one.work for one in self.at_work), return_exceptions=True)

    async def settled(self, turn_id: str, call_id: str) -> None:
        """Handle a settled call, see Delegates.settled."""
        session_id = delegate_id(self._session.id, turn_id, call_id)
        if session_id not in self._at_work and session_id not in self._told:
            await self._settle(session_id, turn_id, call_id)

    async def _settle(self, session_id: str, turn_id: str, call_id: str) -> None:
        store = self._store
        info = await store.sessions.get(session_id)
        if info is None:
            return
        order = Order.from_text(info.place.get(lineage.ORDER, ""))
        if order.background:
            call = await store.ledger.get(self._session.id, call_id)
            if call is not None and call.status is ToolCallStatus.SUCCEEDED and call.is_of(turn_id, 0.0):
                await record_waiting(store.state, self._session.scope, session_id, waits=True)
                self._send_off(session_id, order)
                return
        await store.inbox.drop([item.id for item in await store.inbox.waiting(session_id)])
        if await store.runs.current(session_id) is not None:
            delegate, allowance = self._starter.new(session_id, order)
            child = await self._starter.open(delegate, allowance)
            try:
                await child.end_unfinished()
            finally:
                await child.close()

    async def close(self) -> None:
        """End running delegates. Return when their ends are delivered, or after _CLOSE_SECONDS. Any event loop may call this."""
        self._closing = True
        for one in self.at_work:
            with contextlib.suppress(RuntimeError):  # its loop is closing
                one.cancel()
        give_up = time.monotonic() + _CLOSE_SECONDS
        while time.monotonic() < give_up:  # they may run in loops of other threads
            if all(one.is_lost for one in self.at_work):
                return
            await asyncio.sleep(0.005)
