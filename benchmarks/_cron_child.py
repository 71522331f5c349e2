"""Jobs for benchmarks/cron.py, in the store that a folder's configuration names.

``python -m benchmarks._cron_child due JOBS SECONDS START`` adds jobs that are due within SECONDS, beginning START seconds after
the command ends; ``idle JOBS`` adds jobs that are not due for weeks; ``claimed`` prints how late each was claimed, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

from agent.api import assemble
from agent.cron.plan import JobPlan
from toolcrib import Principal
from toolcrib.contract.cron import CronJob
from toolcrib.contract.store import Store
from tools.schedules.schedule import Schedule

_AT_ONCE = 200
"""Number of jobs that are added together."""


async def _add(store: Store, jobs: list[tuple[str, float, Schedule]]) -> None:
    folder = str(Path.cwd())

    async def add(number: int, task: str, at: float, schedule: Schedule) -> None:
        plan = JobPlan(Principal("cli"), "a benchmark", schedule, task, folder=folder, made_at=time.time())
        await store.cron.add(CronJob(f"j{number}", "", plan.to_json(), next_at=at), 1_000_000)

    for begin in range(0, len(jobs), _AT_ONCE):
        await asyncio.gather(*(add(begin + place, *one) for place, one in enumerate(jobs[begin : begin + _AT_ONCE])))


async def due(store: Store, jobs: int, seconds: float, start: float) -> None:
    """Add jobs whose tasks end with the time when they are due."""
    soon = time.time() + start + 1.0 + jobs / 500
    times = [soon + random.Random(number).random() * seconds for number in range(jobs)]
    await _add(store, [(f"at {at!r}", at, Schedule("once", "UTC", at=at)) for at in times])
    if time.time() + start > soon:
        raise RuntimeError("adding the jobs took too long")


async def idle(store: Store, jobs: int) -> None:
    """Add jobs that are due in weeks."""
    rows = [Schedule("cron", "Europe/Berlin", cron=(f"{number % 60} {number % 24} 1 1 *",)) for number in range(jobs)]
    ahead = time.time() + 86_400 * 30
    await _add(store, [("nothing", ahead + number, schedule) for number, schedule in enumerate(rows)])


async def claimed(store: Store) -> None:
    """Print the seconds from each run's due time until it was claimed."""
    runs = [run for job in await store.cron.jobs() for run in await store.cron.runs(job.id)]
    print(json.dumps([run.started_at - run.due_at for run in runs]))


async def main(what: str, *numbers: str) -> None:
    """Run the command of the command line."""
    async with assemble(config_file=Path(os.environ["TOOLCRIB_CONFIG"]), project_dir=Path.cwd()) as crib:  # it accepts the config
        if what == "due":
            await due(crib.store, int(numbers[0]), float(numbers[1]), float(numbers[2]))
        elif what == "idle":
            await idle(crib.store, int(numbers[0]))
        else:
            await claimed(crib.store)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
