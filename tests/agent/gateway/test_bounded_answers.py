"""Answers that are too long, hold secrets or are stopped: they are bounded, redacted or withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agent.events import TextDelta, TurnStarted
from agent.gateway.platform_runner import ChatLine
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import ProviderError, ProviderTurn
from toolcrib.chat import Chat, Traits
from toolcrib.contract.session import OnEvent, StreamEvent
from toolcrib.testing import ScriptedSession

MOST = 300
SECRET = "correct-horse-battery-staple"
KEY = "sk-ant-api03-" + "A" * 40
TRAITS = Traits(max_chars=MOST, edit_seconds=0.0, idempotent=True, per_second=10_000, max_edits=10_000)


class Teller(ScriptedSession):
    """A model that says these pieces, and then waits until it may end."""

    def __init__(self, house: House, pieces: Sequence[str]) -> None:
        super().__init__()
        self._house = house
        self._pieces = pieces

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        for piece in self._pieces:
            on_event(StreamEvent("assistant_delta", piece))
            await asyncio.sleep(0)
        await self._house.may.wait()
        return ProviderTurn("".join(self._pieces), assistant_turn="x")


def tells(house: House, pieces: Sequence[str], traits: Traits = TRAITS) -> None:
    house.platform.traits = traits
    house.prepare = lambda session: session.link.use(Teller(house, pieces))  # type: ignore[method-assign]  # another model


def forms(house: House) -> list[str]:
    return [form for one in house.platform.shown for form in one.forms]


@pytest.mark.parametrize("edits", [0.0, None])
async def test_a_long_answer_is_a_few_messages_and_a_file(house: House, edits: float | None) -> None:
    pieces = [f"{number} {'x' * 250}\n\n" for number in range(50)]
    tells(
        house,
        pieces,
        Traits(max_chars=MOST, edit_seconds=edits, idempotent=True, per_second=10_000, max_edits=10_000, max_file_bytes=50_000),
    )
    house.may.set()
    async with house.gateway() as gateway:
        await house.platform.says("tell me")
        await house.until(lambda: any("the file has" in text for text in house.platform.texts()))
        await house.until(lambda: line_of(gateway).outbox.waiting == 0)
        said = [one for one in house.platform.shown if not one.out.files]
        assert [one.out.text[:2].strip() for one in said[:9]] == [str(number) for number in range(9)]
        assert [one.out.text for one in said[9:]] == ["_(cut here; all of it would take 50 messages; the file has all of it)_"]
        [file] = [file for one in house.platform.shown for file in one.out.files]
        assert (file.name, file.path.read_text()) == ("answer.md", "".join(pieces).strip())


async def test_where_no_file_is_taken_a_long_answer_is_cut(house: House) -> None:
    tells(house, ["x" * 250 + "\n\n"] * 50)
    house.may.set()
    async with house.gateway():
        await house.platform.says("tell me")
        await house.until(lambda: "_(cut here; all of it would take 50 messages)_" in house.platform.texts())
        assert len(house.platform.shown) == 10


async def test_of_a_flood_no_more_is_kept_than_is_shown(house: House) -> None:
    """The rest is not even scanned: many chats share the loop."""
    tells(house, [])
    house.may.set()
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts())
        [info] = await house.store.sessions.list(1)
        line.replies.begin(info.id, Chat("direct"))
        line.replies.watch(info.id, TurnStarted(7))
        for _ in range(200):
            line.replies.watch(info.id, TextDelta("x" * 5_000 + "\n"))
        assert len(line.replies._running[info.id].text) < 100 * MOST


@pytest.mark.parametrize(
    "traits", [TRAITS, Traits(max_chars=4_000, edit_seconds=0.0, idempotent=True, per_second=10_000, max_edits=10_000)]
)
@pytest.mark.parametrize("secret", [SECRET, KEY])
async def test_no_piece_of_a_secret_is_shown(house: House, monkeypatch: pytest.MonkeyPatch, secret: str, traits: Traits) -> None:
    """A secret is hidden while it streams, and if a message ends inside of it."""
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    text = f"{'words ' * 43}it is {secret} and {'more ' * 30}"
    tells(house, list(text), traits)
    async with house.gateway():
        await house.platform.says("tell me")
        await house.until(lambda: any("more more" in form for form in forms(house)))
        house.may.set()
        await house.until(lambda: any("[redacted: " in form for form in forms(house)))
        await house.until(lambda: sum(text.count("more") for text in house.platform.texts()) == 30)
        assert not any(secret[:8] in form for form in forms(house))


async def test_a_server_s_error_is_told_without_keys(house: House) -> None:
    class Failing(ScriptedSession):
        async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
            raise ProviderError(f"500: upstream failed with {KEY}")

    house.prepare = lambda session: session.link.use(Failing())  # type: ignore[method-assign]  # a model that fails
    async with house.gateway():
        await house.platform.says("hello", user="ann")
        assert await house.texts(1) == ["⚠ 500: upstream failed with [redacted: key]"]


async def stopped(house: House, line: ChatLine, many: int) -> None:
    """Send ``/stop`` once that many messages were shown, while each of them takes time."""
    await house.until(lambda: len(house.platform.shown) >= many)
    await house.platform.says("/stop")
    await house.until(lambda: any("topped" in text or "(interrupted)" in text for text in house.platform.texts()))
    await house.until(lambda: line.outbox.waiting == 0)


async def test_stop_ends_what_is_still_to_be_shown(house: House) -> None:
    tells(house, ["x" * 250 + "\n\n"] * 8, Traits(max_chars=MOST, idempotent=True, per_second=10_000, max_edits=10_000))
    house.may.set()
    house.platform.seconds = 0.2
    async with house.gateway() as gateway:
        await house.platform.says("tell me")
        await stopped(house, line_of(gateway), 2)
        texts = house.platform.texts()
        assert texts[-1] == "Stopped. The rest of the answer is not shown."
        assert len(texts) < 6


async def test_stop_during_an_answer_shows_no_more_of_it(house: House) -> None:
    tells(house, ["x" * 250 + "\n\n"] * 8)
    house.platform.seconds = 0.2
    async with house.gateway() as gateway:
        await house.platform.says("tell me")
        await stopped(house, line_of(gateway), 2)
        assert "(interrupted)" in house.platform.texts()[-1]
        assert len(house.platform.texts()) < 6


async def test_in_a_group_the_owner_alone_ends_what_is_to_be_shown(house: House) -> None:
    house.configure(OWNED.replace("allow_local: true", "allow_local: true\n    groups: all"))
    group = Chat("room", is_group=True)
    tells(house, ["x" * 250 + "\n\n"] * 8, Traits(max_chars=MOST, idempotent=True, per_second=10_000, max_edits=10_000))
    house.may.set()
    house.platform.seconds = 0.1
    async with house.gateway():
        await house.platform.says("tell me", user="ann", chat=group)
        await house.until(lambda: house.platform.shown)
        await house.platform.says("/stop", user="bob", chat=group)
        await house.until(lambda: "Nothing is running here." in house.platform.texts(group))
        assert len(house.platform.shown) == 9
