"""Chats that receive the answers of jobs: they receive no more answers once they belong to another user."""

from __future__ import annotations

import asyncio

import pytest

from agent.config import load_config
from agent.cron.service import JobOrigin, PrincipalJobs
from agent.gateway.pairing import Pairings
from tests.agent.cron.conftest import QUICK, JobHouse
from tests.agent.gateway.conftest import OWNED, line_of
from toolcrib import InvalidArguments, Principal
from toolcrib.chat import Chat
from toolcrib.contract.cron import CronJob
from tools.cronjob_tool import planned_by

ANNS = Chat("anns")
BOTH, ZOES = (OWNED.replace("[ann]", who) + QUICK for who in ("[ann, zoe]", "[zoe]"))


async def operators_job(house: JobHouse, to: str = "fake:anns", task: str = "say it", unattended: str = "deny") -> CronJob:
    """Make a job as at a terminal, with the current configuration."""
    wanted = planned_by({"action": "add", "schedule": "every day at 9", "task": task, "unattended": unattended}, {}, "")
    book = PrincipalJobs(house.store, load_config(house.config), Principal("cli"), everybodys=True)
    return await book.add(wanted, "every day at 9", to, JobOrigin(folder=str(house.folder)))


async def reasons_undelivered(house: JobHouse) -> list[str]:
    """Return the reasons why answers were not delivered."""
    entries = [one for one in await house.store.audit.entries() if one.decision == "not told"]
    return [str(one.detail["reason"]) for one in entries]


async def test_the_operators_job_tells_the_owner_of_today(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello", chat=ANNS)
        await house.until(lambda: house.platform.texts(ANNS))
        job = await operators_job(house)
        await house.due(job)
        await house.until(lambda: any("⏰ say it" in text for text in house.platform.texts(ANNS)))
        house.configure(ZOES)
        await gateway.reconfigure()
        told = len(house.platform.texts(ANNS))
        await house.due(job)
        await house.until(lambda: len(house.asked) == 3)
        await house.run_of(job, "done")
        await settled(house, job)
        assert await reasons_undelivered(house) == ["its chat no longer belongs to the only owner on fake"]
        assert len(house.platform.texts(ANNS)) == told
        with pytest.raises(InvalidArguments, match="is not your chat"):
            await operators_job(house)


async def settled(house: JobHouse, job: CronJob) -> None:
    """Return once the gateway has handled the last run of a job."""
    for _ in range(3_000):
        if (await house.run_of(job)).is_told:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(await house.run_of(job))


async def test_of_several_owners_none_is_the_operator(house: JobHouse) -> None:
    house.configure(BOTH)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello", chat=ANNS)
        await house.platform.says("hello", user="zoe", chat=Chat("zoes"))
        await house.until(lambda: house.platform.texts(ANNS) and house.platform.texts(Chat("zoes")))
        for chat in ("anns", "zoes"):
            with pytest.raises(InvalidArguments, match="the chat of a platform's only owner"):
                await operators_job(house, f"fake:{chat}")
        house.configure(ZOES)
        assert (await operators_job(house, "fake:zoes")).state == "active"


async def test_a_former_owner_is_not_asked_what_the_operators_job_waits_for(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello", chat=ANNS)
        await house.until(lambda: house.platform.texts(ANNS))
        job = await operators_job(house, task="rm -rf build", unattended="park")
        house.configure(ZOES)
        await gateway.reconfigure()
        await house.due(job)
        run = await house.run_of(job, "running")
        for _ in range(3_000):
            if await house.store.tickets.pending(run.session_id):
                break
            await asyncio.sleep(0.02)
        await gateway.lines[0].jobs.deliver_pending()
        assert len(house.platform.texts(ANNS)) == 1
    async with house.gateway() as gateway:  # nor after a restart
        line_of(gateway)
        assert len(house.platform.texts(ANNS)) == 1


async def test_whoever_may_speak_no_more_is_not_told_what_was_begun_before(house: JobHouse) -> None:
    paired = Pairings(house.store, "fake")
    house.configure(OWNED.replace("[ann]", "[]") + QUICK)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(await paired.offer("owner"))
        await house.until(lambda: house.platform.texts())
        await house.asks("please", action="add", schedule="every day at 9", task="wait and say it")
        await house.until(lambda: house.platform.shown[-1].out.buttons)
        await house.platform.presses(house.platform.shown[-1], "y")
        job = await house.job()
        await house.due(job)
        await house.until(lambda: any("wait and say it" in text for text in house.asked))
        assert await paired.remove("ann")
        house.may.set()
        await house.run_of(job, "done")
        await settled(house, job)
    assert await reasons_undelivered(house) == ["its creator has no access there any more"]
    assert not any("⏰" in text for text in house.platform.texts())


async def test_a_direct_chat_that_became_a_room_is_not_told(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello", chat=ANNS)
        await house.until(lambda: house.platform.texts(ANNS))
        job = await operators_job(house)
        await house.platform.says("hello", chat=Chat("anns", is_group=True), is_addressed=True)
        await house.until(lambda: len(house.platform.texts(ANNS)) == 2)
        await house.due(job)
        await house.run_of(job, "done")
        await settled(house, job)
    assert await reasons_undelivered(house) == ["its chat has changed"]
    assert len(house.platform.texts(ANNS)) == 2
