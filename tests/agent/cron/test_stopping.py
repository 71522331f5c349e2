"""Ending a job's open questions and active runs, also in another process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from agent.cron import CHANGED
from agent.cron.service import JobOrigin, PrincipalJobs
from tests.agent.cron.conftest import JobHouse
from tests.agent.cron.test_chats import agreed
from tests.agent.cron.test_processes import Run, added, asked, run, shared_url, store, until  # noqa: F401 - fixtures
from tests.agent.gateway.conftest import line_of
from toolcrib import InvalidArguments, Principal
from toolcrib.contract.cron import CronJob
from toolcrib.contract.store import Store


def operator(house: JobHouse) -> PrincipalJobs:
    return PrincipalJobs(house.store, house.cribs[-1].config, Principal("cli"), everybodys=True)


async def parked(house: JobHouse) -> tuple[CronJob, Any]:
    """Return a job with a run that waits for an answer, and the run's question."""
    (house.folder / "build").mkdir(exist_ok=True)
    job = await agreed(house, task="rm -rf build", unattended="park")
    shown = len(house.platform.shown)
    await house.due(job)
    await house.until(lambda: any(one.out.buttons for one in house.platform.shown[shown:]))
    return job, next(one for one in house.platform.shown[shown:] if one.out.buttons)


@pytest.mark.parametrize("how", ["pause", "remove", "stop"])
async def test_what_waits_of_a_job_is_taken_back_with_it(house: JobHouse, how: str) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job, question = await parked(house)
        await getattr(operator(house), how)(job.id, JobOrigin())
        assert await house.store.tickets.pending() == []
        run = await house.run_of(job, "failed")
        assert await house.platform.presses(question, "y") == "This was already decided."
        await house.until(lambda: not question.out.buttons)
        for _ in range(3_000):
            if await house.store.runs.current(run.session_id) is None:
                break
            await asyncio.sleep(0.02)
        assert await house.store.runs.current(run.session_id) is None, "its run has ended"
        await house.until(lambda: any("It was stopped." in text for text in house.platform.texts()))
    assert run.note == "it was stopped"
    assert (house.folder / "build").is_dir()


async def test_what_was_taken_back_while_nobody_ran_jobs_stays_so(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job, question = await parked(house)
    await operator(house).remove(job.id, JobOrigin())
    assert await house.store.tickets.pending() == []
    async with house.gateway() as gateway:
        line_of(gateway)
        assert await house.platform.presses(question, "y") == "This was already decided."
        run = await house.run_of(job, "failed")
        for _ in range(3_000):
            if await house.store.runs.current(run.session_id) is None:
                break
            await asyncio.sleep(0.02)
        assert await house.store.runs.current(run.session_id) is None
    assert (house.folder / "build").is_dir()


async def test_a_run_at_work_goes_on_where_its_job_is_paused_and_ends_by_a_stop(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="wait for it")
        await house.due(job)
        await house.until(lambda: any("wait for it" in one for one in house.asked))
        await operator(house).pause(job.id, JobOrigin())
        assert (await house.run_of(job)).state == "running"
        await house.asks("end that", action="stop", job=job.id)
        await house.run_of(job, "failed")
        await house.until(lambda: any("It was stopped." in text for text in house.platform.texts()))
        manager = gateway._jobs.manager
        await house.until(lambda: manager.at_work_now == 0)
        with pytest.raises(InvalidArguments, match="is not running"):
            await operator(house).stop(job.id, JobOrigin())
    assert "stopped" in [entry.decision for entry in await house.store.audit.entries() if entry.tool == "cronjob"]


async def test_a_run_in_another_process_is_stopped(store: Store, run: Run, tmp_path: Path) -> None:  # noqa: F811 - fixtures
    from agent.config import load_config

    run("hangs")
    job = await added(store, tmp_path, "asks", time.time())
    await store.signals.send(CHANGED)
    await until(lambda: asyncio.to_thread(lambda: asked(tmp_path) == ["asks"]))
    await PrincipalJobs(store, load_config(tmp_path / "config.yaml"), Principal("cli")).stop(job.id, JobOrigin())
    [ended] = await store.cron.runs(job.id)
    assert (ended.state, ended.note) == ("failed", "it was stopped")

    async def over() -> bool:
        return await store.runs.current(ended.session_id) is None

    await until(over)
