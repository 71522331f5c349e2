"""Scheduled jobs and their runs over SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.store._codec import dump_body, text
from agent.store._database import Access
from agent.store._from_gateway_rows import CRON_RUN, JOB, read_cron_run, read_job
from agent.store._shared import OVERLAP, Clock
from toolcrib.contract.cron import CronJob, CronRun

if TYPE_CHECKING:
    from toolcrib.contract.cron import CronStore

_JOB = f"SELECT {JOB} FROM cron_jobs"  # noqa: S608 - ours
_RUN = f"SELECT {CRON_RUN} FROM cron_runs"  # noqa: S608 - ours
_NEXT = "(SELECT coalesce(max(change), 0) + 1 FROM cron_jobs)"
_ADD = (
    "INSERT INTO cron_jobs (id, owner, state, next_at, version, change, body)"  # noqa: S608 - ours
    f" SELECT :id, :owner, :state, :next_at, 1, {_NEXT}, :body WHERE :most >"
    " (SELECT count(*) FROM cron_jobs WHERE owner = :owner AND state IN ('active', 'paused')) ON CONFLICT (id) DO NOTHING"
)
_CHANGE = (
    "UPDATE cron_jobs SET owner = :owner, state = :state, next_at = :next_at, body = :body,"  # noqa: S608 - ours
    f" version = version + 1, change = {_NEXT} WHERE id = :id AND version = :version"
    " AND (:most IS NULL OR state IN ('active', 'paused') OR :most >"
    " (SELECT count(*) FROM cron_jobs WHERE owner = :owner AND state IN ('active', 'paused')))"
)
_MOVE = (
    "UPDATE cron_jobs SET next_at = :next, state = CASE WHEN :next IS NULL THEN 'done' ELSE state END"
    " WHERE id = :id AND state = 'active' AND version = :version AND next_at IS :was"
)
_OVERLAPS = "EXISTS (SELECT 1 FROM cron_runs WHERE job_id = :job AND state = 'running')"
_CLAIM = f"""
INSERT INTO cron_runs (due_at, job_id, session_id, state, platform, is_told, started_at, ended_at, note)
  SELECT :due, :job, :session, CASE WHEN :state = 'running' AND {_OVERLAPS} THEN 'skipped' ELSE :state END, :platform, 0, :now,
    CASE WHEN :state = 'running' AND NOT {_OVERLAPS} THEN NULL ELSE :now END,
    CASE WHEN :state = 'running' AND {_OVERLAPS} THEN '{OVERLAP}' ELSE :note END
  WHERE true ON CONFLICT (due_at, job_id) DO NOTHING
"""
_THIS = "job_id = :job AND due_at = :due"
_SWEPT = "DELETE FROM cron_runs WHERE row IN (SELECT row FROM cron_runs WHERE ended_at < ? LIMIT ?)"
_LEFT = "DELETE FROM cron_jobs WHERE state IN ('done', 'removed') AND id NOT IN (SELECT job_id FROM cron_runs)"
_AT_ONCE = 1_000


class SqliteCron:
    """See toolcrib.contract.cron.CronStore. ``access`` carries no lease."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def add(self, job: CronJob, most: int) -> CronJob | None:
        return await self._kept(_ADD, {**_of_job(job), "most": most})

    async def get(self, job_id: str) -> CronJob | None:
        return next(iter(await self._access.records(read_job, f"{_JOB} WHERE id = ?", (text(job_id),))), None)

    async def jobs(self, owner: str | None = None) -> Sequence[CronJob]:
        mine, given = ("", ()) if owner is None else (" AND owner = ?", (text(owner),))
        return await self._access.records(read_job, f"{_JOB} WHERE state <> 'removed'{mine} ORDER BY row", given)

    async def change(self, job: CronJob, most: int | None = None) -> CronJob | None:
        return await self._kept(_CHANGE, {**_of_job(job), "most": most})

    async def changed(self, since: int) -> Sequence[CronJob]:
        return await self._access.records(read_job, f"{_JOB} WHERE change > ? ORDER BY change", (since,))

    async def claim(self, run: CronRun, job: CronJob | None = None, next_at: float | None = None) -> CronRun | None:
        values = {**_of_run(run), "now": self._clock()}
        moved = None if job is None else {"id": text(job.id), "version": job.version, "was": job.next_at, "next": next_at}

        def work(connection: sqlite3.Connection) -> list[Any]:
            if moved is not None and not connection.execute(_MOVE, moved).rowcount:
                return []
            if not connection.execute(_CLAIM, values).rowcount:
                return []
            return connection.execute(f"{_RUN} WHERE {_THIS}", values).fetchall()

        return next(iter(self._access.made(read_cron_run, await self._access.write(work))), None)

    async def finish_run(self, run: CronRun) -> bool:
        sql = f"UPDATE cron_runs SET state = :state, note = :note, ended_at = :now WHERE {_THIS} AND state = 'running'"  # noqa: S608 - ours
        values = {**_of_run(run), "now": self._clock()}
        return bool(await self._access.write(lambda connection: connection.execute(sql, values).rowcount))

    async def mark_delivered(self, run: CronRun) -> None:
        sql = f"UPDATE cron_runs SET is_told = 1 WHERE {_THIS}"  # noqa: S608 - ours
        await self._access.write(lambda connection: connection.execute(sql, _of_run(run)).rowcount)

    async def runs(self, job_id: str, limit: int = 20) -> Sequence[CronRun]:
        return await self._access.records(
            read_cron_run, f"{_RUN} WHERE job_id = ? ORDER BY due_at DESC LIMIT ?", (text(job_id), limit)
        )

    async def run_of(self, session_id: str) -> CronRun | None:
        return next(iter(await self._access.records(read_cron_run, f"{_RUN} WHERE session_id = ?", (text(session_id),))), None)

    async def under_way(self, platform: str | None = None) -> Sequence[CronRun]:
        there, given = ("", ()) if platform is None else (" AND platform = ?", (text(platform),))
        return await self._access.records(read_cron_run, f"{_RUN} WHERE state = 'running'{there} ORDER BY row", given)

    async def undelivered(self, platform: str) -> Sequence[CronRun]:
        where = "WHERE platform = ? AND platform <> '' AND ended_at IS NOT NULL AND NOT is_told ORDER BY row"
        return await self._access.records(read_cron_run, f"{_RUN} {where}", (text(platform),))

    async def sweep(self, before: float) -> int:
        swept = 0
        while gone := await self._access.run(_SWEPT, (before, _AT_ONCE)):
            swept += gone
        await self._access.run(_LEFT)
        return swept

    async def _kept(self, sql: str, values: dict[str, Any]) -> CronJob | None:
        """Write a job, and return it as stored; None if nothing was written."""

        def work(connection: sqlite3.Connection) -> list[Any]:
            if not connection.execute(sql, values).rowcount:
                return []
            return connection.execute(f"{_JOB} WHERE id = :id", values).fetchall()

        return next(iter(self._access.made(read_job, await self._access.write(work))), None)


def _of_job(job: CronJob) -> dict[str, Any]:
    given = {"id": text(job.id), "owner": text(job.owner), "body": dump_body(job.body)}
    return {**given, "state": job.state, "next_at": job.next_at, "version": job.version}


def _of_run(run: CronRun) -> dict[str, Any]:
    given = {"job": text(run.job_id), "session": text(run.session_id), "platform": text(run.platform), "note": text(run.note)}
    return {**given, "due": run.due_at, "state": run.state}


if TYPE_CHECKING:

    def _conforms(cron: SqliteCron) -> CronStore:
        return cron
