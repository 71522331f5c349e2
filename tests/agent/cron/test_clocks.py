"""Clocks that are set, stores that fail, and due times without a process to run jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.cron import CHANGED
from agent.cron.plan import JobPlan
from agent.cron.runner import CronRunner
from agent.store.memory import MemoryStore
from toolcrib import Principal, ProviderTurn, StoreFailed
from toolcrib.contract.cron import CronJob, CronRun
from toolcrib.testing import ScriptedSession
from tools.schedules.parse import read
from tools.schedules.schedule import time_words

DAY = 86_400.0
START = 1_774_000_000.0
"""A Friday in March 2026, as a timestamp."""


class Desk:
    """Jobs of the local user, a clock that tests set, and the requests to models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore(clock=lambda: self.now)
        self.now = START
        self.asked: list[str] = []

    async def add(self, text: str, *, missed: Any = "once", zone: str = "UTC") -> CronJob:
        schedule = read(text, zone, now=self.now).begun(self.now)
        body = JobPlan(Principal("cli"), text, schedule, text, missed=missed, folder=str(self.folder)).to_json()
        job = await self.store.cron.add(CronJob(text, "", body, next_at=schedule.after(self.now)), 100)
        assert job is not None
        await self.store.signals.send(CHANGED)
        return job

    def prepare(self, session: Any) -> None:
        desk = self

        class Model(ScriptedSession):
            async def stream_turn(self, on_event: Any) -> ProviderTurn:
                desk.asked.append(self.said[-1].splitlines()[0])
                return ProviderTurn("done", assistant_turn="x")

        session.link.use(Model())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CronRunner]:
        crib = assemble(config=load_config(self.folder / "config.yaml"), project_dir=self.folder, store=self.store)
        runner = CronRunner(crib, prepare=self.prepare, wall=lambda: self.now)
        await runner.start()
        try:
            yield runner
        finally:
            await runner.stop()
            await crib.aclose()

    async def at(self, runner: CronRunner, now: float) -> None:
        """Set the clock, and wake the runner."""
        self.now = now
        runner._wake.set()

    async def due_by(self, job: CronJob, at: float) -> None:
        """Return once a job's next time is before that time."""
        for _ in range(3_000):
            now = await self.store.cron.get(job.id)
            if now is not None and now.next_at is not None and now.next_at < at:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"due later: {now}")

    async def runs(self, job: CronJob, many: int, state: str = "") -> list[CronRun]:
        """Return the runs of a job, the oldest first, once there are ``many`` and all have ended."""
        for _ in range(3_000):
            found = [run for run in await self.store.cron.runs(job.id, 100) if state in ("", run.state)]
            if len(found) >= many and all(run.ended_at is not None for run in found):
                return sorted(found, key=lambda run: run.due_at)
            await asyncio.sleep(0.01)
        raise AssertionError(f"not {many} {state} runs: {await self.store.cron.runs(job.id, 100)}")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    (tmp_path / "config.yaml").write_text("cron: {keep_days: 100000}\n")
    return Desk(tmp_path)


async def test_a_day_over_a_change_of_the_clocks_has_each_time_once(desk: Desk) -> None:
    """003-32"""
    for start, expected in ((1_774_738_800.0, "Sun 29 Mar 2026 03:00 CEST"), (1_792_879_200.0, "Sun 25 Oct 2026 02:30 CEST")):
        desk.now, desk.store = start, MemoryStore(clock=lambda: desk.now)
        job = await desk.add("every day at 2:30", zone="Europe/Berlin")
        async with desk.running() as runner:
            for minute in range(0, 20 * 60, 10):
                await desk.at(runner, start + minute * 60)
                await asyncio.sleep(0.002)
            [run] = await desk.runs(job, 1)
            await asyncio.sleep(0.05)
            assert [one.due_at for one in await desk.store.cron.runs(job.id)] == [run.due_at]
        assert time_words(run.due_at, "Europe/Berlin") == expected


