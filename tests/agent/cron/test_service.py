"""Limits that PrincipalJobs keeps."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from agent.config import load_config
from agent.cron.service import JobOrigin, PrincipalJobs
from agent.store.memory import MemoryStore
from toolcrib import Denied, Principal, SchedulesJob
from toolcrib.contract.dataclass import replace
from tools.schedules.parse import read


@pytest.fixture
def book(tmp_path: Path) -> PrincipalJobs:
    (tmp_path / "config.yaml").write_text("cron: {most_jobs: 1}\n")
    return PrincipalJobs(MemoryStore(), load_config(tmp_path / "config.yaml"), Principal("cli"))


def wanted(words: str, replaces: str = "") -> SchedulesJob:
    schedule = json.dumps(read(words, "UTC", now=time.time()).to_json())
    return SchedulesJob("look", schedule, "", "a session", "deny", "once", replaces=replaces)


async def test_no_way_leads_past_the_most_jobs(book: PrincipalJobs) -> None:
    jobs = []
    for _ in range(12):
        job = await book.add(wanted("in 1 hour"), "in 1 hour", "", JobOrigin())
        over = await book._store.cron.change(replace(job, state="done", next_at=None))
        assert over is not None
        jobs.append(over)
    for job in jobs[:9]:
        await book.change(wanted("every 5 minutes", job.id), "every 5 minutes", "", JobOrigin())
    assert (await book.resume(jobs[9].id, JobOrigin())).state == "active"
    with pytest.raises(Denied, match="the limit of 10 jobs"):
        await book.change(wanted("every 5 minutes", jobs[10].id), "every 5 minutes", "", JobOrigin())
    with pytest.raises(Denied, match="the limit of 10 jobs"):
        await book.resume(jobs[11].id, JobOrigin())
    assert [job.state for job in await book.list()].count("active") == 10
    await book.change(wanted("every 9 minutes", jobs[0].id), "every 9 minutes", "", JobOrigin())
    await book.pause(jobs[0].id, JobOrigin())
    await book.resume(jobs[0].id, JobOrigin())
