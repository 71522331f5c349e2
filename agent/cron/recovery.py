"""Runs that were begun, here or by a process that has ended: each goes on, or is said to be lost; none is begun twice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.conversation.state import RunState
from agent.cron import PLATFORM, news_of
from agent.cron.messages import ended_as, settled
from agent.cron.plan import JobPlan
from agent.cron.rights import MayNotRun, Standing, open_session, standing_of
from agent.cron.service import TOOL
from agent.cron.stopping import is_stopped
from agent.gateway.limits import Quotas
from agent.gateway.messages import TOOL as SEND
from agent.gateway.messages import MessageSender
from agent.gateway.recipients import is_owner
from toolcrib.contract.cron import CronRun
from toolcrib.contract.errors import LeaseLost, StoreFailed, ToolcribError
from toolcrib.contract.store import AuditEntry
from toolcrib.contract.types import Answer

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.conversation.state import RunResult
    from agent.gateway.sessions import ChatSessions
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

_SESSIONS = 1_000_000
_AT_ONCE = 100
"""Sessions that are deleted before others get their turn."""
_SETTLES = 5.0
"""Seconds that a living process may take between a claim and its session's first message, before another does that for it."""


class BegunRuns:
    """Begins what was claimed, and settles what has ended. ``manager`` drives the sessions."""

    def __init__(self, crib: Crib, choice: ModelChoice | None) -> None:
        self._crib = crib
        self._store = crib.store
        self._choice = choice
        self._known: dict[str, tuple[CronRun, JobPlan, Standing]] = {}
        """Runs that were just claimed, by their sessions: the first opening need not look for them."""
        self._quotas: dict[str, Quotas] = {}
        self.platforms: dict[str, str] = {}
        """Platforms that are told, by the sessions that are open here."""
        self.manager: ChatSessions

    async def open(self, session_id: str) -> Session:
        """Open a run's session, with what its creator may do now. Raises MayNotRun where that is nothing, and as Crib.open."""
        known = self._known.pop(session_id, None)
        if known is None:
            run = await self._store.cron.run_of(session_id)
            job = None if run is None else await self._store.cron.get(run.job_id)
            if run is None or job is None:
                raise ToolcribError(f"no job has the session {session_id[:12]}")
            plan = JobPlan.of(job)  # of one that was removed meanwhile too: its session knows what to do
            try:
                known = run, plan, await standing_of(self._crib, plan)
            except MayNotRun as error:
                if is_stopped(run):
                    await self._end(session_id, error)
                raise
        run, plan, standing = known
        self.platforms[session_id] = run.platform
        handlers = {SEND: self._sender(standing)}
        return await open_session(standing, plan, session_id, self._choice, handlers)

    async def begin(self, run: CronRun, plan: JobPlan) -> None:
        """Tell the run's session what to do, once: however often this is done, and in whichever process. Raises StoreFailed."""
        try:
            standing = await standing_of(self._crib, plan)
        except StoreFailed:
            raise
        except ToolcribError as error:
            await self._refuse(run, str(error))
            return
        if why := await self._spent(standing):
            await self._refuse(run, why)
            return
        self._known[run.session_id] = run, plan, standing
        key = f"cron:{run.job_id}:{run.due_at!r}"
        try:
            text, who = plan.message(run.due_at), standing.principal
            if await self.manager.say_in(run.session_id, text, principal=who, message_key=key):
                await self._store.sessions.label(run.session_id, title=plan.title)
            else:
                await self.manager.go_on(run.session_id)
        except (StoreFailed, LeaseLost):
            raise
        except ToolcribError as error:
            await self.settle(run, "failed", str(error))
        finally:
            self._known.pop(run.session_id, None)

    async def _spent(self, standing: Standing) -> str:
        """Return why a creator has nothing left for a run today, "" where they have. Raises StoreFailed."""
        who = standing.principal
        return "" if is_owner(who) else await self._quotas_of(who.platform).spent(who)

    def _quotas_of(self, platform: str) -> Quotas:
        config = self._crib.config.platforms.get(platform, PlatformConfig())
        found = self._quotas.setdefault(platform, Quotas(config, self._store))
        found.use(config)
        return found

    def _sender(self, standing: Standing) -> MessageSender:
        """Return the handler of send_message: what jobs send in an hour is bounded as what their creator sends."""
        crib, who = self._crib, standing.principal
        count = self._quotas_of(who.platform).why_over
        return MessageSender(self._store, lambda: crib.config, crib.redactor().text, count)

    async def _refuse(self, run: CronRun, why: str) -> None:
        await self._store.cron.settle(settled(run, "refused", why))
        await self._store.cron.told(run)  # whoever may not speak is told nothing
        entry = AuditEntry(time.time(), "", "", TOOL, "refused", "cron", {"job": run.job_id, "reason": why})
        await self._store.audit.record(entry)

    async def settle(self, run: CronRun, state: str, note: str) -> None:
        """Note what a run came to, and let its platform know. Raises StoreFailed."""
        ended = settled(run, "done" if state == "done" else "lost" if state == "lost" else "failed", note)
        if await self._store.cron.settle(ended):
            detail = {"job": run.job_id, "due": run.due_at, "state": ended.state}
            entry = AuditEntry(time.time(), run.session_id, "", TOOL, f"ran: {ended.state}", "cron", detail)
            await self._store.audit.record(entry)
        if run.platform:
            await self._store.signals.send(news_of(run.platform))

    async def done(self, session_id: str, outcome: RunResult | Exception) -> None:
        """Take what a run came to here. Raises StoreFailed."""
        run = await self._store.cron.run_of(session_id)
        if run is None:
            return
        if isinstance(outcome, StoreFailed):  # the store's own trouble, or another process has it: it is not over
            return
        if not isinstance(outcome, Exception) and outcome.stopped == "parked":
            if run.platform:
                await self._store.signals.send(news_of(run.platform))
            return
        self.platforms.pop(session_id, None)
        record = await self._store.runs.last(session_id)
        if record is not None and record.status == "ended":
            await self.settle(run, *ended_as(RunState.of(record)))
        elif isinstance(outcome, Exception):
            await self._end(session_id, outcome)
            await self.settle(run, "failed", str(outcome))

    async def _end(self, session_id: str, error: Exception) -> None:
        """End what can't go on, such as a parked run whose creator may speak no more: nobody shall answer it either."""
        record = await self._store.runs.current(session_id)
        if record is not None:
            state = RunState.of(record)
            reason = (type(error).__name__, str(error))
            await self._store.runs.commit(state.next(phase="ended", batch=(), shell=None, error=reason).record())
        for ticket in await self._store.tickets.pending(session_id):
            answer = Answer(ticket.ticket.id, action="cancel", reason=str(error), by="cron", at=time.time())
            await self._store.tickets.settle(answer, "expired")
        await self._store.inbox.drop([item.id for item in await self._store.inbox.waiting(session_id)])

    async def sweep(self, before: float) -> None:
        """Forget what ended before then (Unix seconds), and sessions of jobs that were not used since, but for those with a tag.
        Raises StoreFailed.
        """
        infos = await self._store.sessions.list(_SESSIONS, platform=PLATFORM)
        old = [info.id for info in infos if info.updated_at < before and not info.tags]
        for start in range(0, len(old), _AT_ONCE):
            await self._crib.delete_sessions(old[start : start + _AT_ONCE])
        await self._store.cron.sweep(before)

    async def was_stopped(self, session_id: str) -> bool:
        """Return whether a person stopped the run of a session. Raises StoreFailed."""
        run = await self._store.cron.run_of(session_id)
        return run is not None and is_stopped(run)

    async def end_stopped(self, session_id: str) -> None:
        """End a session's run here where a person stopped it. Raises StoreFailed."""
        if await self.was_stopped(session_id):
            self.platforms.pop(session_id, None)
            await self.manager.end(session_id)

    async def look(self) -> None:
        """Settle what has ended without being settled, and begin what was claimed and not begun. What was begun is taken over by
        the manager. Raises StoreFailed.
        """
        for session_id in list(self.platforms):  # the signal may have been lost
            await self.end_stopped(session_id)
        await self.manager.end_again()
        for run in await self._store.cron.under_way():
            if self.manager.at_work(run.session_id) or abs(time.time() - run.started_at) < _SETTLES:
                continue
            record = await self._store.runs.last(run.session_id)
            if record is None:
                await self._begin_again(run)
            elif record.status == "ended":
                await self.settle(run, *ended_as(RunState.of(record)))

    async def _begin_again(self, run: CronRun) -> None:
        info = await self._store.sessions.get(run.session_id)
        if info is not None and info.host and await self._store.leases.holder(info.host) is not None:
            return  # somebody has it
        job = await self._store.cron.get(run.job_id)
        try:
            if job is None or not job.body.get("task"):
                await self.settle(run, "lost", "its job was removed before it began")
            else:
                await self.begin(run, JobPlan.of(job))
        except StoreFailed:
            raise
        except ToolcribError as error:
            await self.settle(run, "lost", str(error))