async def test_a_clock_that_is_set_back_begins_nothing_twice_and_goes_on(desk: Desk) -> None:
    job = await desk.add("every 10 minutes")
    often = await desk.add("*/10 * * * *")
    async with desk.running() as runner:
        for number in range(1, 7):
            await desk.at(runner, START + number * 600)
            await desk.runs(job, number)
            await desk.runs(often, number)  # a time that arrives during the previous run is skipped
        begun = {run.due_at for run in await desk.runs(often, 6)}
        await desk.at(runner, START + 1_205)  # 40 minutes back, 5 seconds after one of its times
        await asyncio.sleep(0.03)
        for number in range(1, 9):  # an interval is elapsed time: it continues
            await desk.at(runner, START + 1_206 + number * 600)
            await desk.runs(job, 6 + number)
            await desk.runs(often, 6)
        runs = await desk.runs(often, 10)
    assert len({run.due_at for run in runs}) == len(runs) == 10, "the same local times once"
    assert begun < {run.due_at for run in runs}
    assert len(desk.asked) == 14 + 10


@pytest.mark.parametrize("is_seen", [True, False])
async def test_elapsed_time_goes_on_when_the_clock_was_set_back_by_a_day(desk: Desk, is_seen: bool) -> None:
    job, soon = await desk.add("every 2 hours"), await desk.add("in 1 hour")
    if is_seen:
        async with desk.running() as runner:
            while not runner._seen:
                await asyncio.sleep(0.01)
            await desk.at(runner, START + 1_800 - DAY)
            await desk.due_by(job, START)
    else:
        desk.now = START + 1_800 - DAY
    async with desk.running() as runner:
        await desk.due_by(job, START)
        await desk.due_by(soon, START)
        await desk.at(runner, desk.now + 3_700)
        await desk.runs(soon, 1)
        assert await desk.store.cron.runs(job.id) == []
        await desk.at(runner, desk.now + 3_700)
        await desk.runs(job, 1)


async def test_a_clock_that_was_far_ahead_keeps_no_job_waiting(desk: Desk) -> None:
    job = await desk.add("every 10 minutes")
    async with desk.running() as runner:
        await desk.at(runner, START + 400 * DAY)  # more than a year: set by mistake
        await desk.runs(job, 1)
        await desk.at(runner, START + 30)
        await asyncio.sleep(0.05)
        await desk.at(runner, START + 640)
        runs = await desk.runs(job, 2)
    assert START + 600 <= runs[0].due_at <= START + 640
    desk.now = START + 401 * DAY  # the same, but the process ends while the clock is wrong
    async with desk.running() as runner:
        await desk.runs(job, 3)
    desk.now = START + 1_210
    async with desk.running() as runner:
        await asyncio.sleep(0.05)
        await desk.at(runner, START + 1_811)
        assert [run.due_at for run in await desk.runs(job, 4) if START + 1_700 < run.due_at <= START + 1_811]


@pytest.mark.parametrize("missed", ["once", "skip"])
async def test_times_at_which_nobody_ran_jobs_are_caught_up_once_or_skipped(desk: Desk, missed: str) -> None:
    job = await desk.add("every day at 9", missed=missed)
    desk.now = START + 5 * DAY
    async with desk.running() as runner:
        [run] = await desk.runs(job, 1)
        assert time_words(run.due_at, "UTC").endswith("09:00 UTC")
        assert desk.now - run.due_at < DAY
        assert run.state == ("done" if missed == "once" else "skipped")
        assert len(desk.asked) == (missed == "once")
        now = await desk.store.cron.get(job.id)
        assert now is not None
        assert now.next_at == run.due_at + DAY
        await desk.at(runner, run.due_at + DAY + 1)
        assert (await desk.runs(job, 2))[1].state == "done"


async def test_what_comes_once_and_was_missed_is_done_late_or_never(desk: Desk) -> None:
    late, never = await desk.add("in 20 minutes"), await desk.add("in 21 minutes", missed="skip")
    desk.now = START + DAY
    async with desk.running():
        assert [run.state for run in await desk.runs(late, 1)] == ["done"]
        assert [run.state for run in await desk.runs(never, 1)] == ["skipped"]
    assert [job.state for job in await desk.store.cron.jobs()] == ["done", "done"]


