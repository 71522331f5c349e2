"""Records of scheduled jobs and of their due times, as a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

CronState: TypeAlias = Literal["active", "paused", "done", "removed"]
"""active: waits for its next time; paused: waits until a user resumes it; done: has no further due time; removed: kept only for
its history.
"""
CronRunState: TypeAlias = Literal["running", "done", "failed", "refused", "skipped", "lost"]
"""running: in progress, or parked; done: answered; failed: ended by an error; refused: not started, because its
creator may not run it; skipped: not started, because the job skips due times that it missed, or because the previous run
was still in progress; lost: its outcome is unknown.
"""


@dataclass(frozen=True, slots=True)
class CronJob:
    """A scheduled job. ``owner`` is its creator's ``Principal.key``. ``body`` describes its task as JSON; a store does not read
    it.

    ``next_at`` is when the job is due, in Unix seconds, or None if it is not due. ``version`` counts its changes by people,
    from 1; ``change`` is the number that the store gave to the last of them; these numbers grow across all jobs. A claim that
    moves ``next_at`` does not count as a change.
    """

    id: str
    owner: str
    body: Mapping[str, Json] = field(default_factory=dict)
    state: CronState = "active"
    next_at: float | None = None
    version: int = 0
    change: int = 0


@dataclass(frozen=True, slots=True)
class CronRun:
    """A due time of a job, and its outcome. ``session_id`` is the session it runs in, the same in every process that might start
    it. ``platform``: where to deliver the result, "" for nowhere; ``is_told``: the result was delivered. Times are Unix seconds;
    ``ended_at`` is None during the run. ``note`` gives the reason for the state in one line.
    """

    job_id: str
    due_at: float
    session_id: str = ""
    state: CronRunState = "running"
    platform: str = ""
    is_told: bool = False
    started_at: float = 0.0
    ended_at: float | None = None
    note: str = ""


class CronStore(Protocol):
    """Jobs and their due times. Writes are not fenced. Raises StoreFailed; a body that is not JSON raises TypeError
    or ValueError.
    """

    async def add(self, job: CronJob, most: int) -> CronJob | None:
        """Store a new job and return it as stored. Return None if its owner already has ``most`` active or paused jobs, or if the
        id exists.
        """
        ...

    async def get(self, job_id: str) -> CronJob | None:
        """Return the job with that id, even a removed one, or None."""
        ...

    async def jobs(self, owner: str | None = None) -> Sequence[CronJob]:
        """Return the jobs of an owner, or of all owners, without removed ones, the oldest first."""
        ...

    async def change(self, job: CronJob, most: int | None = None) -> CronJob | None:
        """Replace a job by compare-and-set of its version, and return it as stored. Return None if another change
        came first. Also return None if the job was neither active nor paused, and its owner already has ``most``
        active or paused jobs.
        """
        ...

    async def changed(self, since: int) -> Sequence[CronJob]:
        """Return the jobs whose ``change`` is greater than ``since``, removed ones included, in the order of the
        changes.
        """
        ...

    async def claim(self, run: CronRun, job: CronJob | None = None, next_at: float | None = None) -> CronRun | None:
        """Record that a job is due, and return the run as stored. Only one of several processes starts it: return None if the due
        time is already recorded.

        With ``job``: claim only if the job is active and still has this version and this ``next_at``. The job gets the given
        ``next_at``; if that is None, the job becomes ``done``. The result None may then also mean that the job has changed. If
        a run of the job is in progress, the new run is recorded as ``skipped``.
        """
        ...

    async def finish_run(self, run: CronRun) -> bool:
        """Set the state and note of a run in progress, and its end to now. Return False if the run is not in progress."""
        ...

    async def mark_delivered(self, run: CronRun) -> None:
        """Record that the result of the run was delivered."""
        ...

    async def runs(self, job_id: str, limit: int = 20) -> Sequence[CronRun]:
        """Return the last due times of a job, the latest first."""
        ...

    async def run_of(self, session_id: str) -> CronRun | None:
        """Return the run that has this session, or None."""
        ...

    async def under_way(self, platform: str | None = None) -> Sequence[CronRun]:
        """Return the runs in progress, of all platforms or one, the oldest first."""
        ...

    async def undelivered(self, platform: str) -> Sequence[CronRun]:
        """Return the ended runs whose results were not delivered on a platform yet, the oldest first."""
        ...

    async def sweep(self, before: float) -> int:
        """Delete runs that ended before ``before`` (Unix seconds), and jobs that are done or removed and have no run left. Return
        the number of deleted runs.
        """
        ...
