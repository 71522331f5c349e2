"""Runs jobs: one timer for all, and a claim in the store for each due time, so that only one process begins a run.

Times are wall-clock times; the clock may be set, and it continues while a laptop is suspended. The timer therefore checks again
every half minute. After a jump ahead, the latest missed time runs or is skipped, depending on the job's ``missed``. After a
jump back, no run begins a second time, since its time is claimed, and the next times are recalculated.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.answers import topic_of
from agent.conversation.hosting import knock
from agent.conversation.state import RunResult
from agent.cron import CHANGED, PLATFORM, REMIND, news_of
from agent.cron.plan import JobPlan, session_of
from agent.cron.recovery import BegunRuns
from agent.cron.requests import JobRequests
from agent.cron.running import RUNNER, SECONDS
from agent.desk.hosted_sessions import HostedSessions
from agent.events import Event, TicketOpened, TicketReminder, TurnStarted
from agent.store._owner import new_owner
from toolcrib.contract.cron import CronJob, CronRun
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import StoreFailed, ToolcribError
from toolcrib.contract.store import Lease

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

_log = logging.getLogger(__name__)
LATE = 60.0
"""Seconds after which a time counts as missed."""
_LOOKS_EVERY = 30.0
_RENEWS_EVERY = 10.0
_STORE_PAUSE = 5.0
_JUMP = 2.0
"""Seconds that the wall clock may lose against the monotonic one between two checks before it counts as set back."""
_AT_ONCE = 200
"""Number of jobs that are handled before other work gets its turn."""
_SWEEPS_EVERY = 86_400.0
_STARTS = 16
"""Maximum number of runs that may start at the same time; a start ends with the model's first turn.

