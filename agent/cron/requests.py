"""Requests that open the sessions of jobs, with the current rights of each job's creator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.conversation.state import RunState
from agent.cron.plan import JobPlan
from agent.cron.rights import MayNotRun, Standing, request_for, standing_of
from agent.cron.stopping import is_stopped
from agent.gateway.limits import Quotas
from agent.gateway.messages import TOOL as SEND
from agent.gateway.messages import MessageSender
from toolcrib.contract.cron import CronRun
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Answer

if TYPE_CHECKING:
    from agent.desk.request import SessionRequest
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from toolcrib.contract.store import Store


class JobRequests:
    """The requests of one process that runs jobs. ``choice``: the model of their sessions."""

    def __init__(self, crib: Crib, choice: ModelChoice | None) -> None:
        self._crib = crib
        self._store = crib.store
        self._choice = choice
        self._expected: dict[str, tuple[CronRun, JobPlan, Standing]] = {}
        """Runs that were just claimed, by session: opening the session needs no look-up."""
        self._quotas: dict[str, Quotas] = {}
        self.platforms: dict[str, str] = {}
        """Session id -> the platform that receives the outcome, for the sessions that are open here."""

    def expect(self, run: CronRun, plan: JobPlan, standing: Standing) -> None:
        """Remember the run that a session is opened for, until ``forget``."""
        self._expected[run.session_id] = run, plan, standing

    def forget(self, run: CronRun) -> None:
        """Forget a run; its session now needs a look-up in the store to be opened."""
        self._expected.pop(run.session_id, None)

    async def request(self, session_id: str) -> SessionRequest:
        """Return the request that opens a run's session, with the current rights of the job's creator.

        Raises MayNotRun if the creator lost access, ToolcribError for a session that belongs to no job, ConfigError and
        StoreFailed.
        """
        known = self._expected.pop(session_id, None)
        if known is None:
            run = await self._store.cron.run_of(session_id)
            job = None if run is None else await self._store.cron.get(run.job_id)
            if run is None or job is None:
                raise ToolcribError(f"no job has the session {session_id[:12]}")
            plan = JobPlan.of(job)  # also if the job was removed meanwhile: its session already has the task
            try:
                known = run, plan, await standing_of(self._crib, plan)
            except MayNotRun as error:
                if is_stopped(run):
                    await end_run(self._store, session_id, error)
                raise
        run, plan, standing = known
        self.platforms[session_id] = run.platform
        handlers = {SEND: self._sender(standing)}
        return request_for(standing, plan, session_id, self._choice, handlers)

    def quotas_of(self, platform: str) -> Quotas:
        config = self._crib.config.platforms.get(platform, PlatformConfig())
        found = self._quotas.setdefault(platform, Quotas(config, self._store))
        found.use(config)
        return found

    def _sender(self, standing: Standing) -> MessageSender:
        """Return the handler of send_message, which counts a job's messages as its creator's."""
        crib, who = self._crib, standing.principal
        count = self.quotas_of(who.platform).why_over
        return MessageSender(self._store, lambda: crib.config, crib.redactor().text, count)

    async def was_stopped(self, session_id: str) -> bool:
        """Return whether a user stopped the run of a session. Raises StoreFailed."""
        run = await self._store.cron.run_of(session_id)
        return run is not None and is_stopped(run)


async def end_run(store: Store, session_id: str, error: Exception) -> None:
    """End a run that can't continue, such as a parked one whose creator lost access, and withdraw its questions."""
    record = await store.runs.current(session_id)
    if record is not None:
        state = RunState.of(record)
        reason = (type(error).__name__, str(error))
        await store.runs.commit(state.next(phase="ended", batch=(), shell=None, error=reason).record())
    for ticket in await store.tickets.pending(session_id):
        answer = Answer(ticket.ticket.id, action="cancel", reason=str(error), by="cron", at=time.time())
        await store.tickets.decide_ticket(answer, "expired")
    await store.inbox.drop([item.id for item in await store.inbox.waiting(session_id)])