async def test_sessions_of_jobs_are_kept_as_long_as_their_history(desk: Desk) -> None:
    (desk.folder / "config.yaml").write_text("cron: {keep_days: 30}\n")
    job = await desk.add("every day at 9")
    async with desk.running() as runner:
        await desk.at(runner, START + DAY)
        await desk.runs(job, 1)
        await desk.at(runner, START + 2 * DAY)
        await desk.runs(job, 2)
    kept, old = [run.session_id for run in await desk.store.cron.runs(job.id)]
    assert {info.title for info in await desk.store.sessions.list(platform="cron")} == {"every day at 9"}
    desk.now = START + 31.6 * DAY
    async with desk.running() as runner:
        await desk.runs(job, 2)
        for _ in range(3_000):
            if await desk.store.sessions.get(old) is None:
                break
            await asyncio.sleep(0.01)
    assert await desk.store.sessions.get(old) is None
    assert await desk.store.sessions.get(kept) is not None


async def test_a_year_with_a_leap_day(desk: Desk) -> None:
    desk.now = start = 1_830_000_000.0  # in December 2027
    job = await desk.add("0 12 29 2 *")
    async with desk.running() as runner:
        for day in range(0, 366, 3):
            await desk.at(runner, start + day * DAY)
            await asyncio.sleep(0.002)
        [run] = await desk.runs(job, 1)
    assert time_words(run.due_at, "UTC") == "Tue 29 Feb 2028 12:00 UTC"
    now = await desk.store.cron.get(job.id)
    assert now is not None
    assert now.next_at is not None
    assert time_words(now.next_at, "UTC") == "Sun 29 Feb 2032 12:00 UTC"


async def test_nothing_is_begun_that_could_not_be_claimed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job waits while the store is dead or the disk is full, and begins when the store works again."""
    monkeypatch.setattr("agent.cron.runner._STORE_PAUSE", 0.05)
    job = await desk.add("in 20 minutes")
    claim: Callable[..., Any] = desk.store.cron.claim
    failed = 0

    async def fails(*args: Any) -> Any:
        nonlocal failed
        failed += 1
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(desk.store.cron, "claim", fails)
    async with desk.running() as runner:
        await desk.at(runner, START + 1_200)
        ends = time.monotonic() + 60
        while failed < 3 and time.monotonic() < ends:
            await asyncio.sleep(0.01)
        assert failed >= 3
        assert desk.asked == []
        monkeypatch.setattr(desk.store.cron, "claim", claim)
        await desk.runs(job, 1)
    assert len(desk.asked) == 1


async def test_a_job_that_can_not_be_understood_keeps_no_other_waiting(desk: Desk) -> None:
    await desk.store.cron.add(CronJob("broken", "", {"of": "a newer version"}, next_at=START), 100)
    job = await desk.add("in 20 minutes")
    async with desk.running() as runner:
        await desk.at(runner, START + 1_200)
        await desk.runs(job, 1)


async def test_a_folder_that_is_gone_is_told(desk: Desk, tmp_path: Path) -> None:
    desk.folder = tmp_path / "gone"
    job = await desk.add("in 20 minutes")
    desk.folder = tmp_path
    async with desk.running() as runner:
        await desk.at(runner, START + 1_200)
        [run] = await desk.runs(job, 1)
    assert run.state == "refused"
    assert "does not exist any more" in run.note


async def test_many_that_are_due_at_once_begin_a_few_at_a_time_and_wait_for_no_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cron.runner._STARTS", 2)
    monkeypatch.setattr("agent.cron.runner._START_SECONDS", 1_000.0)
    answers, beside, order = asyncio.Event(), list[int](), list[str]()

    class Slow(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            order.append(self.said[-1])
            await answers.wait()
            return ProviderTurn("done", assistant_turn="x")

    def prepare(session: Any) -> None:
        beside.append(len(runner._starting))
        session.link.use(Slow())

    monkeypatch.setattr(desk, "prepare", prepare)
    jobs = [await desk.add(f"every {10 + number} minutes") for number in range(6)]
    async with desk.running() as runner:
        await desk.at(runner, START + 3_000)
        async with asyncio.timeout(60):
            while len(order) < 6:
                await asyncio.sleep(0.01)
        answers.set()
        for job in jobs:
            await desk.runs(job, 1)
    assert max(beside) == 2
    assert len(beside) == 6
