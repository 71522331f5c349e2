"""Messages through the whole gateway: from a platform to the model and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from agent.conversation.answers import record_answer
from agent.gateway.forms import body_of
from agent.gateway.pace import SendRate
from agent.store._runs import SqliteRuns
from tests.agent.gateway.conftest import House, line_of
from toolcrib import Answer, StoreFailed
from toolcrib.chat import Chat, NotSent, Traits
from toolcrib.contract.store import RunRecord

GROUP = Chat("room", is_group=True)


async def test_a_message_is_answered(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts()[-1:] == ["re hello"])
        assert house.platform.texts() == ["re hello"]
        assert house.platform.shown[0].forms[0].startswith("re")


async def test_a_stranger_reaches_nothing(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello", user="eve")
        await house.platform.says("", user="ann")
        await house.platform.says("bot speaks", is_bot=True)
        await asyncio.sleep(0.1)
    assert (house.asked, house.platform.shown) == ([], [])
    assert await house.store.mail.chats() == []
    assert [entry.decision for entry in await house.store.audit.entries()] == ["refused: stranger"]


async def test_what_needs_approval_is_asked_and_agreed_by_a_button(house: House) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        asked = house.platform.shown[-1]
        assert asked.out.is_plain
        assert "rm -rf" in asked.out.text
        assert await house.platform.presses(asked, "y", user="eve") == ""
        assert "owner" in await house.platform.presses(asked, "y", user="bob")
        assert (house.folder / "build").is_dir()
        assert await house.platform.presses(asked, "y") == ""
        await house.until(lambda: house.platform.texts()[-1].startswith("ran"))
        assert not (house.folder / "build").exists()
        assert asked.out.buttons == ()
        assert "approved by ann" in asked.out.text
        assert "rm -rf" in asked.out.text
        assert "already decided" in await house.platform.presses(asked, "n")


async def test_a_group_is_answered_where_it_is_addressed_and_speakers_keep_their_rights(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("not for you", chat=GROUP)
        await house.platform.says("hi", chat=GROUP, user="bob", name="Bob", is_addressed=True)
        await house.until(lambda: house.platform.texts(GROUP)[-1:] == ["re Bob: hi"])
        assert house.asked == ["Bob: hi"]
        [info] = await house.store.sessions.list(10)
        assert (info.platform, info.user) == ("fake", "room:room")


async def test_a_chat_that_others_come_into_begins_anew(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("between us", chat=Chat("room"))
        await house.until(lambda: house.platform.texts(GROUP) == ["re between us"])
        await house.platform.says("hi", chat=GROUP, is_addressed=True)
        await house.until(lambda: len(house.platform.texts(GROUP)) == 2)
        users = {info.user for info in await house.store.sessions.list(10)}
        assert users == {"ann", "room:room"}


async def test_an_answer_survives_a_platform_that_fails(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        house.platform.traits = Traits(idempotent=True, per_second=1000)
        house.platform.failing = [NotSent("busy", retry_after=0.05), NotSent("cut", retry_after=0.05, perhaps_sent=True)]
        await house.platform.says("hello")
        await house.until(lambda: not house.platform.failing and house.platform.texts() == ["re hello"])
        await asyncio.sleep(0.3)
        assert house.platform.texts() == ["re hello"]


async def test_a_message_that_grew_before_it_was_known_to_be_shown_is_shown_whole(house: House) -> None:
    house.platform.traits = Traits(edit_seconds=0.0, idempotent=True, per_second=1000)
    house.platform.failing = [NotSent("cut", retry_after=0.1, perhaps_sent=True)]
    async with house.gateway() as gateway:
        outbox, chat = line_of(gateway).outbox, Chat("direct")
        await outbox.put(chat.key, "k", body_of(chat, "the first"))
        await house.until(lambda: house.platform.texts() == ["the first"])
        await outbox.put(chat.key, "k", body_of(chat, "the first and the rest"))
        await house.until(lambda: house.platform.texts() == ["the first and the rest"])
        await house.until(lambda: not outbox.waiting)


@pytest.mark.parametrize("failing", [[], [NotSent("cut", retry_after=0.1, perhaps_sent=True)]])
async def test_an_answer_that_ends_while_its_beginning_is_on_its_way_is_shown_whole(house: House, failing: list[NotSent]) -> None:
    house.platform.traits = Traits(edit_seconds=0.0, idempotent=True, per_second=1000)
    house.platform.seconds, house.platform.failing = 0.2, list(failing)
    async with house.gateway() as gateway:
        outbox, chat = line_of(gateway).outbox, Chat("direct")
        outbox.show(chat.key, "k", body_of(chat, "the first"))
        await asyncio.sleep(0.1)
        await outbox.put(chat.key, "k", body_of(chat, "the first and the rest"))
        await house.platform.until(lambda: house.platform.texts() == ["the first and the rest"], 5)


async def test_as_many_messages_as_a_platform_takes_at_once_go_at_once() -> None:
    started, pace = time.monotonic(), SendRate(0.5, 10)
    for _ in range(10):
        await pace.wait()
    assert time.monotonic() - started < 10  # one after the other would take 18 s
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await pace.wait()


async def test_a_parked_question_outlives_the_gateway(house: House) -> None:
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
    asked = house.platform.shown[-1]
    async with house.gateway() as gateway:
        line_of(gateway)
        assert await house.platform.presses(asked, "y") == ""
        await house.until(lambda: house.platform.texts()[-1].startswith("ran"))
        assert not (house.folder / "build").exists()
        assert len(house.platform.shown) == 2


async def test_a_question_that_was_settled_while_nobody_showed_it_is_shown_as_settled(house: House) -> None:
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
    question = house.platform.shown[-1]
    [record] = await house.store.tickets.pending()
    await record_answer(house.store, Answer(record.ticket.id, payload={"approved": False, "reason": "no"}, by="the terminal"))
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: question.out.text.endswith("✗ denied by the terminal: no"))
        assert question.out.buttons == ()


async def test_a_question_whose_run_was_not_parked_yet_is_shown_once_it_is(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.folder / "build").mkdir()
    commit, unfinished, may = SqliteRuns.commit, house.store.runs.unfinished, asyncio.Event()

    async def failing(self: SqliteRuns, record: RunRecord, **more: Any) -> bool:
        if record.status == "parked":
            raise StoreFailed("the process ends here")
        return await commit(self, record, **more)

    async def late() -> Sequence[str]:
        await may.wait()
        return await unfinished()

    async with house.gateway() as gateway:
        line_of(gateway)
        with monkeypatch.context() as patch:
            patch.setattr(SqliteRuns, "commit", failing)
            await house.platform.says(f"rm -rf {house.folder}/build")
            while not await house.store.tickets.pending():
                await asyncio.sleep(0.01)
            await gateway.__aexit__()
    monkeypatch.setattr(house.store.runs, "unfinished", late)
    async with house.gateway() as gateway:
        line_of(gateway)
        await asyncio.sleep(0.1)
        assert not [one for one in house.platform.shown if one.out.buttons], "an answer would have no effect yet"
        may.set()
        await house.until(lambda: [one for one in house.platform.shown if one.out.buttons])
        [question] = [one for one in house.platform.shown if one.out.key.startswith("ticket:")]
        assert await house.platform.presses(question, "y") == ""
        await house.until(lambda: house.platform.texts()[-1].startswith("ran"))
    assert not (house.folder / "build").exists()
