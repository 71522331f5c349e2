"""Runs that were claimed, here or by an ended process: each is begun once, resumed, or marked as lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.conversation.state import RunState
from agent.cron import PLATFORM, news_of
from agent.cron.messages import ended_as, settled
from agent.cron.plan import JobPlan
from agent.cron.requests import JobRequests, end_run
from agent.cron.rights import Standing, standing_of
from agent.cron.service import TOOL
from agent.gateway.recipients import is_owner
from toolcrib.contract.cron import CronRun
from toolcrib.contract.errors import LeaseLost, StoreFailed, ToolcribError
from toolcrib.contract.store import AuditEntry

if TYPE_CHECKING:
    from agent.conversation.state import RunResult
    from agent.desk.hosted_sessions import HostedSessions
    from agent.process import Crib

_SESSIONS = 1_000_000
_AT_ONCE = 100
"""Number of sessions that are deleted before other work gets its turn."""
_SETTLES = 5.0
"""Seconds after a claim during which checks leave the run to the process that claimed it."""


class BegunRuns:
    """Begins claimed runs, and settles ended ones. ``manager`` drives the sessions."""

    def __init__(self, crib: Crib, requests: JobRequests, manager: HostedSessions) -> None:
        self._crib = crib
        self._store = crib.store
        self._requests = requests
        self._manager = manager

    async def begin(self, run: CronRun, plan: JobPlan) -> None:
        """Send a run's task to its session, once, even if several processes try. Raises StoreFailed."""
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
        self._requests.expect(run, plan, standing)
        key = f"cron:{run.job_id}:{run.due_at!r}"
        try:
            text, who = plan.message(run.due_at), standing.principal
            if await self._manager.say_in(run.session_id, text, principal=who, message_key=key):
                await self._store.sessions.label(run.session_id, title=plan.title)
            else:
                await self._manager.go_on(run.session_id)
        except (StoreFailed, LeaseLost):
            raise
        except ToolcribError as error:
            await self.finish_run(run, "failed", str(error))
        finally:
            self._requests.forget(run)

    async def _spent(self, standing: Standing) -> str:
        """Return why a creator's quota allows no run today, "" if it does. Raises StoreFailed."""
        who = standing.principal
        return "" if is_owner(who) else await self._requests.quotas_of(who.platform).spent(who)

    async def _refuse(self, run: CronRun, why: str) -> None:
        await self._store.cron.finish_run(settled(run, "refused", why))
        await self._store.cron.mark_delivered(run)  # a creator without access gets no message
        entry = AuditEntry(time.time(), "", "", TOOL, "refused", "cron", {"job": run.job_id, "reason": why})
        await self._store.audit.record(entry)

    async def finish_run(self, run: CronRun, state: str, note: str) -> None:
        """Record the end of a run, and signal its platform. Raises StoreFailed."""
        ended = settled(run, "done" if state == "done" else "lost" if state == "lost" else "failed", note)
        if await self._store.cron.finish_run(ended):
            detail = {"job": run.job_id, "due": run.due_at, "state": ended.state}
            entry = AuditEntry(time.time(), run.session_id, "", TOOL, f"ran: {ended.state}", "cron", detail)
            await self._store.audit.record(entry)
        if run.platform:
            await self._store.signals.send(news_of(run.platform))

    async def done(self, session_id: str, outcome: RunResult | Exception) -> None:
        """Handle the outcome of a run in this process. Raises StoreFailed."""
        run = await self._store.cron.run_of(session_id)
        if run is None:
            return
        if isinstance(outcome, StoreFailed):  # the store failed, or another process has the run: it is not over
            return
        if not isinstance(outcome, Exception) and outcome.stopped == "parked":
            if run.platform:
                await self._store.signals.send(news_of(run.platform))
            return
        self._requests.platforms.pop(session_id, None)
        record = await self._store.runs.last(session_id)
        if record is not None and record.status == "ended":
            await self.finish_run(run, *ended_as(RunState.of(record)))
        elif isinstance(outcome, Exception):
            await end_run(self._store, session_id, outcome)
            await self.finish_run(run, "failed", str(outcome))

    async def sweep(self, before: float) -> None:
        """Delete runs that ended before a time (Unix seconds), and untagged sessions of jobs that were not used since. Raises
        StoreFailed.
        """
        infos = await self._store.sessions.list(_SESSIONS, platform=PLATFORM)
        old = [info.id for info in infos if info.updated_at < before and not info.tags]
        for start in range(0, len(old), _AT_ONCE):
            await self._crib.delete_sessions(old[start : start + _AT_ONCE])
        await self._store.cron.sweep(before)

    async def end_stopped(self, session_id: str) -> None:
        """End a session's run here if a user stopped it. Raises StoreFailed."""
        if await self._requests.was_stopped(session_id):
            self._requests.platforms.pop(session_id, None)
            await self._manager.end(session_id)

    async def recover_runs(self) -> None:
        """Settle ended runs, and begin claimed runs that were not begun; the manager resumes the others. Raises StoreFailed."""
        for session_id in list(self._requests.platforms):  # the signal may have been lost
            await self.end_stopped(session_id)
        await self._manager.end_again()
        for run in await self._store.cron.under_way():
            if self._manager.at_work(run.session_id) or abs(time.time() - run.started_at) < _SETTLES:
                continue
            record = await self._store.runs.last(run.session_id)
            if record is None:
                await self._begin_again(run)
            elif record.status == "ended":
                await self.finish_run(run, *ended_as(RunState.of(record)))

    async def _begin_again(self, run: CronRun) -> None:
        info = await self._store.sessions.get(run.session_id)
        if info is not None and info.host and await self._store.leases.holder(info.host) is not None:
            return  # another process has it
        job = await self._store.cron.get(run.job_id)
        try:
            if job is None or not job.body.get("task"):
                await self.finish_run(run, "lost", "the job was removed before it began")
            else:
                await self.begin(run, JobPlan.of(job))
        except StoreFailed:
            raise
        except ToolcribError as error:
            await self.finish_run(run, "lost", str(error))
