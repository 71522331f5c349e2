"""Ends the runs of a job in any process: a run is first marked in the store, then the process that runs it ends it."""

from __future__ import annotations

import time

from agent.conversation.answers import relayed_by, topic_of
from agent.cron import news_of
from agent.cron.messages import STOPPED, settled
from toolcrib.contract.cron import CronRun
from toolcrib.contract.store import Store
from toolcrib.contract.types import Answer
from tools.dispatch.gates import NO_USER


def is_stopped(run: CronRun) -> bool:
    """Return whether a user stopped a run, so that no process continues it."""
    return run.state == "failed" and run.note == STOPPED


async def stop_runs(store: Store, job_id: str, *, only_waiting: bool = False) -> int:
    """End the current runs of a job, or only parked ones, and return how many. Raises StoreFailed.

    Their questions are withdrawn at once, even if no process runs jobs now, so that a later approval has no effect.
    """
    stopped = 0
    for run in [run for run in await store.cron.under_way() if run.job_id == job_id]:
        record = await store.runs.current(run.session_id)
        if only_waiting and (record is None or record.status != "parked"):
            continue
        if not await store.cron.finish_run(settled(run, "failed", STOPPED)):
            continue  # it has just ended
        stopped += 1
        await _take_back(store, run.session_id)
        await store.signals.send(topic_of(run.session_id))
        if run.platform:
            await store.signals.send(news_of(run.platform))
    return stopped


async def _take_back(store: Store, session_id: str) -> None:
    """Withdraw the questions of a session, and those of its delegates that they relay."""
    for record in await store.tickets.pending(session_id):
        known: set[str] = set()
        ticket_id = record.ticket.id
        while ticket_id and ticket_id not in known:
            known.add(ticket_id)
            answer = Answer(ticket_id, action="cancel", reason="the job was stopped", by=NO_USER, at=time.time())
            await store.tickets.decide_ticket(answer, "expired")
            below = await store.tickets.get(ticket_id)
            below = None if below is None else await relayed_by(store, below)
            ticket_id = "" if below is None else below.ticket.id
