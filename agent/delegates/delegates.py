"""A session's delegates: the handler of ``delegate_task``, and the delegates that run in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.delegates import BACKGROUND, SEARCH, TOOL
from agent.delegates.interface import SessionDelegates
from toolcrib.contract.context import ProgressStatus, ToolCallContext
from toolcrib.contract.errors import Denied, ExecutionFailed, StoreFailed, ToolcribError
from toolcrib.contract.state import StateUpdate
from toolcrib.contract.types import Handler, ToolOutput, ToolResult

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.conversation.state import CallState
    from agent.delegates.background import BackgroundDelegates
    from agent.delegates.background_delegate import BackgroundDelegate
    from agent.delegates.starting import DelegateStarter
    from agent.delegates.starting_point import StartingPoint
    from agent.delegates.task import Order


class Delegates(SessionDelegates):
    """The delegates of a session, which begin at ``start``. Their modules are loaded with the first delegate."""

    def __init__(self, start: StartingPoint, *, alone: bool = False) -> None:
        super().__init__(alone=alone)
        self._start = start
        self._starter: DelegateStarter | None = None
        self._background: BackgroundDelegates | None = None
        self.session: SessionCore

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handler by the tool's name."""
        return {TOOL: self.handle}

    @property
    def at_work(self) -> Sequence[BackgroundDelegate]:
        return () if self._background is None else self._background.at_work

    async def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolOutput | ToolResult:
        """Run a delegate, or begin one in the background. The result is PENDING if the delegate waits for an answer.

        ``data``: {delegate, name, ended, answer, problem?, turns, usage, cost?}, or {delegate, name, ended: "works on", note}
        in the background. Raises InvalidArguments, Denied, and ExecutionFailed if it could not begin.
        """
        from agent.delegates.task import Order, delegate_id

        session, settings = self.session, self.session.config.delegates
        if self._start.depth >= settings.max_depth:
            raise Denied(f"delegates may be nested {settings.max_depth} deep (delegates.max_depth); do it yourself")
        order, starter = Order.of(args, ctx.run_identity.principal), self._starts()
        starter.tools_for(order)
        turn = "" if session.run is None else session.run.turn_id
        session_id = delegate_id(session.id, turn or ctx.run_identity.run_id, ctx.call_id)
        if order.background and not self.alone:
            background = self._in_background()
            await background.begin(session_id, order)
            note = "it works in the background; its answer arrives as a message"
            data = {"delegate": session_id[:12], "name": order.name, "ended": "works on", "note": note}
            more = StateUpdate(lambda known: [*(known or ()), *(() if background.is_told(session_id) else (session_id,))])
            return ToolOutput(ToolResult.success(ctx.tool_name, data), ((BACKGROUND, more),))
        return await self._awaited(session_id, order._replace(background=False), ctx)

    async def _awaited(self, session_id: str, order: Order, ctx: ToolCallContext) -> ToolResult:
        from agent.delegates.relaying import hand_on, stand_in

        store, starter = self._start.store, self._starts()
        await hand_on(store, session_id, ctx.answer_to)
        delegate, allowance = starter.new(session_id, order, partial(ctx.report_progress, ProgressStatus.RUNNING))
        try:
            while True:
                outcome = await starter.run(delegate, allowance)
                records = [record for ticket in outcome.tickets if (record := await store.tickets.get(ticket)) is not None]
                waiting = next((record.ticket for record in records if record.state == "pending"), None)
                if outcome.ended != "parked" or waiting is not None:
                    break  # otherwise the tickets were decided before they could be shown
        except asyncio.CancelledError as error:
            what = "" if delegate.outcome is None else f"; turns: {delegate.outcome.turns}"
            error.add_note(f"the delegate {order.name} ({session_id[:12]}) was cancelled with it{what}")
            raise
        except (StoreFailed, Denied):
            raise
        except ToolcribError as error:
            raise ExecutionFailed(f"the delegate could not begin: {error}") from error
        if waiting is not None:
            ticket = stand_in(waiting, order.about())
            return ToolResult.suspended_with(ctx.tool_name, ticket.message, ticket)
        ended = ProgressStatus.DONE if outcome.ended == "done" else ProgressStatus.FAILED
        ctx.report_progress(ended, f"{order.name} has ended")
        return ToolResult.success(ctx.tool_name, outcome.data(session_id, order.name, searches=SEARCH in self.session.names))

    def _starts(self) -> DelegateStarter:
        if self._starter is None:
            from agent.delegates.starting import DelegateStarter

            self._starter = DelegateStarter(self.session, self._start)
        return self._starter

    def _in_background(self) -> BackgroundDelegates:
        if self._background is None:
            from agent.delegates.background import BackgroundDelegates

            self._background = BackgroundDelegates(self._starts())
        self._background.in_front = self.alone
        return self._background

    # -- around runs ---------------------------------------------------------------------------------------------

    async def resume_background(self) -> None:
        if self.session.scope.state.get(BACKGROUND.name):
            await self._in_background().go_on()
        if self._background is not None and self.alone and not self.session.scope.suspends:
            await self._background.ended()

    async def settled(self, turn_id: str, calls: Iterable[CallState]) -> None:
        for one in calls:
            if one.call.name == TOOL:
                await self._in_background().settled(turn_id, one.call.id)

    async def close(self) -> None:
        if self._background is not None:
            await self._background.close()
