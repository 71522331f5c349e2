"""Drive a session: one run after another, from the inbox to an answer, under the session's lease."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.conversation.asking import interruptible
from agent.conversation.limits import RunLimits
from agent.conversation.recovery import StoredRun
from agent.conversation.remembered import news_of
from agent.conversation.state import RunResult, RunState, run_id_of
from agent.conversation.steps import Steps
from agent.conversation.transcript import source_of
from agent.events import Emit, Event, ImageMade
from agent.providers.abilities import prices_of
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, LeaseLost, ProviderError, StoreFailed, ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.store import InboxItem

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore

Done = Callable[[RunResult | Exception], None]
_NOTHING = RunResult("", "interrupted", 0)


class Driver:
    """Drives one session, for one caller at a time. It keeps the outcome of a run until the sender of its message takes it."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._stored = StoredRun(session)
        self._outcomes: dict[int, RunResult | Exception] = {}
        self._awaited: set[int] = set()
        """Inbox messages whose senders wait for the outcome of their runs."""
        self.is_stopped = False
        """True if no run may begin here any more: this process is ending, and the next one answers waiting messages."""
        self.ends: set[str] = set()
        """Ids of runs that end as soon as they begin."""
        self._images: list[Image] = []
        self._now: RunState | None = None
        """The run in progress, as this process began or continued it."""
        self._heeded = False
        """True if a message ended the run ``_now``: see ``interrupt_for``."""

    async def answer(self, item: InboxItem | None, emit: Emit | None) -> RunResult:
        """Work until this message is answered, or until its run or an earlier one waits for an answer. Return the outcome."""
        if item is None:
            raise ToolcribError("a message with this key was already sent; its run answers it")
        self._awaited.add(item.id)
        try:
            return await self._answer(item, emit)
        except LeaseLost:
            raise
        except BaseException:  # the sender may send it again, so a message without a run must not start a run later
            with contextlib.suppress(StoreFailed):
                await self._session.store.inbox.drop([item.id])
            raise
        finally:
            self._awaited.discard(item.id)
            self._outcomes.pop(item.id, None)

    async def _answer(self, item: InboxItem, emit: Emit | None) -> RunResult:
        session = self._session
        waited = session.turnstile.is_taken
        async with self._turn(emit) as steps:
            if item.id in self._outcomes:
                return self._taken(item.id)
            if waited:
                session.scope.clear_interrupt()
            await session.start()
            try:
                async with session.holding.held(session.busy, lambda: session.scope.cancelled) as fresh:
                    await self._until(item, steps, fresh=fresh)
            except asyncio.CancelledError:
                self._check_lease()
                if not session.scope.cancelled:
                    raise
                await session.store.inbox.drop([item.id])  # interrupted before it began
                return _NOTHING
            return self._taken(item.id)

    async def advance(self, emit: Emit | None, done: Done, *, calls_only: bool) -> RunResult | None:
        """Continue with waiting work; see Session.advance."""
        session = self._session
        async with self._turn(emit) as steps:
            session.scope.clear_interrupt()
            if self.is_stopped:
                return None
            await session.start()
            async with session.holding.held(session.busy, lambda: session.scope.cancelled) as fresh:
                await self._stored.catch_up(fresh=fresh)
                state = await self._stored.run()
                outcome: RunResult | Exception | None = None
                if state is not None and not (calls_only and state.phase == "asking"):
                    told_to_end = state.phase == "parked" and not calls_only and await self._stored.is_told_to_end(state)
                    if told_to_end or state.id in self.ends:
                        session.scope.interrupt()
                    outcome = await self._continue(steps, state, calls_only=calls_only)
                    done(outcome)
                while not calls_only and not _is_parked(outcome):
                    waiting = await session.store.inbox.waiting(session.id)
                    if not waiting:
                        break
                    self._check_lease()
                    session.scope.clear_interrupt()  # the interrupt was for the previous run
                    if run_id_of(session.id, waiting[0].id) in self.ends:
                        session.scope.interrupt()
                    came_to = None if self.is_stopped else await self._run(steps, waiting[0])
                    if came_to is None:
                        break
                    outcome = came_to
                    done(outcome)
                return _unwrapped(outcome)

    async def end_unfinished(self) -> RunResult | None:
        """End a parked run; see Session.end_unfinished."""
        session = self._session
        async with self._turn(None) as steps:
            await session.start()
            async with session.holding.held(session.busy) as fresh:
                await self._stored.catch_up(fresh=fresh)
                state = await self._stored.run()
                if state is None:
                    return None
                session.scope.interrupt()
                try:
                    return _unwrapped(await self._continue(steps, state))
                finally:
                    session.scope.clear_interrupt()

    @asynccontextmanager
    async def _turn(self, emit: Emit | None) -> AsyncIterator[Steps]:
        """Admit one caller at a time, and restore the owner's identity afterwards."""
        async with self._session.turnstile:
            try:
                yield self._watched(emit)
            finally:
                self._fit_back()

    def _check_lease(self) -> None:
        """Raise LeaseLost if another process took the session: that process answers the waiting messages."""
        if self._session.holding.is_lost:
            raise LeaseLost("another process has taken over the session")

    def interrupt_for(self, item: InboxItem) -> None:
        """End the run that is under way if this message may end it; see Session.interrupt_for."""
        run = self._now
        if run is not None and run.ends_for(item):
            self._heeded = True
            self._session.scope.interrupt()

    # -- one message ---------------------------------------------------------------------------------------------

    async def _until(self, item: InboxItem, steps: Steps, *, fresh: bool) -> None:
        session = self._session
        await self._stored.catch_up(fresh=fresh)
        state, scope = await self._stored.run(), session.scope
        if state is not None:
            if await self._stored.waits(state) and (state.phase == "parked" or scope.suspends or scope.asker is not None):
                outcome = await self._continue(steps, state)
                if _is_parked(outcome):
                    self._outcomes.setdefault(item.id, outcome)  # the message stays in the inbox until the parked run continues
                    return
            else:
                await self._stored.break_off(state)
        while item.id not in self._outcomes:
            waiting = [one for one in await session.store.inbox.waiting(session.id) if one.principal == item.principal]
            if all(one.id != item.id for one in waiting):
                self._outcomes[item.id] = await self._answered_elsewhere(item)
                return
            self._check_lease()
            came_to = await self._run(steps, next((one for one in waiting if not source_of(one)), waiting[0]))
            if came_to is None or _is_parked(came_to):
                self._outcomes.setdefault(item.id, _NOTHING if came_to is None else came_to)

    async def _run(self, steps: Steps, item: InboxItem) -> RunResult | Exception | None:
        """Answer one message of the inbox. Return None if the session was stopped first: then the message stays in the inbox."""
        session, options = self._session, item.options
        limits = RunLimits.from_json(options["limits"]) if "limits" in options else session.limits
        state = RunState(
            id=run_id_of(session.id, item.id),
            session_id=session.id,
            principal=Principal.from_json(item.principal),
            limits=limits,
            schema=options.get("schema"),
            items=(item.id,),
        )
        self._images = []
        try:
            self._fit_out(state, item.text)
            if session.link.admits is not None:
                await session.link.admits(state.principal)
            if await interruptible(session.scope, session.provider()) is None:
                self._check_lease()
                if self.is_stopped:
                    return None
                if item.id in self._awaited:
                    await session.store.inbox.drop([item.id])
                    return self._came_to(state, _NOTHING)
        except StoreFailed:
            raise
        except ToolcribError as error:
            await session.store.inbox.drop([item.id])  # nothing of it is recorded, so the user may send it again
            return self._came_to(state, error)
        undone = await session.store.changes.unreported(session.id) if session.model else ()
        text = "\n\n".join(part for part in (news_of(undone), item.text) if part)
        state = await steps.begin(state, text, item)
        if undone:
            await session.store.changes.mark_reported([step.id for step in undone])
        self._note_turn(state)
        return await self._drive(steps, state)

    async def _continue(self, steps: Steps, state: RunState, *, calls_only: bool = False) -> RunResult | Exception:
        """Continue a run that began earlier."""
        session = self._session
        self._fit_out(state, await session.transcript.text_at(state.first))
        self._note_turn(state)
        self._images = await session.transcript.images_since(state.first)
        if state.phase == "parked" and not session.scope.cancelled:
            await self._stored.restore(state)
        if calls_only:
            return self._came_to(state, self._result(await steps.run_calls_only(state)))
        return await self._drive(steps, state)

    async def _drive(self, steps: Steps, state: RunState) -> RunResult | Exception:
        session = self._session
        if session.scope.snapshots is not None:
            session.scope.snapshots.begin()
        await session.call_hook("on_run_start")
        stopped, error = "", ""
        try:
            outcome = await self._driven(steps, state)
            if isinstance(outcome, RunResult):
                stopped = outcome.stopped
            else:
                error = type(outcome).__name__
            return outcome
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            if session.scope.snapshots is not None:
                session.scope.snapshots.begin_full_walk()
            await session.call_hook("on_run_end", stopped=stopped, error=error)

    async def _driven(self, steps: Steps, state: RunState) -> RunResult | Exception:
        session = self._session
        try:
            while not state.is_over:
                state = await steps.advance(state)
                if state.phase == "parked":
                    await session.release_idle()
                    return self._came_to(state, self._result(state))
            state.raise_error()
        except (ProviderError, ConfigError) as error:
            await self._stored.end_by(state, error)
            return self._came_to(state, error)
        except ToolcribError as error:
            return self._came_to(state, error)
        return self._came_to(state, self._result(state))

    def _came_to(self, state: RunState, outcome: RunResult | Exception) -> RunResult | Exception:
        if self._heeded or (isinstance(outcome, RunResult) and outcome.stopped == "interrupted"):
            self._session.scope.clear_interrupt()  # this run consumed the interrupt, or had already ended
        self._now, self._heeded = None, False
        self._outcomes.update((item, outcome) for item in state.items if item in self._awaited)
        return outcome

    def _taken(self, item: int) -> RunResult:
        result = _unwrapped(self._outcomes.pop(item))
        assert result is not None  # noqa: S101 - an outcome is a result or an error
        return result

    def _result(self, state: RunState) -> RunResult:
        provider = self._session.link.provider
        prices = (None if provider is None else prices_of(provider)) or state.limits.prices
        return RunResult(
            state.text,
            state.stopped or "parked",
            state.turn,
            dict(state.usage),
            state.cost if prices is not None or state.estimated else None,
            state.data,
            tuple(self._images),
            [ticket for one in state.batch for ticket in one.tickets],
            state.finish,
            state.estimated,
        )

    async def waits(self) -> bool:
        """Return True if the current run waits for an answer; see Session.waits_for_answers."""
        return await self._stored.waits_now()

    async def _answered_elsewhere(self, item: InboxItem) -> RunResult | Exception:
        """Return the outcome of a message that another process took from the inbox."""
        record = await self._session.store.runs.get(f"{self._session.id}-{item.id}")
        if record is None:  # the message steered a run, whose answer is the last message
            last = await self._session.transcript.last()
            return RunResult(str(last.get("text", "")), "done", 0) if last.get("role") == "assistant" else _NOTHING
        state = RunState.of(record)
        try:
            state.raise_error()
        except ToolcribError as error:
            return error
        return self._result(state)

    # -- around a run --------------------------------------------------------------------------------------------

    def _watched(self, emit: Emit | None) -> Steps:
        session = self._session
        self._now, self._heeded = None, False  # an earlier run may have ended with an error
        if emit is not None:
            session.watch = emit
        watch = session.watch

        def keep_image(event: Event) -> None:
            if isinstance(event, ImageMade):
                self._images.append(event.image)
            watch(event)

        return Steps(session, keep_image)

    def _fit_out(self, state: RunState, text: str) -> None:
        session = self._session
        self._now = session.run = state
        session.scope.identity = replace(
            session.scope.identity,
            run_id=state.id,
            platform=state.principal.platform,
            user=state.principal.user,
            roles=state.principal.roles,
            speaker=state.principal.speaker,
        )
        session.scope.begin_run(text)
        if session.outfit is not None:
            session.outfit(state.principal)

    def _fit_back(self) -> None:
        """Restore the owner's identity, tools and policy after a run for another principal."""
        session = self._session
        if session.identity.principal != session.opened_for.principal:
            session.scope.identity = session.opened_for
            if session.outfit is not None:
                session.outfit(session.opened_for.principal)

    def _note_turn(self, state: RunState) -> None:
        if self._session.scope.undo is not None:
            self._session.scope.undo.turn = state.first + 1


def _is_parked(outcome: RunResult | Exception | None) -> bool:
    return isinstance(outcome, RunResult) and outcome.stopped == "parked"


def _unwrapped(outcome: RunResult | Exception | None) -> RunResult | None:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
