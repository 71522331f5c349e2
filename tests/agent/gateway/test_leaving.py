"""A chat that leaves its session: its runs, waiting messages and questions end, in this process and in the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from agent.desk.hosted_sessions import HostedSessions
from agent.gateway.pairing import Pairings
from agent.gateway.platform_runner import ChatLine
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import StoreFailed
from toolcrib.chat import Chat
from toolcrib.contract.dataclass import replace
from toolcrib.testing import Shown

DIRECT, GROUP = Chat("direct"), Chat("room", is_group=True)
WORDS = "behind it"


def questions(house: House, chat: Chat = DIRECT) -> list[Shown]:
    return [one for one in house.platform.shown if one.out.chat.key == chat.key and one.out.buttons]


async def ask(house: House, user: str = "ann") -> str:
    """Send a command that needs approval, and a message after it; return the id of the session."""
    (house.folder / "build").mkdir(exist_ok=True)
    await house.platform.says(f"rm -rf {house.folder}/build", user=user)
    await house.until(lambda: questions(house))
    await house.platform.says(WORDS, user=user)
    await house.until(lambda: any("waits until the question above" in text for text in house.platform.texts()))
    return await session_of(house)


async def session_of(house: House) -> str:
    record = await house.store.mail.chat("fake", DIRECT.key)
    assert record is not None
    return record.session_id


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.01)


async def is_over(house: House, session_id: str) -> bool:
    store = house.store
    goes_on = await store.runs.current(session_id) or await store.inbox.waiting(session_id)
    return not goes_on and not await store.tickets.pending(session_id) and not questions(house)


async def by_new(house: House, line: ChatLine) -> None:
    await house.platform.says("/new")


async def by_somebody_else(house: House, line: ChatLine) -> None:
    await house.platform.says("hello", user="bob")
    await house.until(lambda: "re hello" in house.platform.texts())


async def by_no_longer_being_the_owner(house: House, line: ChatLine) -> None:
    line._admission.config = replace(line._admission.config, roles={}, allowed_users=("ann",))
    await house.platform.says("hello")
    await house.until(lambda: "re hello" in house.platform.texts())


async def by_becoming_a_group(house: House, line: ChatLine) -> None:
    await house.platform.says("hello", user="bob", chat=replace(DIRECT, is_group=True), is_addressed=True)
    await house.until(lambda: "re bob: hello" in house.platform.texts())


LEAVES = [by_new, by_somebody_else, by_no_longer_being_the_owner, by_becoming_a_group]
Leave = Callable[[House, ChatLine], Awaitable[None]]


@pytest.mark.parametrize("leave", LEAVES)
async def test_nothing_of_a_session_that_was_left_goes_on(house: House, leave: Leave) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        left = await ask(house)
        [question] = questions(house)
        await leave(house, line)
        await eventually(lambda: is_over(house, left))
        assert await session_of(house) != left
        await house.until(lambda: "withdrawn" in question.out.text)
        assert "nobody" not in question.out.text
        assert await house.platform.presses(question, "y") in ("This was already decided.", "You may not decide this; owner may.")
        await house.platform.says("/approvals")
        await house.until(lambda: "Nothing here waits for an answer." in house.platform.texts())
        await house.platform.says("/stop")
        await house.until(lambda: "Nothing is running here." in house.platform.texts())
    assert (house.folder / "build").is_dir()
    assert not [said for said in house.asked if WORDS in said]


@pytest.mark.parametrize("leave", LEAVES)
async def test_a_run_under_way_is_broken_off_with_what_waits_behind_it(house: House, leave: Leave) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        left = await session_of(house)
        await house.platform.says(WORDS)
        await eventually(lambda: _waits(house, left))
        await leave(house, line)
        await eventually(lambda: is_over(house, left))
        await house.until(lambda: not line.manager.at_work(left))
        house.may.set()
        assert left not in line.manager._open
    assert not [said for said in house.asked if WORDS in said]
    assert "re wait" not in house.platform.texts()


async def _waits(house: House, session_id: str) -> bool:
    return bool(await house.store.inbox.waiting(session_id))


async def test_becoming_the_owner_leaves_what_was_asked_for_before(house: House) -> None:
    house.configure("platforms:\n  fake: {allowed_users: [bob], allow_local: true}\n")
    pairings = Pairings(house.store, "fake")
    async with house.gateway() as gateway:
        line_of(gateway)
        left = await ask(house, "bob")
        await house.platform.says(await pairings.offer("owner"), user="bob")
        await house.platform.says("hello", user="bob")
        await house.until(lambda: "re hello" in house.platform.texts())
        await eventually(lambda: is_over(house, left))
    assert not [said for said in house.asked if WORDS in said]


@pytest.mark.parametrize("is_parked", [True, False], ids=["a question", "a run"])
async def test_a_chat_does_not_rest_while_something_is_left_to_do(house: House, is_parked: bool) -> None:
    """A late plain answer still counts, and a message does not interrupt a run that takes hours."""
    house.configure(OWNED + "    renew_hours: 1\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        if is_parked:
            left = await ask(house)
        else:
            await house.platform.says("wait")
            await house.until(lambda: house.asked)
            left = await session_of(house)
        await rested(house)
        await house.platform.says("yes" if is_parked else "and?")
        house.may.set()
        await house.until(lambda: ("ran it" if is_parked else "re wait") in house.platform.texts())
        assert await session_of(house) == left
        await eventually(lambda: is_over(house, left))
        await rested(house)
        await house.platform.says("good morning")
        await house.until(lambda: "re good morning" in house.platform.texts())
        assert await session_of(house) != left


async def rested(house: House) -> None:
    record = await house.store.mail.chat("fake", DIRECT.key)
    assert record is not None
    await house.store.mail.enter(replace(record, used_at=time.time() - 7_200))


@pytest.mark.parametrize("is_parked", [True, False], ids=["a question", "a run"])
async def test_a_process_that_ends_in_between_leaves_the_rest_to_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch, is_parked: bool
) -> None:
    """kill -9 between the new session and the end of the old one: nothing of the old one continues."""

    async def killed(self: HostedSessions, session_id: str) -> None:
        return

    async with house.gateway() as gateway:
        line = line_of(gateway)
        if is_parked:
            left = await ask(house)
        else:
            await house.platform.says("wait")
            await house.until(lambda: house.asked)
            left = await session_of(house)
            await house.platform.says(WORDS)
            await eventually(lambda: _waits(house, left))
        with monkeypatch.context() as patch:
            patch.setattr(HostedSessions, "end", killed)
            await by_new(house, line)
            await eventually(lambda: _has_another(house, left))
        await line.manager.leave()  # leave running work in the same state as a kill
    house.may.set()
    async with house.gateway() as gateway:
        line_of(gateway)
        await eventually(lambda: is_over(house, left))
        await house.platform.says("hello")
        await house.until(lambda: "re hello" in house.platform.texts())
    assert not [said for said in house.asked if WORDS in said]
    assert house.asked.count("wait") == (0 if is_parked else 1)
    assert (house.folder / "build").is_dir() == is_parked


async def _has_another(house: House, session_id: str) -> bool:
    return await session_of(house) != session_id


async def test_an_answer_from_elsewhere_runs_nothing_of_a_session_that_was_left(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(self: HostedSessions, session_id: str) -> None:
        raise StoreFailed("the disk is full")

    async with house.gateway() as gateway:
        line = line_of(gateway)
        left = await ask(house)
        [question] = questions(house)
        with monkeypatch.context() as patch:
            patch.setattr(HostedSessions, "_take_back", fails)
            await by_new(house, line)
            await house.until(lambda: any("new session" in text for text in house.platform.texts()))
            await house.platform.presses(question, "y")  # before it could be withdrawn
            await house.until(lambda: "approved" in question.out.text)
            await asyncio.sleep(0.1)
            assert (house.folder / "build").is_dir()
        await line.manager.end_again()
        await eventually(lambda: is_over(house, left))
    assert (house.folder / "build").is_dir()
    assert not [said for said in house.asked if WORDS in said]


async def test_stop_ends_a_run_that_an_ended_process_left(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process may read the message before it continues the run."""
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        left = await session_of(house)
        await line.manager.leave()

    async def not_yet(self: HostedSessions) -> None:
        return

    monkeypatch.setattr(HostedSessions, "_adopt", not_yet)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("/stop")
        await eventually(lambda: is_over(house, left))
        await house.until(lambda: any("Stopped" in text for text in house.platform.texts()))
    assert house.asked == ["wait"]


async def test_stop_ends_what_is_said_to_be_over_for_its_own_chat_alone(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house)
        await house.platform.says("/stop", chat=Chat("elsewhere"))
        await house.until(lambda: house.platform.texts(Chat("elsewhere")) == ["Nothing is running here."])
        assert len(await house.store.tickets.pending()) == 1
        await house.platform.says("/new", chat=Chat("elsewhere"))
        await house.until(lambda: len(house.platform.texts(Chat("elsewhere"))) == 2)
        assert len(await house.store.tickets.pending()) == 1


async def test_a_chat_whose_session_was_deleted_begins_another(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello")
        await house.until(lambda: "re hello" in house.platform.texts())
        await house.store.delete([await session_of(house)])
        await house.platform.says("hello again")
        await house.until(lambda: "re hello again" in house.platform.texts())
