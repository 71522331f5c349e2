"""Posts are shown once, in order, whatever the platform does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.gateway import outbox as module
from agent.gateway.forms import body_of
from agent.gateway.outbox import SENT_AGAIN, Outbox
from agent.store.memory import MemoryStore
from tests.agent.gateway.conftest import House, line_of
from toolcrib import StoreFailed
from toolcrib.chat import Chat, NotSent, Outbound, Traits
from toolcrib.contract.mail import Post
from toolcrib.testing import FakePlatform

HERE, THERE = Chat("here"), Chat("there")


@asynccontextmanager
async def opened(platform: FakePlatform, store: MemoryStore) -> AsyncIterator[Outbox]:
    outbox = Outbox(platform, store)
    await outbox.start()
    outbox.open()
    yield outbox
    await outbox.close(1.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.02)


async def test_messages_of_a_chat_keep_their_order_and_others_don_t_wait() -> None:
    platform, store = FakePlatform(), MemoryStore()
    async with opened(platform, store) as outbox:
        platform.failing = [NotSent("busy", retry_after=0.2)]
        for number in range(5):
            await outbox.put(HERE.key, f"k{number}", body_of(HERE, str(number)))
        await asyncio.sleep(0.05)
        await outbox.put(THERE.key, "t", body_of(THERE, "now"))
        await platform.until(lambda: platform.texts(THERE) == ["now"])
        assert platform.texts(HERE) == []
        await platform.until(lambda: platform.texts(HERE) == ["0", "1", "2", "3", "4"])
        assert outbox.waiting == 0


async def test_a_key_is_one_message_that_may_change() -> None:
    platform, store = FakePlatform(), MemoryStore()
    async with opened(platform, store) as outbox:
        await outbox.put(HERE.key, "k", body_of(HERE, "asked"))
        await platform.until(lambda: platform.texts(HERE) == ["asked"])
        await outbox.put(HERE.key, "k", body_of(HERE, "asked"))
        await outbox.put(HERE.key, "k", body_of(HERE, "settled"))
        await platform.until(lambda: platform.texts(HERE) == ["settled"])
        assert platform.shown[0].forms == ["asked", "settled"]


async def test_one_that_can_never_be_shown_keeps_back_no_other() -> None:
    platform, store = FakePlatform(), MemoryStore()
    async with opened(platform, store) as outbox:
        platform.failing = [NotSent("the chat is gone", for_good=True)]
        await outbox.put(HERE.key, "a", body_of(HERE, "lost"))
        await outbox.put(HERE.key, "b", body_of(HERE, "next"))
        await platform.until(lambda: platform.texts(HERE) == ["next"])
        kept = await store.mail.get("fake", "a")
        assert kept is not None
        assert (kept.state, kept.problem, outbox.failed) == ("failed", "the chat is gone", 1)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_one_of_unknown_fate_is_sent_again_once_or_with_a_mark(*, idempotent: bool) -> None:
    platform, store = FakePlatform(traits=Traits(idempotent=idempotent, per_second=1000)), MemoryStore()
    async with opened(platform, store) as outbox:
        platform.failing = [NotSent("cut", perhaps_sent=True), RuntimeError("a bug of the platform's")]
        await outbox.put(HERE.key, "k", body_of(HERE, "text"))
        await platform.until(lambda: not platform.failing and outbox.waiting == 0)
        assert platform.texts(HERE) == (["text"] if idempotent else ["text", f"text\n\n{SENT_AGAIN}"])


async def test_what_an_ended_process_was_sending_is_sent_again() -> None:
    platform, store = FakePlatform(traits=Traits(per_second=1000)), MemoryStore()
    for key, state in (("a", "sending"), ("b", "waiting"), ("c", "shown")):
        post = await store.mail.post(Post("fake", HERE.key, key, body_of(HERE, key)))
        await store.mail.moved(post.id, state)  # type: ignore[arg-type]  # one of its states
    async with opened(platform, store):
        await platform.until(lambda: len(platform.texts(HERE)) == 2)
        assert platform.texts(HERE) == [f"a\n\n{SENT_AGAIN}", "b"]


class LatePlatform(FakePlatform):
    """A platform that knows no users until it has started, which takes a while."""

    async def start(self) -> None:
        await asyncio.sleep(0.05)
        await super().start()

    async def send(self, out: Outbound) -> str:
        if not self.running:
            raise NotSent("there is no user of that name", for_good=True)
        return await super().send(out)


async def test_what_was_left_is_sent_by_a_platform_that_has_started(house: House) -> None:
    house.platform = LatePlatform()
    await house.store.mail.post(Post("fake", HERE.key, "left", body_of(HERE, "left over")))
    async with house.gateway() as gateway:
        await line_of(gateway).outbox.put(HERE.key, "next", body_of(HERE, "and more"))
        await house.until(lambda: house.platform.texts(HERE) == ["left over", "and more"])


async def test_nothing_is_sent_before_it_is_opened() -> None:
    platform, store = FakePlatform(), MemoryStore()
    outbox = Outbox(platform, store)
    await outbox.start()
    await outbox.put(HERE.key, "k", body_of(HERE, "soon"))
    outbox.show(THERE.key, "t", body_of(THERE, "growing"))
    await asyncio.sleep(0.02)
    assert platform.shown == []
    outbox.open()
    await platform.until(lambda: (platform.texts(HERE), platform.texts(THERE)) == (["soon"], ["growing"]))
    await outbox.close()


async def test_what_replaces_another_and_can_t_be_an_edit_is_of_unknown_fate_too() -> None:
    """A question that was decided: without edits the outcome is a new message, which may be shown already."""
    platform, store = FakePlatform(traits=Traits(per_second=1000)), MemoryStore()
    async with opened(platform, store) as outbox:
        await outbox.put(HERE.key, "k", body_of(HERE, "may I?"))
        await platform.until(lambda: outbox.waiting == 0)
        platform.failing = [NotSent("cut", perhaps_sent=True)]
        await outbox.put(HERE.key, "k", body_of(HERE, "agreed"))
        await platform.until(lambda: not platform.failing and outbox.waiting == 0)
        assert platform.texts(HERE) == ["may I?", "agreed", f"agreed\n\n{SENT_AGAIN}"]


async def test_an_answer_grows_by_edits_within_the_platform_s_limits() -> None:
    traits = Traits(edit_seconds=0.05, max_edits=3, idempotent=True, per_second=1000)
    platform, store = FakePlatform(traits=traits), MemoryStore()
    async with opened(platform, store) as outbox:
        for number in range(60):
            outbox.show(HERE.key, "k", body_of(HERE, "x" * (number + 1)))
            await asyncio.sleep(0.01)
        await outbox.put(HERE.key, "k", body_of(HERE, "whole"))
        await platform.until(lambda: platform.texts(HERE) == ["whole"])
        assert len(platform.shown) == 1
        assert 3 <= len(platform.shown[0].forms) <= 5
        assert "x" * 60 not in platform.shown[0].forms


async def test_an_answer_whose_message_can_t_be_changed_any_more_is_shown_anew_once() -> None:
    """The first message was deleted, or the platform refuses edits of old messages. A question's form is not shown again."""
    platform, store = FakePlatform(traits=Traits(edit_seconds=0.01, idempotent=True, per_second=1000)), MemoryStore()
    gone = NotSent("message_not_found", for_good=True)
    async with opened(platform, store) as outbox:
        for key in ("said:r:1", "ask:t"):
            await outbox.put(HERE.key, key, body_of(HERE, f"{key} begins"))
            await platform.until(lambda: outbox.waiting == 0)
            platform.failing = [gone]
            await outbox.put(HERE.key, key, body_of(HERE, f"{key} ends"))
            await outbox.put(HERE.key, f"{key} behind", body_of(HERE, "behind"))
            await platform.until(lambda: not platform.failing and outbox.waiting == 0)
        assert platform.texts(HERE) == ["said:r:1 begins", "said:r:1 ends", "behind", "ask:t begins", "behind"]
        assert outbox.failed == 1


