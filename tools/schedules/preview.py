"""Preview of a job that a user must approve: its schedule in words, its zone, its next times, and where its answers go."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from toolcrib.contract.effects import SchedulesJob
from tools.schedules.schedule import Schedule, time_words

MANY = 5
"""Number of times to show."""
UNATTENDED = {"deny": "calls that need approval are denied", "park": "calls that need approval wait for a user who may approve"}
MISSED = {"once": "missed times are caught up once", "skip": "missed times are skipped"}


def preview(job: SchedulesJob, now: float | None = None) -> str:
    """Return a job's current facts, one per line. Foreign text in them has no line breaks."""
    now = time.time() if now is None else now
    schedule = Schedule.from_json(json.loads(job.schedule))
    unattended = UNATTENDED.get(
        job.unattended, f"the rule set {job.unattended} decides calls that need approval; others are denied"
    )
    facts = [
        f"replaces the job {job.replaces}" if job.replaces else "",
        f"name: {job.name}" if job.name else "",
        *schedule_lines(schedule, now),
        f"results go to: {job.to}",
        f"unattended: {unattended}",
        MISSED.get(job.missed, "") if schedule.kind not in ("in", "once") or job.missed == "skip" else "",
    ]
    return "\n".join(" ".join(fact.split()) for fact in facts if fact)


def schedule_lines(schedule: Schedule, now: float) -> Sequence[str]:
    """Return a schedule in words, its zone and its next times."""
    times = schedule.begun(now).times(now, MANY)
    shown = [
        f"{'then' if number else 'next'}: {time_words(at, schedule.zone, exact=schedule.is_quick)}"
        for number, at in enumerate(times)
    ]
    return [f"when: {schedule.words()}", f"zone: {schedule.zone}", *(shown or ["next: never"])]
