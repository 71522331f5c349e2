"""Scheduled jobs and their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.store._codec import dump_body
from agent.store._from_gateway_rows import CRON_RUN, JOB, read_cron_run, read_job
from agent.store._shared import OVERLAP
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import Values, to_json, to_text
from toolcrib.contract.cron import CronJob, CronRun

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection
    from toolcrib.contract.cron import CronStore

_JOB = f"SELECT {JOB} FROM cron_jobs"  # noqa: S608 - ours
_RUN = f"SELECT {CRON_RUN} FROM cron_runs"  # noqa: S608 - ours
_NEXT = "(SELECT coalesce(max(change), 0) + 1 FROM cron_jobs)"
_ONE_BY_ONE = "SELECT pg_advisory_xact_lock(1668443758)"
"""Serialises changes of jobs, which are rare, so that a process that reads the changes after a number misses none."""
_ADD = (
    "INSERT INTO cron_jobs (id, owner, state, next_at, version, change, body)"  # noqa: S608 - ours
    f" SELECT %(id)s, %(owner)s, %(state)s, %(next_at)s::float8, 1, {_NEXT}, %(body)s WHERE %(most)s >"
    " (SELECT count(*) FROM cron_jobs WHERE md5(owner) = md5(%(owner)s) AND state IN ('active', 'paused'))"
    f" ON CONFLICT (id) DO NOTHING RETURNING {JOB}"
)
_CHANGE = (
    "UPDATE cron_jobs SET owner = %(owner)s, state = %(state)s, next_at = %(next_at)s, body = %(body)s,"  # noqa: S608 - ours
    f" version = version + 1, change = {_NEXT} WHERE id = %(id)s AND version = %(version)s"
    " AND (%(most)s::bigint IS NULL OR state IN ('active', 'paused') OR %(most)s::bigint >"
    " (SELECT count(*) FROM cron_jobs WHERE md5(owner) = md5(%(owner)s) AND state IN ('active', 'paused')))"
    f" RETURNING {JOB}"
)
_MOVE = (
    "UPDATE cron_jobs SET next_at = %(next)s::float8,"
    " state = CASE WHEN %(next)s::float8 IS NULL THEN 'done' ELSE state END"
    " WHERE id = %(job)s AND state = 'active' AND version = %(version)s AND next_at IS NOT DISTINCT FROM %(was)s::float8"
)
_LOCK = "SELECT pg_advisory_xact_lock(1668443759, hashtext(%(job)s))"
"""Serialises the claims of one job: otherwise two runs could start without seeing each other."""
_CLAIM = f"""
WITH overlap AS (
  SELECT %(state)s = 'running' AND EXISTS (SELECT FROM cron_runs WHERE job_id = %(job)s AND state = 'running') AS it_is
)
INSERT INTO cron_runs (job_id, due_at, session_id, state, platform, is_told, started_at, ended_at, note)
  SELECT %(job)s, %(due)s, %(session)s, CASE WHEN it_is THEN 'skipped' ELSE %(state)s END, %(platform)s, false, {NOW},
    CASE WHEN %(state)s = 'running' AND NOT it_is THEN NULL ELSE {NOW} END, CASE WHEN it_is THEN '{OVERLAP}' ELSE %(note)s END
  FROM overlap ON CONFLICT (job_id, due_at) DO NOTHING RETURNING {CRON_RUN}
