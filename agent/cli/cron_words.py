"""Format jobs and their history for a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from agent.cron.plan import JobPlan
from toolcrib.contract.errors import ToolcribError
from tools.schedules.preview import schedule_lines
from tools.schedules.schedule import time_words

if TYPE_CHECKING:
    from toolcrib.contract.cron import CronJob, CronRun

_SIGNS = {"running": "…", "done": "✓", "failed": "✗", "refused": "✗", "skipped": "·", "lost": "?"}


def job_lines(job: CronJob) -> list[str]:
    """Return lines about a job: its title, and when it is due."""
    try:
        plan = JobPlan.of(job)
    except ToolcribError as error:
        return [f"{job.id}  {one_line(str(error))}"]
    if job.state == "removed":
        return [f"{job.id}  {one_line(plan.name, 70)}  removed; its history: toolcrib cron history {job.id}"]
    whose = f"  of {one_line(job.owner)}" if job.owner else ""
    due = f"next {time_words(job.next_at, plan.schedule.zone)}" if job.next_at is not None else job.state
    to = f", sent to {one_line(plan.to.label)}" if plan.to is not None else ""
    return [
        f"{job.id}  {one_line(plan.title, 70)}{whose}",
        f"          {one_line(plan.said)} ({plan.schedule.zone}): {due}; {one_line(plan.unattended)}{to}",
    ]


def added_lines(job: CronJob) -> list[str]:
    """Return lines about an added job, with its next times."""
    plan = JobPlan.of(job)
    return [f"{job.id}  {one_line(plan.title, 70)}", *(f"  {line}" for line in schedule_lines(plan.schedule, time.time()))]


def run_lines(run: CronRun, zone: str) -> list[str]:
    """Return lines about one run of a job: when it was due, and how it ended."""
    session = f"  session {run.session_id[:12]}" if run.state not in ("skipped", "refused") else ""
    took = f" after {run.ended_at - run.started_at:.0f} s" if run.ended_at is not None and session else ""
    head = f"{_SIGNS[run.state]} {time_words(run.due_at, zone)}  {run.state}{took}{session}"
    return [head, *([f"    {one_line(run.note)}"] if run.note else [])]
