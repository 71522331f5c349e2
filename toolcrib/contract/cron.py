"""Records of scheduled jobs, and of each time that one was due, as a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

CronState: TypeAlias = Literal["active", "paused", "done", "removed"]
"""It waits for its next time; it does not, until somebody resumes it; it has no time left; it is kept for its history alone."""
CronRunState: TypeAlias = Literal["running", "done", "failed", "refused", "skipped", "lost"]
"""Under way, or parked; answered; ended by an error; not begun, since its creator may not; not begun, by setting or since the one
before was under way; nobody knows what became of it.
"""


@dataclass(frozen=True, slots=True)
class CronJob:
    """A job. ``owner`` is its creator's ``Principal.key``. ``body`` is what it is to do, as JSON, and nothing a store looks at.

    ``next_at`` is when it is due, in Unix seconds; None where it is not. ``version`` counts its changes by people, from 1;
    ``change`` is the store's number of the last of these, and grows over all jobs. What a claim moves counts as none.
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
    """A time that a job was due. ``session_id`` is where it runs, the same for whoever begins it. ``platform`` is where what
    it comes to is to be told, "" where nobody waits for that; ``is_told`` once that was done. Times are Unix seconds;
    ``ended_at`` is None while it is under way. ``note`` says why, in a line.
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
    """Jobs and the times that they were due. Never fenced. Raises StoreFailed; bodies that are no JSON raise TypeError or
    ValueError.
    """

    async def add(self, job: CronJob, most: int) -> CronJob | None:
        """Keep a new job and return it as it is kept; None where its owner has ``most`` that are active or paused, or its id is
        known.
        """
        ...

    async def get(self, job_id: str) -> CronJob | None:
        """Return the job with that id, a removed one too."""
        ...

    async def jobs(self, owner: str | None = None) -> Sequence[CronJob]:
        """Return the jobs of an owner, or of all, without those that were removed, the oldest first."""
        ...

    async def change(self, job: CronJob, most: int | None = None) -> CronJob | None:
        """Replace a job by compare-and-set of its version, and return it as it is kept. None where another change came before,
        and where it was neither active nor paused while its owner has ``most`` that are.
        """
        ...

    async def changed(self, since: int) -> Sequence[CronJob]:
        """Return the jobs whose ``change`` is greater, those that were removed too, in the order of the changes."""
        ...

    async def claim(self, run: CronRun, job: CronJob | None = None, next_at: float | None = None) -> CronRun | None:
        """Keep a time that a job is due, and return it as it is kept: of several processes one begins it. None where it is known,
        so that somebody has it.

        With ``job``: only while that is active, with this version and this ``next_at``, which becomes the given one; without one
        it is ``done``. Then None also says that the job is another by now. A job of which a run is under way gets this one
        ``skipped``.
        """
        ...

    async def finish_run(self, run: CronRun) -> bool:
        """Set state and note of a run that is under way, and its end to now; False where it is not."""
        ...

    async def mark_delivered(self, run: CronRun) -> None:
        """Record that the result of the run was delivered."""
        ...

    async def runs(self, job_id: str, limit: int = 20) -> Sequence[CronRun]:
        """Return the last times that a job was due, the latest first."""
        ...

    async def run_of(self, session_id: str) -> CronRun | None:
        """Return the run that has this session."""
        ...

    async def under_way(self, platform: str | None = None) -> Sequence[CronRun]:
        """Return the runs that are under way, of all platforms or one, the oldest first."""
        ...

    async def undelivered(self, platform: str) -> Sequence[CronRun]:
        """Return the ended runs whose results were not delivered on a platform yet, the oldest first."""
        ...

    async def sweep(self, before: float) -> int:
        """Forget runs that ended before then (Unix seconds), and jobs that are done or removed and have no run left. Return how
        many runs they were.
        """
        ...