async def test_the_end_of_an_answer_follows_its_beginning_at_once() -> None:
    """At most one edit is sent per the platform's interval, and the first message is not an edit."""
    platform, store = FakePlatform(traits=Traits(edit_seconds=60.0, idempotent=True, per_second=1000)), MemoryStore()
    async with opened(platform, store) as outbox:
        outbox.show(HERE.key, "k", body_of(HERE, "the first"))
        await platform.until(lambda: platform.texts(HERE) == ["the first"])
        outbox.show(HERE.key, "k", body_of(HERE, "the first and more"))
        await asyncio.sleep(0.1)
        await outbox.put(HERE.key, "k", body_of(HERE, "the first and the rest"))
        await platform.until(lambda: platform.texts(HERE) == ["the first and the rest"])
        await outbox.put(HERE.key, "k", body_of(HERE, "another"))
        await asyncio.sleep(0.1)
        assert platform.shown[0].forms == ["the first", "the first and the rest"]


async def test_a_store_that_fails_for_a_while_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STORE_PAUSE", 0.02)
    platform, store = FakePlatform(), MemoryStore()
    async with opened(platform, store) as outbox:
        await outbox.put(HERE.key, "k", body_of(HERE, "text"))
        moved, failures = store.mail.moved, [StoreFailed("full"), StoreFailed("full")]

        async def failing(*args: object, **more: object) -> bool:
            if failures:
                raise failures.pop()
            return await moved(*args, **more)  # type: ignore[arg-type]  # called as before

        monkeypatch.setattr(store.mail, "moved", failing)
        await platform.until(lambda: outbox.waiting == 0)
        assert platform.texts(HERE) == ["text"]


