"""A manual run of a job in this process, for a user who waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.conversation.state import RunState
from agent.cron.runner import CronRunner
from agent.cron.stopping import is_stopped
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from toolcrib.contract.cron import CronJob, CronRun

_LOOKS_EVERY = 0.2
_ENDS_IN = 5.0
"""Seconds that a stopped run has to end."""


async def run_once(crib: Crib, job: CronJob, choice: ModelChoice | None) -> tuple[CronRun, str]:
    """Run a job, and return the run with its answer once it has ended or parked; a parked run has no ``ended_at``.

    Runs no other job. Raises ToolcribError if the job is running already, and StoreFailed.
    """
    await crib.start()
    runner = CronRunner(crib, choice=choice)
    await runner.manager.start()
    try:
        run = await runner.run_now(job)
        if run is None or run.state == "skipped":
            raise ToolcribError(f"the job {job.id} is already running; `toolcrib cron history {job.id}` shows when it has ended")
        while True:
            now, record = await crib.store.cron.run_of(run.session_id), await crib.store.runs.last(run.session_id)
            if now is not None and is_stopped(now):
                await runner.manager.end(run.session_id)
                await runner.manager.wait_until_idle(_ENDS_IN)
                return now, ""
            if now is None or now.ended_at is not None or (record is not None and record.status == "parked"):
                text = RunState.of(record).text if record is not None and record.status == "ended" else ""
                return now or run, text
            await asyncio.sleep(_LOOKS_EVERY)
    finally:
        await runner.stop()