"""  # noqa: S608 - ours
_THIS = "job_id = %(job)s AND due_at = %(due)s"
_SETTLE = (
    f"UPDATE cron_runs SET state = %(state)s, note = %(note)s, ended_at = {NOW}"  # noqa: S608 - ours
    f" WHERE {_THIS} AND state = 'running' RETURNING row"
)
_SWEPT = (
    "DELETE FROM cron_runs WHERE row = ANY(ARRAY(SELECT row FROM cron_runs WHERE ended_at < %(before)s LIMIT 1000)) RETURNING row"
)
_LEFT = (
    "DELETE FROM cron_jobs WHERE state IN ('done', 'removed')"
    " AND NOT EXISTS (SELECT FROM cron_runs WHERE job_id = cron_jobs.id) RETURNING row"
)


class PostgresCron:
    """See toolcrib.contract.cron.CronStore."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(self, job: CronJob, most: int) -> CronJob | None:
        return await self._kept(_ADD, {**_of_job(job), "most": most})

    async def get(self, job_id: str) -> CronJob | None:
        return next(iter(await self._database.records(read_job, f"{_JOB} WHERE id = %(id)s", {"id": to_text(job_id)})), None)

    async def jobs(self, owner: str | None = None) -> Sequence[CronJob]:
        mine = "" if owner is None else " AND md5(owner) = md5(%(owner)s) AND owner = %(owner)s"
        sql = f"{_JOB} WHERE state <> 'removed'{mine} ORDER BY row"
        return await self._database.records(read_job, sql, {} if owner is None else {"owner": to_text(owner)})

    async def change(self, job: CronJob, most: int | None = None) -> CronJob | None:
        return await self._kept(_CHANGE, {**_of_job(job), "most": most})

    async def changed(self, since: int) -> Sequence[CronJob]:
        return await self._database.records(read_job, f"{_JOB} WHERE change > %(since)s ORDER BY change", {"since": since})

    async def claim(self, run: CronRun, job: CronJob | None = None, next_at: float | None = None) -> CronRun | None:
        moved = {} if job is None else {"version": job.version, "was": job.next_at, "next": next_at}
        values: Values = {**self._database.now(), **_of_run(run), **moved}

        async def work(connection: Connection) -> list[Any]:
            await connection.execute(_LOCK, values)
            if job is not None and not (await connection.execute(_MOVE, values)).rowcount:
                return []
            return await (await connection.execute(_CLAIM, values)).fetchall()

        return next(iter(self._database.made(read_cron_run, await self._database.transact(None, work))), None)

    async def finish_run(self, run: CronRun) -> bool:
        return bool(await self._database.write(None, _SETTLE, {**self._database.now(), **_of_run(run)}))

    async def mark_delivered(self, run: CronRun) -> None:
        await self._database.write(None, f"UPDATE cron_runs SET is_told = true WHERE {_THIS} RETURNING row", _of_run(run))  # noqa: S608 - ours

    async def runs(self, job_id: str, limit: int = 20) -> Sequence[CronRun]:
        sql = f"{_RUN} WHERE job_id = %(job)s ORDER BY due_at DESC LIMIT %(limit)s"
        return await self._database.records(read_cron_run, sql, {"job": to_text(job_id), "limit": limit})

    async def run_of(self, session_id: str) -> CronRun | None:
        sql = f"{_RUN} WHERE session_id = %(session)s"
        return next(iter(await self._database.records(read_cron_run, sql, {"session": to_text(session_id)})), None)

    async def under_way(self, platform: str | None = None) -> Sequence[CronRun]:
        there = "" if platform is None else " AND platform = %(platform)s"
        sql = f"{_RUN} WHERE state = 'running'{there} ORDER BY row"
        return await self._database.records(read_cron_run, sql, {} if platform is None else {"platform": to_text(platform)})

    async def undelivered(self, platform: str) -> Sequence[CronRun]:
        where = "WHERE platform = %(platform)s AND platform <> '' AND ended_at IS NOT NULL AND NOT is_told ORDER BY row"
        return await self._database.records(read_cron_run, f"{_RUN} {where}", {"platform": to_text(platform)})

    async def sweep(self, before: float) -> int:
        swept = 0
        while gone := await self._database.write(None, _SWEPT, {"before": before}):
            swept += len(gone)
        await self._database.write(None, _LEFT, {})
        return swept

    async def _kept(self, sql: str, values: Mapping[str, Any]) -> CronJob | None:
        """Write a job, and return it as stored; None if nothing was written."""

        async def work(connection: Connection) -> list[Any]:
            await connection.execute(_ONE_BY_ONE)
            return await (await connection.execute(sql, values)).fetchall()

        return next(iter(self._database.made(read_job, await self._database.transact(None, work))), None)


def _of_job(job: CronJob) -> dict[str, Any]:
    given = {"id": to_text(job.id), "owner": to_text(job.owner), "body": to_json(dump_body(job.body))}
    return {**given, "state": job.state, "next_at": job.next_at, "version": job.version}


def _of_run(run: CronRun) -> dict[str, Any]:
    given = {"job": to_text(run.job_id), "session": to_text(run.session_id)}
    given |= {"platform": to_text(run.platform), "note": to_text(run.note)}
    return {**given, "due": run.due_at, "state": run.state}


if TYPE_CHECKING:

    def _conforms(cron: PostgresCron) -> CronStore:
        return cron