async def test_a_platform_may_keep_nothing_back_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GIVES_UP", 0.3)
    platform, store = FakePlatform(), MemoryStore()
    async with opened(platform, store) as outbox:
        platform.failing = [NotSent("busy", retry_after=float("inf"))]
        await outbox.put(HERE.key, "k", body_of(HERE, "text"))
        await platform.until(lambda: platform.texts(HERE) == ["text"])


async def test_a_platform_that_has_heard_too_much_hears_nothing_until_it_says() -> None:
    """Neither the end of the answer that hit the limit, nor the posts after it, are sent."""
    platform, store = FakePlatform(), MemoryStore()
    async with opened(platform, store) as outbox:
        platform.failing = [NotSent("too many", retry_after=0.6)]
        begun = time.monotonic()
        outbox.show(HERE.key, "said:r:1:0", body_of(HERE, "so far"))
        await platform.until(lambda: not platform.failing)
        await outbox.put(HERE.key, "said:r:1:0", body_of(HERE, "so far and whole"))
        await outbox.put(HERE.key, "next", body_of(HERE, "and more"))
        await platform.until(lambda: platform.texts(HERE) == ["so far and whole", "and more"])
        assert time.monotonic() - begun >= 0.6
        assert [one.forms for one in platform.shown] == [["so far and whole"], ["and more"]]


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_clock_that_is_set_back_keeps_nothing_back(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.2)
    clock.ahead = 3600.0
    platform, store = FakePlatform(), MemoryStore()
    platform.failing = [NotSent("away")] * 1_000
    async with opened(platform, store) as outbox:
        await outbox.put(HERE.key, "k", body_of(HERE, "one"))
        async with asyncio.timeout(60):
            while (post := await store.mail.get("fake", "k")) is None or not post.problem:
                await asyncio.sleep(0)
        clock.ahead = 0.0
        platform.failing.clear()  # only now: a post that was sent has no problem any more
        await outbox.put(HERE.key, "next", body_of(HERE, "two"))
        if not restarts:
            await platform.until(lambda: platform.texts(HERE) == ["one", "two"])
    if restarts:
        async with opened(platform, store):
            await platform.until(lambda: platform.texts(HERE) == ["one", "two"])


async def test_a_clock_that_jumps_ahead_has_nothing_given_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.02)
    platform, store = FakePlatform(), MemoryStore()
    platform.failing = [NotSent("away")] * 5
    async with opened(platform, store) as outbox:
        await outbox.put(HERE.key, "k", body_of(HERE, "one"))
        await platform.until(lambda: len(platform.failing) < 5)
        clock.ahead = 25 * 3600.0
        await platform.until(lambda: platform.texts(HERE) == ["one"])
        platform.failing = [NotSent("away")] * 100
        await outbox.put(HERE.key, "late", body_of(HERE, "lost"))
        clock.ahead += 25 * 3600.0
        await platform.until(lambda: outbox.failed == 1)
        assert len(platform.failing) == 100 - module._LEAST_TRIES - 1
