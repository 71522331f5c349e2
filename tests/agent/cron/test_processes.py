"""Several processes on one store: each due time starts one run, and another process continues the run of a killed one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.cron import CHANGED
from agent.cron.plan import JobPlan
from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from tests.forks import Forks
from toolcrib import Principal
from toolcrib.contract.cron import CronJob
from toolcrib.contract.store import Store
from tools.schedules.schedule import Schedule

CHILD = "from tests.agent.cron.children import run; run()"
Run = Callable[[str], "subprocess.Popen[str]"]

PLAIN = "sandbox: {mode: none}\nsnapshots: {enabled: false}\n"
"""Commands may leave marks outside of their job's folder."""


@pytest.fixture(scope="module")
def shared_url(postgres: Any) -> str:
    url: str = postgres.new_database()
    PostgresStore(url).close()
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLCRIB_STORE_URL", raising=False)
    made: SqliteStore | PostgresStore
    if request.param == "sqlite":
        path = tmp_path / "store.db"
        (tmp_path / "config.yaml").write_text(f"store: {{path: {path}}}\n{PLAIN}")
        made = SqliteStore(path)
    else:
        url = request.getfixturevalue("shared_url")
        (tmp_path / "config.yaml").write_text(PLAIN)
        monkeypatch.setenv("TOOLCRIB_STORE_URL", url)
        made = PostgresStore(url)
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path, forks: Forks) -> Iterator[Run]:
    """Yield a function that starts a process and returns once it runs jobs. All processes are ended at the end."""
    with ExitStack() as stack:

        def start(how: str = "plain") -> subprocess.Popen[str]:
            env = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed process leaves its folder there
            options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            process = forks.popen(str(tmp_path), how, code=CHILD, cwd=tmp_path, env=env, **options)
            stack.callback(ended, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            return process

        yield start


def ended(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if process.poll() is None:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.stdout is not None
    process.stdout.close()


def plan(folder: Path, task: str, at: float, seconds: int = 0) -> JobPlan:
    schedule = Schedule("every", "UTC", at=at - seconds, seconds=seconds) if seconds else Schedule("once", "UTC", at=at)
    return JobPlan(Principal("cli"), "a test", schedule, task, folder=str(folder), made_at=time.time())


async def added(store: Store, folder: Path, name: str, at: float, seconds: int = 0) -> CronJob:
    body = plan(folder, name, at, seconds).to_json()
    job = await store.cron.add(CronJob(f"{name}-{os.urandom(4).hex()}", "", body, next_at=at), 10_000)
    assert job is not None
    return job


async def until(holds: Callable[[], Any], seconds: float = 30.0) -> None:
    ends = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < ends, "it did not come to that in time"
        await asyncio.sleep(0.05)


def asked(folder: Path) -> list[str]:
    """Return the requests to models, without the process ids."""
    file = folder / "asked"
    return [line.partition(" ")[2] for line in file.read_text().splitlines()] if file.exists() else []


async def test_of_two_processes_each_time_is_begun_by_one(store: Store, run: Run, tmp_path: Path) -> None:
    processes = [run("plain"), run("plain")]
    at = time.time() + 1.0
    jobs = [await added(store, tmp_path, f"job{number}", at) for number in range(20)]
    often = await added(store, tmp_path, "often", at, seconds=1)
    await store.signals.send(CHANGED)

    async def all_done() -> bool:
        runs = [one for job in jobs for one in await store.cron.runs(job.id)]
        return len(runs) == 20 and all(one.state == "done" for one in runs) and len(await store.cron.runs(often.id)) >= 3

    await until(all_done)
    for process in processes:
        ended(process)
    times = Counter(asked(tmp_path))
    resumed = times.pop("(goes on)", 0)  # a run of "often" that the first process left when it ended
    assert {name: many for name, many in times.items() if name != "often"} == {f"job{number}": 1 for number in range(20)}
    runs = await store.cron.runs(often.id, 100)
    done, left = ([one for one in runs if one.state == state] for state in ("done", "running"))
    assert len(done) <= times["often"] + resumed, "none was done that no model was asked for"
    assert times["often"] <= len(done) + len(left), "what was under way at the end may not have asked yet"
    assert len({one.due_at for one in runs}) == len(runs)
    begun = [one for job in jobs for one in await store.cron.runs(job.id)]
    assert all(0 <= one.started_at - one.due_at < 5 for one in begun)
    assert [(await store.cron.get(job.id)).state for job in jobs] == ["done"] * 20  # type: ignore[union-attr]  # all jobs exist


async def test_what_a_killed_process_was_asking_goes_on_in_another(store: Store, run: Run, tmp_path: Path) -> None:
    first = run("hangs")
    job = await added(store, tmp_path, "asks", time.time())
    await store.signals.send(CHANGED)
    await until(lambda: asyncio.to_thread(lambda: asked(tmp_path) == ["asks"]))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    run("plain")

    async def done() -> bool:
        return [one.state for one in await store.cron.runs(job.id)] == ["done"]

    await until(done)
    info = await store.sessions.get((await store.cron.runs(job.id))[0].session_id)
    assert info is not None
    messages = [message for message in await store.sessions.messages(info.id) if message["role"] == "user"]
    assert len(messages) == 1, "the model got its task once"


async def test_a_command_that_ran_when_the_process_was_killed_is_not_run_again(store: Store, run: Run, tmp_path: Path) -> None:
    first = run("acts")
    job = await added(store, tmp_path, "slow", time.time())
    await store.signals.send(CHANGED)
    await until(lambda: asyncio.to_thread((tmp_path / "begun").exists))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    (tmp_path / "stop").touch()
    run("plain")

    async def done() -> bool:
        return [one.state for one in await store.cron.runs(job.id)] == ["done"]

    await until(done)
    assert (tmp_path / "ran").read_text() == "ran\n"
    [call] = await store.ledger.calls((await store.cron.runs(job.id))[0].session_id)
    assert call.result is not None
    assert "may have run" in str(call.result.message)


async def test_a_time_that_was_claimed_and_not_begun_is_begun_by_another(store: Store, run: Run, tmp_path: Path) -> None:
    """Killed between the claim and the first message in the session: another process must do what was claimed."""
    from agent.cron.plan import session_of
    from toolcrib.contract.cron import CronRun

    job = await added(store, tmp_path, "left", time.time() - 1)
    claimed = await store.cron.claim(CronRun(job.id, 5.0, session_of(job.id, 5.0)), job, None)
    assert claimed is not None
    await asyncio.sleep(5.1)  # a living process has that long to write its first message
    run("plain")

    async def done() -> bool:
        return [one.state for one in await store.cron.runs(job.id)] == ["done"]

    await until(done)
    assert asked(tmp_path) == ["left"]


async def test_a_change_in_one_process_is_seen_in_another_at_once(store: Store, run: Run, tmp_path: Path) -> None:
    run("plain")
    await added(store, tmp_path, "new", time.time())
    sent = time.monotonic()
    await store.signals.send(CHANGED)
    await until(lambda: asyncio.to_thread(lambda: asked(tmp_path) == ["new"]))
    assert time.monotonic() - sent < 25  # by a signal, not by the check every half minute
