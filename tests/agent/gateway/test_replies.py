"""Messages of a run in progress: long answers grow over several messages, and a restarted reply leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from agent.conversation.session import Session
from agent.conversation.state import RunResult
from agent.events import Retrying, TextDelta, TurnStarted
from agent.gateway import platform_runner
from agent.gateway.splitting import split
from tests.agent.gateway.conftest import House, line_of
from toolcrib import ProviderTurn, StoreFailed
from toolcrib.chat import Chat, Traits
from toolcrib.contract.mail import Post
from toolcrib.contract.session import OnEvent, StreamEvent
from toolcrib.testing import ScriptedSession

MOST = 300
CODE = "```python\n" + "\n".join(f"print({number})  # {'y' * 30}" for number in range(12)) + "\n```"
LONG = "\n\n".join([*(f"{number} " + "words " * 30 for number in range(4)), CODE, "the end " * 20]).strip()


async def test_what_the_store_does_not_take_is_shown_once_it_does(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_runner, "_LOOKS_EVERY", 0.2)
    (house.folder / "build").mkdir()
    post, failures = house.store.mail.post, list[Exception]()

    async def failing(one: Post) -> Post:
        if failures:
            raise failures.pop()
        return await post(one)

    monkeypatch.setattr(house.store.mail, "post", failing)
    async with house.gateway() as gateway:
        line_of(gateway)
        failures += [StoreFailed("the disk is full")] * 2
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts() == ["re hello"])
        failures += [StoreFailed("the disk is full")] * 3
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: house.platform.shown[-1].out.buttons)
        await house.platform.says("yes")
        await house.until(lambda: house.platform.texts()[-1] == "ran it")
    assert len(house.platform.shown) == 3


class Narrator(ScriptedSession):
    """A model that says a long answer word by word, and pauses before its last words until it may continue."""

    def __init__(self, house: House, text: str) -> None:
        super().__init__()
        self._house = house
        self._text = text

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        words = self._text.split(" ")
        for number, word in enumerate(words):
            if number == len(words) - 3:
                await self._house.may.wait()
            on_event(StreamEvent("assistant_delta", word if number == 0 else f" {word}"))
            await asyncio.sleep(0)
        return ProviderTurn(self._text, assistant_turn="x")


@pytest.fixture
def narrates(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    def prepare(session: Session) -> None:
        session.link.use(Narrator(house, LONG))

    monkeypatch.setattr(house, "prepare", prepare)
    return house


async def test_the_messages_of_a_long_answer_are_shown_as_they_fill(narrates: House) -> None:
    house, parts = narrates, split(LONG, MOST)
    house.platform.traits = Traits(max_chars=MOST, edit_seconds=0.0, idempotent=True, per_second=10_000)
    assert len(parts) > 5
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("tell me")
        await house.until(lambda: len(house.platform.texts()) == len(parts))
        await house.until(lambda: house.platform.texts()[:-1] == parts[:-1])
        assert house.platform.texts()[-1].startswith("the end the end")
        house.may.set()
        await house.until(lambda: house.platform.texts() == parts)
        assert all(len(form) <= MOST for one in house.platform.shown for form in one.forms)


async def test_where_nothing_can_be_changed_a_long_answer_comes_whole(narrates: House) -> None:
    house = narrates
    house.platform.traits = Traits(max_chars=MOST, idempotent=True, per_second=10_000)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("tell me")
        await asyncio.sleep(0.3)
        assert house.platform.shown == []
        house.may.set()
        await house.until(lambda: house.platform.texts() == split(LONG, MOST))


async def test_what_was_shown_of_a_first_try_is_taken_back(house: House) -> None:
    house.platform.traits = Traits(max_chars=MOST, edit_seconds=0.0, idempotent=True, per_second=10_000)
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts() == ["re hello"])
        [info] = await house.store.sessions.list(1)
        replies = line.replies
        replies.begin(info.id, Chat("direct"))
        replies.watch(info.id, TurnStarted(7))
        for word in LONG.split(" "):
            replies.watch(info.id, TextDelta(f"{word} "))
            await asyncio.sleep(0)
        await house.until(lambda: len(house.platform.texts()) > 5)
        replies.watch(info.id, Retrying(1, 0.0, "cut"))
        replies.watch(info.id, TextDelta("short"))
        replies.done(info.id, RunResult("short", "done", 7))
        await house.until(lambda: house.platform.texts()[1] == "short")
        await house.until(lambda: all("withdrawn" in text for text in house.platform.texts()[2:]))
