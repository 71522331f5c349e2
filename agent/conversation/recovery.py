"""Recovery of a run that no process drives any more: whether it can continue, and how it ends if not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent.conversation.partial import left_over
from agent.conversation.state import RunState
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.types import ToolCallStatus

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore

_log = logging.getLogger(__name__)


class StoredRun:
    """The session's current run as the store has it, left by this process or another one."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    async def catch_up(self, *, fresh: bool) -> None:
        """Load the changes of other processes after taking the lease. ``fresh``: this process did not hold it before."""
        session = self._session
        await session.scope.record_again()
        if not fresh:
            await session.refresh()
            return
        session.forget_origins()
        await session.store.recover(session.id)
        await session.refresh()
        await session.delegates.resume_background()

    async def run(self) -> RunState | None:
        """Return the run that has not ended, or None. If an older toolcrib left an interrupted turn and stored no run, record
        results for the turn's calls.
        """
        session = self._session
        record = await session.store.runs.current(session.id)
        if record is not None:
            return RunState.of(record)
        turn = await session.transcript.unanswered() if session.transcript.count else None
        if turn is not None:
            await session.store.sessions.append(session.id, await session.transcript.missing_results(turn))
            await session.transcript.reload_if_changed()
        return None

    async def is_told_to_end(self, state: RunState) -> bool:
        """Return True if a waiting message interrupts this run."""
        waiting = await self._session.store.inbox.waiting(self._session.id)
        return any(map(state.ends_for, waiting))

    async def waits(self, state: RunState) -> bool:
        """Return True if the run waits for an answer: it is parked, or its process ended during an approval request."""
        if state.phase != "calling":
            return state.phase == "parked"
        ledger = self._session.store.ledger
        known = [await ledger.get(state.session_id, one.call.id) for one in state.batch]
        return any(one is not None and one.status is ToolCallStatus.SUSPENDED for one in known)

    async def waits_now(self) -> bool:
        """Return True if the current run waits for an answer."""
        record = await self._session.store.runs.current(self._session.id)
        return record is not None and await self.waits(RunState.of(record))

    async def restore(self, state: RunState) -> None:
        """Restore the shell of a parked run, as far as possible."""
        from agent.conversation.parked_shell import restore_shell

        session = self._session
        try:
            await restore_shell(session.scope, state.shell)
        except EnvironmentFailed as error:  # then a ticket's binding differs, and the user is asked again
            _log.warning("session %s continues in another folder: %s", session.id[:12], error)

    async def break_off(self, state: RunState) -> None:
        """End a run of a dead process: record its partial reply, or what is known of its calls."""
        await self._session.delegates.settled(state.turn_id, state.batch)
        await self._session.keep(state.ended("interrupted", state.text), await left_over(self._session, state))

    async def end_by(self, state: RunState, error: ToolcribError) -> None:
        """End a run whose model is unavailable: its messages stay in the transcript."""
        known = await self._session.store.runs.get(state.id)
        state = state if known is None else RunState.of(known)
        if not state.is_over:
            await self._session.keep(state.next(phase="ended", batch=(), shell=None, error=(type(error).__name__, str(error))))
