"""Checks of scheduled jobs for `toolcrib doctor`: whether a process runs them, and which can't run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding
from agent.cron.plan import JobPlan
from agent.cron.rights import standing_of, why_untold
from agent.cron.running import whether_run
from toolcrib.contract.errors import ConfigError, ToolcribError
from tools.dispatch.bridge import run_async
from tools.schedules.zones import ScheduleError, zone_of

if TYPE_CHECKING:
    from agent.process import Crib
    from toolcrib.contract.cron import CronJob


def check_cron(crib: Crib) -> Iterator[CheckFinding]:
    """Yield findings about the scheduler and the jobs; nothing if there are no jobs and their settings are valid."""
    yield from check_cron_settings(crib)
    if not crib.config.store.enabled:
        return
    jobs = [job for job in run_async(crib.store.cron.jobs()) if job.state == "active"]
    if not jobs:
        return
    many = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
    if runner := run_async(whether_run(crib.store)):
        yield CheckFinding("cron.runner", "ok", f"{many}, run by process {runner.partition(':')[0]}")
    else:
        yield CheckFinding(
            "cron.nobody-runs", "wrong", f"{many}, but no scheduler is running", "toolcrib cron serve, or toolcrib gateway run"
        )
    for job in jobs:
        yield from _job(crib, job)


def check_cron_settings(crib: Crib) -> Iterator[CheckFinding]:
    """Yield errors in the settings of jobs."""
    from agent.workspaces import rules_with

    config = crib.config
    if config.cron.zone is not None:
        try:
            zone_of(config.cron.zone)
        except ScheduleError as error:
            what = str(error).partition("zone: ")[2]
            text = f"{config.origin('cron.zone')}: cron.zone: {what}"
            yield CheckFinding("cron.zone", "wrong", text, "use a zone of the IANA database, such as Europe/Berlin, or null")
    ways = ("deny", "park", *config.cron.rule_sets)
    if config.cron.unattended not in ways:
        text = (
            f"{config.origin('cron.unattended')}: cron.unattended: expected one of {', '.join(ways)} (cron.rule_sets adds others)"
        )
        yield CheckFinding("cron.unattended", "wrong", text, f"fix {config.path}; until then jobs that use it fail")
    for name in sorted(config.cron.rule_sets):
        try:
            rules_with(config, name)
        except ConfigError as error:
            yield CheckFinding("cron.rules", "wrong", str(error), f"fix {config.path}; until then jobs that use it fail")


def _job(crib: Crib, job: CronJob) -> Iterator[CheckFinding]:
    """Yield problems that would keep one job from running now."""
    try:
        plan = JobPlan.of(job)
        run_async(standing_of(crib, plan))
        if plan.to is not None and (why := run_async(why_untold(crib.store, crib.config, plan))):
            fix = f"toolcrib cron remove {job.id}, then add it again"
            yield CheckFinding("cron.untold", "note", f"results of the job {job.id} cannot be delivered: {why}", fix)
    except ToolcribError as error:
        yield CheckFinding(
            "cron.job", "note", f"the job {job.id} would not run now: {error}", f"fix that, or: toolcrib cron remove {job.id}"
        )
