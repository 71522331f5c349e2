"""A session's delegates: the handler of ``delegate_task``, those at work, and those in the background from process to process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.conversation import lineage
from agent.delegates.atwork import BackgroundDelegate
from agent.delegates.orders import PROMPT, SEARCH, TOOL, Order, allowed_tools, delegate_id, delivered
from agent.delegates.places import Places
from agent.delegates.waiting import BACKGROUND, note
from toolcrib import (
    Denied,
    ExecutionFailed,
    LeaseLost,
    ProgressStatus,
    StateUpdate,
    StoreFailed,
    ToolCallContext,
    ToolCallStatus,
    ToolcribError,
    ToolOutput,
    ToolResult,
)
from toolcrib._store import InboxItem
from toolcrib._types import Handler

if TYPE_CHECKING:
    from agent.backends import Location
    from agent.conversation.limits import RunLimits
    from agent.conversation.session import Session
    from agent.conversation.state import CallState
    from agent.delegates.budget import Allowance, RunBudget, Share
    from agent.delegates.delegate import Delegate, DelegateOutcome, Report
    from agent.workspace import Workspace

_CLOSE_SECONDS = 15.0
_log = logging.getLogger(__name__)


class Delegates:
    """``depth`` is how many delegates the session is below one of a person. ``handlers`` are those that the session was
    given.
    """

    def __init__(
        self,
        here: Workspace,
        location: Location,
        depth: int,
        *,
        alone: bool = False,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        self._here = here
        self._location = location
        self._depth = depth
        self.alone = alone
        """True where nobody will read a message that comes after the run: then no delegate works in the background."""
        self.asks_at_once = False
        """True where a person can be asked between runs too; else a background delegate's questions wait for the next one."""
        self._given = handlers or {}
        self._places = Places(here.config.delegates.at_once)
        self._budget: RunBudget | None = None
        self._background: dict[str, BackgroundDelegate] = {}
        self._told: set[str] = set()
        """Delegates in the background whose end this process knows to be delivered."""
        self._closing = False
        self.session: Session

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handler by the tool's name."""
        return {TOOL: self.handle}

    @property
    def at_work(self) -> Sequence[BackgroundDelegate]:
        """Delegates that work in the background, the first that began first."""
        return list(self._background.values())

    # -- the handler ---------------------------------------------------------------------------------------------

    async def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolOutput | ToolResult:
        """``data``: {delegate, name, ended, answer, problem?, turns, usage, cost?}, or {delegate, name, ended: "works on", note}
        for one in the background. PENDING while it waits for an answer. Raises InvalidArguments, Denied, and ExecutionFailed
        where it could not begin.
        """
        session, settings = self.session, self._here.config.delegates
        if self._depth >= settings.max_depth:
            raise Denied(f"delegates may be {settings.max_depth} deep (delegates.max_depth), and this session is; do it yourself")
        order = Order.of(args, ctx.run_identity.principal)
        self._tools_for(order)
        turn = "" if session.run is None else session.run.turn_id
        session_id = delegate_id(session.id, turn or ctx.run_identity.run_id, ctx.call_id)
        if order.background and not self.alone:
            await self._begin(session_id, order)
            note = "it works in the background; its answer comes as a message when it has ended"
            data = {"delegate": session_id[:12], "name": order.name, "ended": "works on", "note": note}
            more = StateUpdate(lambda known: [*(known or ()), *(() if session_id in self._told else (session_id,))])
            return ToolOutput(ToolResult.success(ctx.tool_name, data), ((BACKGROUND, more),))
        return await self._awaited(session_id, order._replace(background=False), ctx)

    async def _awaited(self, session_id: str, order: Order, ctx: ToolCallContext) -> ToolResult:
        from agent.delegates.relaying import hand_on, stand_in

        store = self._here.store
        await hand_on(store, session_id, ctx.answer_to)
        delegate, allowance = self._new(session_id, order, partial(ctx.report_progress, ProgressStatus.RUNNING))
        try:
            outcome = await self._run(delegate, allowance)
        except asyncio.CancelledError as error:
            what = "" if delegate.outcome is None else f"; turns that it had: {delegate.outcome.turns}"
            error.add_note(f"the delegate {order.name} ({session_id[:12]}) was ended with it{what}")
            raise
        except (StoreFailed, Denied):
            raise
        except ToolcribError as error:
            raise ExecutionFailed(f"the delegate could not begin: {error}") from error
        for ticket_id in outcome.tickets:
            record = await store.tickets.get(ticket_id)
            if record is not None and record.state == "pending":
                ticket = stand_in(record.ticket, order.about())
                return ToolResult.suspended_with(ctx.tool_name, ticket.message, ticket)
        ended = ProgressStatus.DONE if outcome.ended == "done" else ProgressStatus.FAILED
        ctx.report_progress(ended, f"{order.name} has ended")
        return ToolResult.success(ctx.tool_name, outcome.data(session_id, order.name, searches=SEARCH in self.session.names))

    def _tools_for(self, order: Order) -> list[str]:
        deeper = self._depth + 1 < self._here.config.delegates.max_depth
        return allowed_tools(order, self.session.names, asks=self.session.scope.asker is not None, delegates=deeper)

    def _new(self, session_id: str, order: Order, report: Report = lambda line, share: None) -> tuple[Delegate, Allowance]:
        from agent.delegates.budget import Allowance
        from agent.delegates.delegate import Delegate

        settings = self._here.config.delegates
        seconds = settings.seconds if order.seconds is None else min(order.seconds, settings.seconds)
        allowance = Allowance(seconds)
        return Delegate(session_id, order, allowance, self.session, report), allowance

    async def _run(self, delegate: Delegate, allowance: Allowance) -> DelegateOutcome:
        """Have it work as soon as there is a place for it. Raises as ``open``, and asyncio.CancelledError."""
        session = self.session
        async with self._places.taken(partial(self._waiting, delegate, allowance)):
            with self._share() as share:
                child = await self._open(delegate, allowance)
                outcome = await delegate.run(child, self._limits(delegate.order, share))
                if session.run is not None and self._budget is not None:
                    self._budget.used(delegate.id, session.run.turn_id, outcome.usage, outcome.cost)
                return outcome

    def _share(self) -> AbstractContextManager[Share]:
        """Set a part of what the session's run has left aside. Raises Denied."""
        from agent.delegates.budget import RunBudget

        if self._budget is None:
            self._budget = RunBudget()
        session = self.session
        run = session.run if session.turnstile.is_taken else None
        return self._budget.share(run, session.limits, self._here.config.delegates.at_once)

    def _limits(self, order: Order, share: Share) -> RunLimits:
        from agent.delegates.budget import limits_of

        run = self.session.run
        return limits_of(order, self._here.config.delegates, self.session.limits if run is None else run.limits, share)

    @contextlib.contextmanager
    def _waiting(self, delegate: Delegate, allowance: Allowance) -> Iterator[None]:
        """Wait for a place: that is not the delegate's time."""
        allowance.stop()
        try:
            with delegate.waiting("waits for its place"):
                yield
        finally:
            allowance.go_on()

    async def _open(self, delegate: Delegate, allowance: Allowance) -> Session:
        """Open the delegate's session: a new one, or the one that an ended process left. Raises as Crib.open."""
        from agent.delegates.relaying import Relay
        from agent.delegates.sharing import SharedFiles, SharedUndo, folder_of
        from agent.models import ModelChoice
        from tools.approval.policy import Policy

        parent, order = self.session, delegate.order
        scope, who = parent.scope, order.principal
        about = order.about()
        place = {
            lineage.PARENT: parent.id,
            lineage.WHY: lineage.DELEGATE,
            lineage.DEPTH: str(self._depth + 1),
            lineage.ORDER: order.to_text(),
        }
        known = await parent.info()
        child = await self._here.open(
            platform=who.platform,
            user=who.user,
            roles=who.roles,
            asker=None if scope.asker is None else Relay(parent, about, allowance, delegate.waiting, background=order.background),
            suspends=scope.suspends,
            named=delegate.id,
            handlers=self._given,
            once=not scope.suspends,
            mode=parent.mode.now,
            descent=lineage.Descent(
                self._tools_for(order),
                folder_of(self._location, parent.scope.opened, self._here.project_dir),
                place,
                {} if known is None else known.via,
            ),
        )
        child.mode.follow(parent.mode)
        child.link.choice = parent.link.choice or ModelChoice()
        child.link.instructions = PROMPT
        own, shared = child.scope.policy, scope.policy
        if isinstance(own, Policy) and isinstance(shared, Policy):
            told = {"name": str(about["name"]), "task": str(about["task"])}
            child.scope.policy = replace(own, files=SharedFiles(shared.files, parent.id, own.files), delegate=told)
        child.scope.undo = None if scope.undo is None else SharedUndo(scope.undo)
        return child

    # -- in the background ---------------------------------------------------------------------------------------

    async def _begin(self, session_id: str, order: Order) -> None:
        """Keep a delegate's task before anybody is told that it works, and have it work. Raises as Crib.open."""
        delegate, allowance = self._new(session_id, order)
        child = await self._open(delegate, allowance)
        try:
            with self._share() as share:
                await delegate.say(child, self._limits(order, share))
        finally:
            await child.close()
        self._send_off(session_id, order)

    def _send_off(self, session_id: str, order: Order) -> None:
        if session_id in self._background:
            return
        task = asyncio.get_running_loop().create_task(self._in_background(session_id, order))
        self._background[session_id] = BackgroundDelegate(session_id, order, task)
        self.session.scope.running.add(task)  # an interrupt of the session ends it too

    async def _in_background(self, session_id: str, order: Order) -> None:
        task, running = asyncio.current_task(), self.session.scope.running
        try:
            try:
                outcome = await self._ended(session_id, order)
            finally:
                if task is not None:
                    running.discard(task)
            if outcome is not None:
                await self._deliver(session_id, order, outcome)
        finally:
            del self._background[session_id]

    async def _ended(self, session_id: str, order: Order) -> DelegateOutcome | None:
        """Return what came of it; None where that is for another process to tell."""
        from agent.delegates.delegate import DelegateOutcome

        delegate, allowance = self._new(session_id, order)
        try:
            outcome = await self._through(delegate, allowance)
        except asyncio.CancelledError:
            told = self.session.scope.cancelled or self._background[session_id].is_stopped
            if not (told or delegate.outcome is not None or self._closing):  # the loop ends: the next process goes on with it
                raise
            if delegate.outcome is not None and delegate.outcome.ended == "parked" and not told:
                return None  # it waits for an answer, and goes on in the next process
            outcome = delegate.outcome or DelegateOutcome("interrupted", problem="it was ended before it began")
        except LeaseLost:  # another process has it, and delivers its end
            return None
        except ToolcribError as error:
            outcome = DelegateOutcome(type(error).__name__, problem=str(error))
        except Exception as error:  # noqa: BLE001 - its parent is told, whatever it was
            _log.exception("the delegate %s failed", session_id[:12])
            outcome = DelegateOutcome(type(error).__name__, problem=str(error))
        return outcome

    async def _through(self, delegate: Delegate, allowance: Allowance) -> DelegateOutcome:
        """Have it work to its end; what it asks meanwhile is parked under the session."""
        from agent.delegates.relaying import answered_under
        from agent.events import TicketOpened

        session, store = self.session, self._here.store
        while True:
            outcome = await self._run(delegate, allowance)
            records = [record for ticket in outcome.tickets if (record := await store.tickets.get(ticket)) is not None]
            if outcome.ended != "parked":
                return outcome
            allowance.stop()
            try:
                await answered_under(
                    store,
                    session.id,
                    [record for record in records if record.state == "pending"],
                    delegate.order.about(),
                    lambda ticket: None if ticket.call is None else session.watch(TicketOpened(ticket.id, ticket.call)),
                )
            finally:
                allowance.go_on()

    async def _deliver(self, session_id: str, order: Order, outcome: DelegateOutcome) -> None:
        """Put its end into the parent's inbox, once: the next turn reads it, or the next run."""
        from agent.conversation.answers import topic_of
        from agent.delegates.budget import tokens_in
        from agent.events import DelegateEnded

        said = outcome.clipped(session_id, searches=SEARCH in self.session.names)
        answer = "\n".join(part for part in (said, outcome.problem) if part) or "(it said nothing)"
        options = {"delegate": session_id, "usage": dict(outcome.usage), "cost": outcome.cost}
        text = self.session.scope.redactor.text(delivered(order.name, session_id, outcome.ended, answer))
        who = order.principal.to_json()
        item = InboxItem(self.session.id, text, "steer", f"delegate:{session_id}", who, (), options, time.time())
        try:
            await self._here.store.inbox.put(item)
            await self._here.store.signals.send(topic_of(self.session.id))
        except StoreFailed as error:
            _log.error("the end of the delegate %s could not be delivered, and will be later: %s", session_id[:12], error)
            return
        self._told.add(session_id)
        problem, tokens = self.session.scope.redactor.text(outcome.problem), tokens_in(outcome.usage)
        self.session.watch(DelegateEnded(session_id, order.name, outcome.ended, problem, outcome.turns, tokens))
        with contextlib.suppress(StoreFailed):  # who looks there next finds that it has ended
            await note(self._here.store.state, self.session.scope, session_id, waits=False)

    # -- around runs ---------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Go on with delegates in the background that an ended process left, and wait for them where that is done for others too.

        For who holds the session's lease.
        """
        for session_id in self.session.scope.state.get(BACKGROUND.name) or ():
            if session_id in self._background or session_id in self._told:
                continue
            info = await self._here.store.sessions.get(session_id)
            if info is None or info.place.get(lineage.PARENT) != self.session.id:  # of the session that this is a fork of
                self._told.add(session_id)
                continue
            try:
                order = Order.from_text(info.place.get(lineage.ORDER, ""))
            except (ValueError, KeyError, TypeError):
                _log.error("what the delegate %s was to do can't be read", session_id[:12])
                self._told.add(session_id)
                continue
            self._send_off(session_id, order)
        if self.alone and not self.session.scope.suspends:
            await asyncio.gather(*(one.work for one in self.at_work), return_exceptions=True)

    async def settled(self, turn_id: str, calls: Iterable[CallState]) -> None:
        """Look after delegates whose calls come to their end without them. Before the calls' results are kept.

        One is ended whose call was given up, interrupted or told lost; one in the background, of which the model is told that it
        works, goes on where the process that said so has ended.
        """
        for one in calls:
            if one.call.name == TOOL:
                session_id = delegate_id(self.session.id, turn_id, one.call.id)
                if session_id not in self._background and session_id not in self._told:
                    await self._settle(session_id, turn_id, one.call.id)

    async def _settle(self, session_id: str, turn_id: str, call_id: str) -> None:
        store = self._here.store
        info = await store.sessions.get(session_id)
        if info is None:
            return
        order = Order.from_text(info.place.get(lineage.ORDER, ""))
        if order.background:
            call = await store.ledger.get(self.session.id, call_id)
            if call is not None and call.status is ToolCallStatus.SUCCEEDED and call.is_of(turn_id, 0.0):
                await note(store.state, self.session.scope, session_id, waits=True)
                self._send_off(session_id, order)
                return
        await store.inbox.drop([item.id for item in await store.inbox.waiting(session_id)])
        if await store.runs.current(session_id) is not None:
            delegate, allowance = self._new(session_id, order)
            child = await self._open(delegate, allowance)
            try:
                await child.give_up()
            finally:
                await child.close()

    async def close(self) -> None:
        """End those that still work, and return when their ends are delivered. From any event loop."""
        self._closing = True
        for one in self.at_work:
            with contextlib.suppress(RuntimeError):  # its loop closes just now
                one.cancel()
        give_up = time.monotonic() + _CLOSE_SECONDS
        while time.monotonic() < give_up:  # they may run in loops of other threads
            if all(one.is_lost for one in self.at_work):
                return
            await asyncio.sleep(0.005)
