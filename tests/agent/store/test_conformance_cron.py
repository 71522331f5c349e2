"""Conformance of every store for scheduled jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolcrib.contract.cron import CronJob, CronRun
from toolcrib.contract.store import RunRecord, Store

MakeStore = Callable[..., Store]
ODD = "odd \udc80\0"


def job_of(name: str = "j", owner: str = "", **more: Any) -> CronJob:
    return CronJob(name, owner, {"task": f"do {name}"}, next_at=100.0, **more)


def run_of(name: str = "j", due: float = 100.0, **more: Any) -> CronRun:
    return CronRun(name, due, f"s-{name}-{due}", **more)


async def kept(store: Store, job: CronJob) -> CronJob:
    found = await store.cron.add(job, 100)
    assert found is not None
    return found


async def test_a_job_comes_back_as_it_was(make_store: MakeStore) -> None:
    job = CronJob(f"id{ODD}", f"chat:{ODD}", {"task": ODD, "to": {"chat": 1}, "list": [1, None]}, next_at=12.5)
    added = await kept(make_store(), job)
    assert added == replace(job, version=1, change=added.change)
    store = make_store() if type(make_store()).__name__ != "MemoryStore" else None
    if store is not None:
        assert await store.cron.get(job.id) == added
        assert await store.cron.jobs(job.owner) == [added]
        assert await store.cron.jobs() == [added]


async def test_what_is_no_json_is_not_kept(store: Store) -> None:
    with pytest.raises((TypeError, ValueError)):
        await store.cron.add(CronJob("j", "", {"task": object()}), 5)
    assert await store.cron.jobs() == []


async def test_an_owner_has_no_more_than_the_most_that_wait(store: Store) -> None:
    one, two = await kept(store, job_of("1")), await kept(store, job_of("2"))
    assert await store.cron.add(job_of("3"), 2) is None
    assert await store.cron.add(job_of("4", "chat:bob"), 2) is not None
    assert await store.cron.add(job_of("1"), 9) is None, "the id is known"
    await store.cron.change(replace(one, state="removed", next_at=None))
    assert await store.cron.add(job_of("3"), 2) is not None
    await store.cron.change(replace(two, state="paused"))
    assert await store.cron.add(job_of("5"), 2) is None


async def test_of_two_at_once_an_owner_gets_no_more_than_the_most(store: Store) -> None:
    found = await asyncio.gather(*(store.cron.add(job_of(str(number)), 3) for number in range(8)))
    assert sum(one is not None for one in found) == 3


async def test_a_change_counts_only_over_the_version_that_it_knows(store: Store) -> None:
    job = await kept(store, job_of())
    changed = await store.cron.change(replace(job, body={"task": "other"}, next_at=7.0))
    assert changed is not None
    assert (changed.version, changed.next_at, dict(changed.body)) == (2, 7.0, {"task": "other"})
    assert await store.cron.change(replace(job, body={"task": "late"})) is None
    assert await store.cron.change(job_of("unknown")) is None
    assert await store.cron.get("j") == changed


async def test_what_changed_since_a_number_is_told_in_order(store: Store) -> None:
    one, two = await kept(store, job_of("1")), await kept(store, job_of("2"))
    assert await store.cron.changed(0) == [one, two]
    removed = await store.cron.change(replace(one, state="removed", next_at=None))
    assert await store.cron.changed(two.change) == [removed]
    assert await store.cron.jobs() == [two]
    assert removed is not None
    assert await store.cron.changed(removed.change) == []


async def test_a_claimed_time_is_nobody_elses(store: Store) -> None:
    job = await kept(store, job_of())
    claimed = await asyncio.gather(*(store.cron.claim(run_of(platform="chat"), job, 200.0) for _ in range(6)))
    [run] = [one for one in claimed if one is not None]
    assert (run.state, run.session_id, run.platform, run.ended_at) == ("running", "s-j-100.0", "chat", None)
    assert run.started_at > 0
    now = await store.cron.get("j")
    assert now is not None
    assert (now.next_at, now.state, now.version, now.change) == (200.0, "active", 1, job.change)
    assert await store.cron.run_of("s-j-100.0") == run
    assert await store.cron.under_way() == [run]
    assert await store.cron.under_way("chat") == [run]
    assert await store.cron.under_way("other") == []


async def test_a_job_that_changed_meanwhile_is_not_claimed(store: Store) -> None:
    job = await kept(store, job_of())
    paused = await store.cron.change(replace(job, state="paused", next_at=None))
    assert await store.cron.claim(run_of(), job, 200.0) is None
    assert paused is not None
    assert await store.cron.claim(run_of(), paused, 200.0) is None
    again = await store.cron.change(replace(paused, state="active", next_at=100.0))
    assert again is not None
    assert await store.cron.claim(run_of(), replace(again, next_at=99.0), 200.0) is None
    assert await store.cron.claim(run_of(), again, 200.0) is not None


async def test_a_time_that_is_known_moves_the_job_on(store: Store) -> None:
    """The clock was set back, and a run has begun at this time before, so the job moves to its next time."""
    job = await kept(store, job_of())
    assert await store.cron.claim(run_of()) is not None
    assert await store.cron.claim(run_of(), job, 200.0) is None
    now = await store.cron.get("j")
    assert now is not None
    assert now.next_at == 200.0


async def test_a_job_without_another_time_is_done(store: Store) -> None:
    job = await kept(store, job_of())
    assert await store.cron.claim(run_of(), job, None) is not None
    now = await store.cron.get("j")
    assert now is not None
    assert (now.state, now.next_at) == ("done", None)


async def test_a_run_is_not_begun_while_one_is_under_way(store: Store) -> None:
    first = await store.cron.claim(run_of())
    second = await store.cron.claim(run_of(due=200.0))
    assert first is not None
    assert second is not None
    assert (second.state, second.note) == ("skipped", "the previous run was still in progress")
    assert second.ended_at is not None
    assert (await store.cron.claim(run_of("other"))) is not None
    assert await store.cron.finish_run(replace(first, state="done", note="well"))
    third = await store.cron.claim(run_of(due=300.0))
    assert third is not None
    assert third.state == "running"


async def test_a_run_is_settled_once(store: Store) -> None:
    run = await store.cron.claim(run_of(platform="chat"))
    assert run is not None
    assert await store.cron.undelivered("chat") == []
    assert await store.cron.finish_run(replace(run, state="failed", note=ODD))
    assert not await store.cron.finish_run(replace(run, state="done"))
    assert not await store.cron.finish_run(run_of("unknown", state="done"))
    [ended] = await store.cron.runs("j")
    assert (ended.state, ended.note, ended.is_told) == ("failed", ODD, False)
    assert await store.cron.under_way() == []
    assert await store.cron.undelivered("chat") == [ended]
    await store.cron.mark_delivered(ended)
    assert await store.cron.undelivered("chat") == []
    assert (await store.cron.runs("j"))[0].is_told


async def test_runs_come_with_the_latest_first(store: Store) -> None:
    for due in (3.0, 1.0, 2.0):
        await store.cron.claim(run_of(due=due, state="skipped", note="late"))
    assert [run.due_at for run in await store.cron.runs("j")] == [3.0, 2.0, 1.0]
    assert [run.due_at for run in await store.cron.runs("j", 2)] == [3.0, 2.0]
    assert await store.cron.runs("other") == []
    assert await store.cron.undelivered("") == []


async def test_old_runs_are_forgotten_and_jobs_that_are_over_with_them(make_store: MakeStore) -> None:
    now = [1_000.0]
    store = make_store(lambda: now[0])
    done, waits = await kept(store, job_of("done")), await kept(store, job_of("waits"))
    ended = await store.cron.claim(run_of("done"), done, None)
    assert ended is not None
    await store.cron.finish_run(replace(ended, state="done"))
    await store.cron.claim(run_of("waits"), waits, 500.0)
    assert await store.cron.sweep(900.0) == 0
    assert await store.cron.get("done") is not None
    assert await store.cron.sweep(1_001.0) == 1
    assert await store.cron.get("done") is None
    assert await store.cron.runs("done") == []
    assert len(await store.cron.under_way()) == 1, "what is under way stays"


async def test_the_last_run_of_a_session_is_found_when_it_has_ended_too(store: Store) -> None:
    await store.sessions.create("s", platform="cron", user="")
    assert await store.runs.last("s") is None
    await store.runs.commit(RunRecord("s-1", "s", "ended", 1, {}))
    await store.runs.commit(RunRecord("s-2", "s", "running", 1, {}))
    await store.runs.commit(RunRecord("s-1", "s", "ended", 2, {}))
    found = await store.runs.last("s")
    assert found is not None
    assert found.id == "s-2"


async def test_what_a_run_answered_is_forgotten_with_its_session(store: Store) -> None:
    run = await store.cron.claim(run_of())
    assert run is not None
    await store.sessions.create(run.session_id, platform="cron", user="")
    await store.cron.finish_run(replace(run, state="done", note="a secret"))
    assert await store.delete([run.session_id]) == [run.session_id]
    [left] = await store.cron.runs("j")
    assert (left.state, left.note) == ("done", "")


async def test_a_job_that_was_over_counts_among_the_most_again(store: Store) -> None:
    over = await store.cron.change(replace(await kept(store, job_of("1")), state="done", next_at=None))
    two = await kept(store, job_of("2"))
    assert over is not None
    assert await store.cron.change(replace(over, state="active", next_at=9.0), 1) is None
    assert await store.cron.change(replace(two, next_at=9.0), 1) is not None, "it counts already"
    again = await store.cron.change(replace(over, state="active", next_at=9.0), 2)
    assert again is not None
    assert (again.state, again.next_at) == ("active", 9.0)
