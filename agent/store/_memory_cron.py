"""Scheduled jobs, and the times that they were due, for as long as the process lives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent.store._codec import dump_body, load
from agent.store._memory_room import MemoryMember, Room
from agent.store._shared import OVERLAP
from toolcrib.contract.cron import CronJob, CronRun
from toolcrib.contract.dataclass import replace
from toolcrib.contract.frozen import freeze

if TYPE_CHECKING:
    from toolcrib.contract.cron import CronStore

_WAITING = ("active", "paused")


class MemoryCron(MemoryMember):
    """See toolcrib.contract.cron.CronStore."""

    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._jobs: dict[str, CronJob] = {}
        self._runs: dict[tuple[str, float], CronRun] = {}
        self._changes = 0

    async def add(self, job: CronJob, most: int) -> CronJob | None:
        kept = _kept(job)
        with self._reading:
            return None if self._waiting(job.owner) >= most or job.id in self._jobs else self._keep(kept, 1)

    async def get(self, job_id: str) -> CronJob | None:
        with self._reading:
            return self._jobs.get(job_id)

    async def jobs(self, owner: str | None = None) -> Sequence[CronJob]:
        with self._reading:
            return [job for job in self._jobs.values() if job.state != "removed" and owner in (None, job.owner)]

    async def change(self, job: CronJob, most: int | None = None) -> CronJob | None:
        kept = _kept(job)
        with self._reading:
            known = self._jobs.get(job.id)
            if known is None or known.version != job.version:
                return None
            is_new = known.state not in _WAITING
            return None if most is not None and is_new and self._waiting(job.owner) >= most else self._keep(kept, job.version + 1)

    async def changed(self, since: int) -> Sequence[CronJob]:
        with self._reading:
            return sorted((job for job in self._jobs.values() if job.change > since), key=lambda job: job.change)

    async def claim(self, run: CronRun, job: CronJob | None = None, next_at: float | None = None) -> CronRun | None:
        with self._reading:
            if job is not None:
                known = self._jobs.get(job.id)
                if known is None or (known.state, known.version, known.next_at) != ("active", job.version, job.next_at):
                    return None
                self._jobs[job.id] = replace(known, next_at=next_at, state="done" if next_at is None else "active")
            if (run.job_id, run.due_at) in self._runs:
                return None
            if run.state == "running" and any(one.job_id == run.job_id for one in self._under_way()):
                run = replace(run, state="skipped", note=OVERLAP)
            now = self._room.clock()
            run = replace(run, started_at=now, ended_at=None if run.state == "running" else now)
            self._runs[run.job_id, run.due_at] = run
            return run

    async def settle(self, run: CronRun) -> bool:
        with self._reading:
            known = self._runs.get((run.job_id, run.due_at))
            if known is None or known.state != "running":
                return False
            ended = replace(known, state=run.state, note=run.note, ended_at=self._room.clock())
            self._runs[run.job_id, run.due_at] = ended
            return True

    async def told(self, run: CronRun) -> None:
        with self._reading:
            if (known := self._runs.get((run.job_id, run.due_at))) is not None:
                self._runs[run.job_id, run.due_at] = replace(known, is_told=True)

    async def runs(self, job_id: str, limit: int = 20) -> Sequence[CronRun]:
        with self._reading:
            found = sorted((run for run in self._runs.values() if run.job_id == job_id), key=lambda run: -run.due_at)
        return found[:limit]

    async def run_of(self, session_id: str) -> CronRun | None:
        with self._reading:
            return next((run for run in self._runs.values() if run.session_id == session_id), None)

    async def under_way(self, platform: str | None = None) -> Sequence[CronRun]:
        with self._reading:
            return [run for run in self._under_way() if platform in (None, run.platform)]

    async def untold(self, platform: str) -> Sequence[CronRun]:
        with self._reading:
            ended = [run for run in self._runs.values() if run.ended_at is not None and not run.is_told]
        return [run for run in ended if run.platform and run.platform == platform]

    async def sweep(self, before: float) -> int:
        with self._reading:
            old = [key for key, run in self._runs.items() if run.ended_at is not None and run.ended_at < before]
            for key in old:
                del self._runs[key]
            left = {run.job_id for run in self._runs.values()}
            for job in [job for job in self._jobs.values() if job.state in ("done", "removed") and job.id not in left]:
                del self._jobs[job.id]
            return len(old)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget what was answered in these sessions. For who holds the lock."""
        for key, run in self._runs.items():
            if run.session_id in session_ids:
                self._runs[key] = replace(run, note="")

    def _waiting(self, owner: str) -> int:
        return sum(one.owner == owner and one.state in _WAITING for one in self._jobs.values())

    def _under_way(self) -> list[CronRun]:
        return [run for run in self._runs.values() if run.state == "running"]

    def _keep(self, job: CronJob, version: int) -> CronJob:
        self._changes += 1
        kept = self._jobs[job.id] = replace(job, version=version, change=self._changes)
        return kept


def _kept(job: CronJob) -> CronJob:
    """Return the job as it is kept. Raises TypeError or ValueError for what is no JSON."""
    return replace(job, body=freeze(load(dump_body(job.body))))


if TYPE_CHECKING:

    def _conforms(cron: MemoryCron) -> CronStore:
        return cron