If all began at once, all would be slow: they would wait for each other, and for work that the first one does for all.
"""
_START_SECONDS = 2.0
"""Seconds after which a starting run no longer delays others."""
_TOPIC = topic_of("")


class CronRunner:
    """Runs the jobs of a store in this process and event loop.

    ``choice`` is the model of the jobs' sessions, ``prepare`` is called with each session, ``wall`` returns the time.
    """

    def __init__(
        self,
        crib: Crib,
        *,
        choice: ModelChoice | None = None,
        prepare: Callable[[Session], None] = lambda session: None,
        wall: Callable[[], float] = time.time,
        look_seconds: float = 15.0,
    ) -> None:
        self._crib = crib
        self._store = crib.store
        self._wall = wall
        self.requests = JobRequests(crib, choice)
        self.manager = HostedSessions(
            crib,
            platform=PLATFORM,
            request=self.requests.request,
            is_left=self.requests.was_stopped,
            watch=self._watch,
            done=lambda session_id, outcome: self._spawn(self._done(session_id, outcome)),
            prepare=prepare,
            look_seconds=look_seconds,
        )
        self.begun = BegunRuns(crib, self.requests, self.manager)
        self._jobs: dict[str, CronJob] = {}
        self._due: list[tuple[float, str]] = []
        """A heap of times and jobs; an entry is void if its job has another time by now."""
        self._seen = 0
        """Number of the last change of a job that is known here."""
        self._wake = asyncio.Event()
        self._is_stale = True
        self._skew = 0.0
        self._lease: Lease | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._starts = asyncio.Semaphore(_STARTS)
        self._starting: dict[str, asyncio.Event] = {}
        """Sessions that are starting, each with the event that is set at the first turn."""
        self._forget: Callable[[], None] = lambda: None
        self._draining = False
        self.lateness: Callable[[CronJob, CronRun], None] = lambda job, run: None
        """Called with each run that was claimed here."""

    # -- starting and stopping -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to run jobs, at once or as soon as the store works."""
        self._spawn(self._live())

    async def _live(self) -> None:
        while True:
            try:
                await self.manager.start()
                break
            except StoreFailed as error:
                _log.warning("jobs wait for the store: %s", error)
                await asyncio.sleep(_STORE_PAUSE)
        loop = asyncio.get_running_loop()
        self._forget = self._store.signals.listen(lambda topic: knock(loop, self._heard, topic))
        self._spawn(self._look_after())
        while True:
            pause = _STORE_PAUSE
            try:
                pause = await self._turn()
            except StoreFailed as error:
                _log.warning("jobs wait for the store: %s", error)
            except Exception:  # noqa: BLE001 - without this task no job would ever run again
                _log.exception("due jobs could not be checked")
            await self._wait(pause)

    async def drain(self, seconds: float) -> None:
        """Begin nothing more, and return when the current runs have ended or ``seconds`` have passed."""
        self._draining = True
        await self.manager.drain(seconds)

    async def stop(self) -> None:
        """Stop. The next process that runs jobs resumes the current runs."""
        self._forget()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.manager.leave()
        if self._lease is not None:
            try:
                await self._store.leases.release(self._lease)
            except StoreFailed as error:  # the lease expires by itself
                _log.debug("%s", error)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()

    def _heard(self, topic: str) -> None:
        if topic == CHANGED:
            self._is_stale = True
            self._wake.set()
        elif topic.startswith(_TOPIC) and self.manager.at_work(session_id := topic.removeprefix(_TOPIC)):
            self._spawn(self._stopped(session_id))

    # -- times ---------------------------------------------------------------------------------------------------

    async def _turn(self) -> float:
        """Begin due jobs, and return the seconds until the next check."""
        now, skew = self._wall(), self._wall() - time.monotonic()
        back = self._skew - skew if self._seen and skew < self._skew - _JUMP else 0.0
        self._skew = skew
        known = list(self._jobs.values())  # not the jobs read below: another process may have recalculated their times
        if self._is_stale:
            await self._read()
        if back:
            _log.warning("the clock was set back: the next times of jobs are recalculated")
            await self._count_anew(known, now, back)
            await self._count_anew(list(self._jobs.values()), now)
        due: list[CronJob] = []
        while self._due and self._due[0][0] <= now and not self._draining:
            at, job_id = heapq.heappop(self._due)
            job = self._jobs.get(job_id)
            if job is not None and job.next_at == at:
                due.append(job)
        claimed = list[tuple[CronRun, JobPlan] | None]()
        try:
            for start in range(0, len(due), _AT_ONCE):
                claimed += await asyncio.gather(*(self._claim(job, now) for job in due[start : start + _AT_ONCE]))
        except BaseException:
            for job in due:  # claimed jobs have another time by now
                if self._jobs.get(job.id) is job and job.next_at is not None:
                    heapq.heappush(self._due, (job.next_at, job.id))
            raise
        finally:  # begin only after all claims: runs keep the loop busy, and claims matter to other processes
            for begins in filter(None, claimed):
                self._spawn(self._begin(*begins))
        ahead = self._due[0][0] - self._wall() if self._due else _LOOKS_EVERY
        return min(max(ahead, 0.0), _LOOKS_EVERY)

    async def _read(self) -> None:
        """Read changed jobs. The first read checks their times, which may have been calculated while the clock was wrong."""
        self._is_stale, is_first = False, not self._seen
        try:
            changed = await self._store.cron.changed(self._seen)
        except StoreFailed:
            self._is_stale = True
            raise
        for job in changed:
            self._seen = max(self._seen, job.change)
            self._know(job)
        if is_first:
            await self._count_anew(changed, self._wall())

    def _know(self, job: CronJob) -> None:
        if job.state != "active" or job.next_at is None:
            self._jobs.pop(job.id, None)
            return
        self._jobs[job.id] = job
        heapq.heappush(self._due, (job.next_at, job.id))

    async def _count_anew(self, jobs: Sequence[CronJob], now: float, back: float = 0.0) -> None:
        """Bring forward jobs whose next time is too late, because the clock was ahead when it was calculated.

        ``back``: how many seconds it was ahead, if known. Intervals are counted from now. Times that
        recur after the jump are claimed already.
        """
        for number, job in enumerate(jobs):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            plan = self._plan(job)
            if plan is None or job.state != "active" or job.next_at is None or job.next_at <= now:
                continue
            body, schedule = job.body, plan.schedule
            if (anew := schedule.moved(now, job.next_at, back)) is not None:
                body, schedule = {**job.body, "schedule": anew.to_json()}, anew
            at = schedule.after(now)
            if at is not None and at < job.next_at - 1.0:
                moved = await self._store.cron.change(replace(job, body=body, next_at=at))
                if moved is not None:
                    self._seen = max(self._seen, moved.change) if moved.change == self._seen + 1 else self._seen
                    self._know(moved)

    async def _claim(self, job: CronJob, now: float) -> tuple[CronRun, JobPlan] | None:
        """Claim a job's due time, or the latest if several have passed. Return the run to begin, or None if this process begins
        none.
        """
        plan = self._plan(job)
        if plan is None or job.next_at is None:
            self._jobs.pop(job.id, None)
            return None
        due, then = plan.schedule.latest(now, job.next_at), plan.schedule.after(now)
        is_missed = now - due > LATE and plan.missed == "skip"
        note = "no process ran jobs then" if is_missed else ""
        run = CronRun(job.id, due, session_of(job.id, due), "skipped" if is_missed else "running", plan.platform, note=note)
        kept = await self._store.cron.claim(run, job, then)
        known = await self._store.cron.get(job.id) if kept is None else replace(job, next_at=then)
        if known is None:
            self._jobs.pop(job.id, None)
        else:
            self._know(known)
        if kept is None:
            return None
        self.lateness(job, kept)
        return (kept, plan) if kept.state == "running" else None

    def _plan(self, job: CronJob) -> JobPlan | None:
        try:
            return JobPlan.of(job)
        except ToolcribError as error:
            _log.error("a job can't run: %s", error)
            return None

    # -- runs ----------------------------------------------------------------------------------------------------

    async def run_now(self, job: CronJob) -> CronRun | None:
        """Begin a job now, in addition to its times; None if it has just been begun. Raises StoreFailed."""
        now, plan = self._wall(), JobPlan.of(job)
        kept = await self._store.cron.claim(CronRun(job.id, now, session_of(job.id, now), platform=plan.platform))
        if kept is not None and kept.state == "running":
            await self.begun.begin(kept, plan)
        return kept

    async def _begin(self, run: CronRun, plan: JobPlan) -> None:
        """Begin a run in its turn. The turn ends once the run's model is asked, or after _START_SECONDS."""
        async with self._starts:
            is_there = self._starting[run.session_id] = asyncio.Event()
            try:
                await self.begun.begin(run, plan)
                if self.manager.at_work(run.session_id):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(is_there.wait(), _START_SECONDS)
            except StoreFailed as error:
                _log.warning("a job waits for the store: %s", error)
            finally:
                del self._starting[run.session_id]

    def _is_there(self, session_id: str) -> None:
        if (starting := self._starting.get(session_id)) is not None:
            starting.set()

    async def _done(self, session_id: str, outcome: RunResult | Exception) -> None:
        self._is_there(session_id)
        try:
            await self.begun.done(session_id, outcome)
        except StoreFailed as error:
            _log.warning("the outcome of a job could not be stored, retrying: %s", error)

    async def _stopped(self, session_id: str) -> None:
        try:
            await self.begun.end_stopped(session_id)
        except StoreFailed as error:
            _log.warning("stopped jobs could not be checked, retrying: %s", error)

    def _watch(self, session_id: str, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._is_there(session_id)
        elif isinstance(event, TicketReminder):
            self._spawn(self._store.signals.send(f"{REMIND}{event.ticket}"))
        elif isinstance(event, TicketOpened) and (platform := self.requests.platforms.get(session_id)):
            self._spawn(self._store.signals.send(news_of(platform)))

    async def _look_after(self) -> None:
        """Hold the runners' lease, take over runs of other processes, and handle missed signals, periodically."""
        swept = looked = float("-inf")
        owner = new_owner()
        while True:
            try:
                await self._hold(owner)
                if time.monotonic() - looked >= _LOOKS_EVERY:
                    looked = time.monotonic()
                    self._is_stale = True
                    await self.begun.recover_runs()
                if time.monotonic() - swept >= _SWEEPS_EVERY:
                    swept = time.monotonic()
                    await self.begun.sweep(self._wall() - self._crib.config.cron.keep_days * 86_400)
            except StoreFailed as error:
                _log.warning("jobs wait for the store: %s", error)
            except Exception:  # noqa: BLE001 - without this task runs of ended processes would never resume
                _log.exception("unfinished jobs could not be checked")
            await asyncio.sleep(_RENEWS_EVERY)

    async def _hold(self, owner: str) -> None:
        if self._lease is None or not await self._store.leases.renew(self._lease):
            self._lease = await self._store.leases.take(RUNNER, owner, SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
