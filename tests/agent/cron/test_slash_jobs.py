"""/jobs in a chat: it needs no model, and works for users whose limits are used up."""

from __future__ import annotations

from typing import Any

from agent.cron.service import JobOrigin, PrincipalJobs
from tests.agent.cron.conftest import QUICK, JobHouse
from tests.agent.cron.test_chats import DAILY, agreed
from tests.agent.gateway.conftest import OWNED, line_of
from toolcrib import Principal
from toolcrib.chat import Chat


async def said(house: JobHouse, text: str, **more: Any) -> str:
    """Send a message, and return the reply."""
    before = len(house.platform.texts(more.get("chat")) if "chat" in more else house.platform.texts())
    await house.platform.says(text, **more)

    def texts() -> list[str]:
        return house.platform.texts(more["chat"]) if "chat" in more else house.platform.texts()

    await house.until(lambda: len(texts()) > before)
    return texts()[-1]


async def test_a_group_that_has_used_its_tokens_ends_its_jobs(house: JobHouse) -> None:
    room = Chat("room", is_group=True)
    house.tokens = 50
    house.configure(OWNED + "    tokens_per_day: 40\n" + QUICK)
    async with house.gateway() as gateway:
        line_of(gateway)
        house.calls["ann: please"] = DAILY
        await house.platform.says("please", chat=room, is_addressed=True)
        await house.until(lambda: any(one.out.buttons for one in house.platform.shown))
        await house.platform.presses(next(one for one in house.platform.shown if one.out.buttons), "y")
        job = await house.job()
        await house.until(lambda: "re ann: please" in house.platform.texts(room))
        assert "quota of 40 tokens" in await said(house, "list them", user="bob", chat=room, is_addressed=True)
        listed = await said(house, "/jobs", user="bob", chat=room)
        assert f"{job.id}: say good morning — every day at 9, next " in listed
        assert await said(house, f"/jobs remove {job.id}", user="bob", chat=room) == "Removed and stopped."
        assert await house.store.cron.jobs() == []
        assert await said(house, "/jobs", user="bob", chat=room) == "There are no jobs here."


async def test_jobs_of_others_and_what_is_not_understood(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        await house.until(lambda: "re please" in house.platform.texts())
        bobs = Chat("bobs")
        assert await said(house, "/jobs", user="bob", chat=bobs) == "There are no jobs here."
        assert "there is no job" in await said(house, f"/jobs stop {job.id}", user="bob", chat=bobs)
        assert "remove ID" in await said(house, "/jobs remove", user="bob", chat=bobs)
        assert "is not running" in await said(house, f"/jobs stop {job.id}")


async def test_what_a_person_paused_in_a_chat_they_resume_and_no_model_does(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        await house.until(lambda: "re please" in house.platform.texts())
        assert await said(house, f"/jobs pause {job.id}") == "Paused."
        await house.asks("hold it", action="pause", job=job.id)
        await house.asks("continue", action="resume", job=job.id)
        assert "a user paused the job" in str((await house.came_to(3))[-1].message)
        await house.until(lambda: "re continue" in house.platform.texts())
        assert "next " in await said(house, f"/jobs resume {job.id}")
        operator = PrincipalJobs(house.store, house.cribs[0].config, Principal("cli"), everybodys=True)
        await operator.pause(job.id, JobOrigin())
        assert await said(house, f"/jobs pause {job.id}") == "Paused."
        assert "toolcrib cron resume" in await said(house, f"/jobs resume {job.id}")
        assert (await house.job()).state == "paused"
