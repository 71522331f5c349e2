"""The handler of ``cronjob``, for one session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agent.cron import PLATFORM
from agent.cron.plan import JobPlan
from agent.cron.running import whether_run
from agent.cron.service import JobOrigin, PrincipalJobs
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import SchedulesJob
from toolcrib.contract.errors import Denied, InvalidArguments, ToolcribError
from toolcrib.contract.types import ToolResult
from tools.cronjob_tool import CHANGES, CREATES, HERE
from tools.schedules.schedule import Schedule, time_words

if TYPE_CHECKING:
    from agent.config import Config
    from toolcrib.contract.cron import CronJob, CronRun
    from toolcrib.contract.store import Store

_SHOWN_TIMES = 5


class JobTool:
    """The handler for a session, its folder, and its chosen backend, "" for the default."""

    def __init__(self, store: Store, config: Config, session_id: str, folder: str, backend: str) -> None:
        self._store = store
        self._config = config
        self._origin = JobOrigin(session_id, folder=folder, backend=backend)

    async def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        """Run an action on jobs. ``data``: {job} (see ``job_json``), {jobs} or {history}, with ``note`` if no process runs jobs.

        Raises InvalidArguments, NotFound, and Denied in a job.
        """
        who = ctx.run_identity.principal
        if who.platform == PLATFORM:
            raise Denied("a job can't create jobs")
        origin = JobOrigin(self._origin.session_id, ctx.call_id, self._origin.folder, self._origin.backend)
        book, action = PrincipalJobs(self._store, self._config, who), args["action"]
        if action == "list":
            return ToolResult.success(ctx.tool_name, {"jobs": [job_json(job) for job in await book.list()], **await self._note()})
        if action in (CREATES, CHANGES):
            wanted = next(one for one in ctx.effects if isinstance(one, SchedulesJob))  # as the user approved it
            keep = book.add if action == CREATES else book.change
            job = await keep(wanted, args["schedule"], args.get("to") or HERE, origin)
            return ToolResult.success(ctx.tool_name, {"job": job_json(job), **await self._note()})
        if not args.get("job"):
            raise InvalidArguments(f"{action} needs job, an id; list shows them")
        if action == "history":
            job = await book.find(args["job"], removed=True)
            zone = JobPlan.of(job).schedule.zone
            return ToolResult.success(ctx.tool_name, {"history": [run_json(run, zone) for run in await book.history(job.id)]})
        act = {"pause": book.pause, "resume": book.resume, "stop": book.stop, "remove": book.remove}[action]
        return ToolResult.success(ctx.tool_name, {"job": job_json(await act(args["job"], origin))})

    async def _note(self) -> dict[str, str]:
        if await whether_run(self._store):
            return {}
        return {"note": "jobs do not run now: a user must start `toolcrib gateway run` or `toolcrib cron serve`"}


def job_json(job: CronJob) -> dict[str, Any]:
    """Return a job as models and programs read it; for a removed job, only its id and state."""
    if job.state == "removed":
        return {"id": job.id, "state": job.state}
    try:
        plan = JobPlan.of(job)
    except ToolcribError as error:
        return {"id": job.id, "state": job.state, "problem": str(error)}
    schedule, now = plan.schedule, time.time()
    return {
        "id": job.id,
        "name": plan.title,
        "state": job.state,
        "schedule": plan.said,
        "means": schedule.words(),
        "zone": schedule.zone,
        "next": [time_words(at, schedule.zone, exact=schedule.is_quick) for at in _times(job, schedule, now)],
        "to": plan.to.label if plan.to is not None else "a session of its own",
        "unattended": plan.unattended,
        "missed": plan.missed,
        "task": plan.task,
    }


def _times(job: CronJob, schedule: Schedule, now: float) -> list[float]:
    """Return the next times of an active job, beginning with the due one."""
    if job.next_at is None:
        return []
    return [job.next_at, *schedule.times(max(now, job.next_at), _SHOWN_TIMES - 1)]


def run_json(run: CronRun, zone: str) -> dict[str, Any]:
    """Return a run as models and programs read it."""
    shown = {"due": time_words(run.due_at, zone), "state": run.state, "session": run.session_id[:12], "note": run.note}
    return {
        key: value for key, value in shown.items() if value and not (key == "session" and run.state in ("skipped", "refused"))
    }
