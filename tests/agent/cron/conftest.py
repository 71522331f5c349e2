"""A gateway with jobs: the ``House`` of the gateway's tests, with a model that schedules jobs on request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.cron import CHANGED
from agent.cron.plan import JobPlan
from agent.store.memory import MemoryStore
from tests.agent.gateway.conftest import OWNED, House, Parrot
from toolcrib import ProviderTurn, ToolCall
from toolcrib.contract.cron import CronJob, CronRun
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import OnEvent

QUICK = "cron: {shortest_interval: 1, zone: Europe/Berlin}\n"


class Clerk(Parrot):
    """A Parrot that calls ``cronjob`` with the arguments in ``job {...}``, and answers with the result."""

    def __init__(self, house: JobHouse) -> None:
        super().__init__(house)
        self.house = house

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        said = self.said[-1] if self.said else ""
        if said in self.house.calls:
            call = ToolCall(ToolCall.new_id(), "cronjob", self.house.calls.pop(said))
            return ProviderTurn("", (call,), "x")
        if "the scheduled time of this task" in said and self.house.in_jobs:
            call = ToolCall(ToolCall.new_id(), "cronjob", dict(self.house.in_jobs))
            self.house.in_jobs.clear()
            return ProviderTurn("", (call,), "x")
        used = {"input": self.house.tokens - 10, "output": 10} if self.house.tokens else {}
        return replace(await super().stream_turn(on_event), usage=used)


class JobHouse(House):
    """A house with jobs. ``calls`` are arguments of ``cronjob`` by message; ``tools`` the tools that sessions had."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, MemoryStore())
        self.calls: dict[str, dict[str, Any]] = {}
        self.tools: dict[str, list[str]] = {}
        self.in_jobs: dict[str, Any] = {}
        """Arguments of ``cronjob`` for a call by the next job."""
        self.tokens = 0
        """Number of tokens of each answer."""
        self.configure(OWNED + QUICK)

    def prepare(self, session: Any) -> None:
        self.tools[session.id] = session.names
        session.link.use(self.parrots.setdefault(session.id, Clerk(self)))

    async def asks(self, text: str, user: str = "ann", **args: Any) -> None:
        """Make the model of a user's chat call ``cronjob``."""
        self.calls[text] = args
        await self.platform.says(text, user=user)

    async def came_to(self, many: int = 1) -> list[Any]:
        """Return the results of the calls of ``cronjob``, in order, when there are ``many``."""
        for _ in range(3_000):
            calls = [call for session in self.tools for call in await self.store.ledger.calls(session)]
            ended = [call for call in calls if call.call.name == "cronjob" and call.ended_at is not None]
            if len(ended) >= many:
                return [call.result for call in sorted(ended, key=lambda call: call.ended_at or 0.0)]
            await asyncio.sleep(0.02)
        raise AssertionError(f"only {len(ended)} calls have ended")

    async def due(self, job: CronJob, ago: float = 0.0) -> None:
        """Make a job due now, or ``ago`` seconds ago."""
        now = await self.store.cron.get(job.id)
        assert now is not None
        plan, at = JobPlan.of(now), time.time() - ago
        if plan.schedule.kind in ("once", "every"):
            schedule = replace(plan.schedule, at=at if plan.schedule.kind == "once" else at - plan.schedule.seconds)
            now = replace(now, body=replace(plan, schedule=schedule).to_json())
        assert await self.store.cron.change(replace(now, next_at=at, state="active")) is not None
        await self.store.signals.send(CHANGED)

    async def run_of(self, job: CronJob, state: str | None = None) -> CronRun:
        """Return the last run of a job when it has the state."""
        for _ in range(3_000):
            runs = await self.store.cron.runs(job.id)
            if runs and state in (None, runs[0].state):
                return runs[0]
            await asyncio.sleep(0.02)
        raise AssertionError(f"no {state} run: {await self.store.cron.runs(job.id)}")

    async def job(self, many: int = 1) -> CronJob:
        """Return the newest job when there are ``many``."""
        for _ in range(3_000):
            jobs = await self.store.cron.jobs()
            if len(jobs) >= many:
                return jobs[-1]
            await asyncio.sleep(0.02)
        raise AssertionError("no job was made")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    made = JobHouse(project)
    yield made
    for crib in made.cribs:
        crib.close()


Made = Callable[..., Any]
