"""Limits of one user's messages: requests are limited; messages that stop or deny are not."""

from __future__ import annotations

import pytest

from agent.gateway import limits
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib.chat import Chat, Inbound
from toolcrib.testing import Shown

BOBS, ROOM = Chat("bobs"), Chat("room", is_group=True)


@pytest.fixture
def bounded(house: House) -> House:
    house.configure(OWNED + "    messages_per_hour: 1\n")
    return house


def question(house: House, chat: Chat = BOBS) -> Shown | None:
    return next((one for one in house.platform.shown if one.out.chat.key == chat.key and one.out.buttons), None)


async def ask(house: House, chat: Chat = BOBS) -> Shown:
    """Spend the one message that bob may send on a command that needs approval; return the question."""
    (house.folder / "build").mkdir(exist_ok=True)
    await house.platform.says(f"rm -rf {house.folder}/build", user="bob", chat=chat, is_addressed=True)
    await house.until(lambda: question(house, chat))
    found = question(house, chat)
    assert found is not None
    return found


@pytest.mark.parametrize("words", ["/stop", "/new", "/reset", "/deny", "/deny@bot not today", "no", "3", "No."])
async def test_what_ends_or_refuses_is_taken_however_much_was_asked(bounded: House, words: str) -> None:
    async with bounded.gateway() as gateway:
        line_of(gateway)
        await ask(bounded)
        await bounded.platform.says("and this?", user="bob", chat=BOBS)
        await bounded.until(lambda: any("which is the limit" in text for text in bounded.platform.texts(BOBS)))
        await bounded.platform.says(words, user="bob", chat=BOBS)
        await bounded.until(lambda: question(bounded) is None)
        assert await bounded.store.tickets.pending() == []
    assert (bounded.folder / "build").is_dir()
    assert "and this?" not in bounded.asked


async def test_a_button_and_a_reply_are_taken_too(bounded: House) -> None:
    async with bounded.gateway() as gateway:
        door = line_of(gateway).door
        asked = await ask(bounded, ROOM)
        said = Inbound(ROOM, "bob", "1", "no", reply_to=asked.id, is_addressed=True)
        assert await door.receive(Inbound(ROOM, "bob", "0", "no", is_addressed=True)) == "limited"  # it answers no question
        assert await door.receive(said) == "kept"
        await bounded.until(lambda: question(bounded, ROOM) is None)
        bounded.ran.clear()
        line_of(gateway).quotas._sent.clear()
        assert await bounded.platform.presses(await ask(bounded, ROOM), "n", user="bob") == ""
        await bounded.until(lambda: question(bounded, ROOM) is None)
    assert (bounded.folder / "build").is_dir()


async def test_a_run_is_stopped_over_the_limit(bounded: House) -> None:
    async with bounded.gateway() as gateway:
        line_of(gateway)
        await bounded.platform.says("wait", user="bob", chat=BOBS)
        await bounded.until(lambda: bounded.asked)
        await bounded.platform.says("/stop", user="bob", chat=BOBS)
        await bounded.until(lambda: any("interrupted" in text for text in bounded.platform.texts(BOBS)))


async def test_ending_is_bounded_by_itself_and_words_are_none_where_nothing_is_asked(
    bounded: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_ENDS", 2)
    async with bounded.gateway() as gateway:
        door = line_of(gateway).door
        words = ["hello", "/stop", "no", "/stop", "/stop"]
        taken = [await door.receive(Inbound(BOBS, "bob", str(number), text)) for number, text in enumerate(words)]
        assert taken == ["kept", "kept", "limited", "kept", "limited"]
        assert (door.counts["kept"], door.counts["refused"]) == (3, 2)
        await bounded.until(lambda: any("which is the limit" in text for text in bounded.platform.texts(BOBS)))


async def test_who_is_over_the_limit_is_told_also_where_chats_number_messages_alike(bounded: House) -> None:
    """A platform's message ids are unique in one chat only: the same number in another chat is another message."""
    async with bounded.gateway() as gateway:
        line_of(gateway)
        for user in ("bob", "carl"):
            for number in ("1", "2", "3"):
                await bounded.platform.says("hello", user=user, chat=Chat(f"{user}s"), message_id=number)
        for chat in (BOBS, Chat("carls")):
            await bounded.until(lambda chat=chat: any("which is the limit" in text for text in bounded.platform.texts(chat)))  # type: ignore[misc]  # bound
            await bounded.until(lambda chat=chat: "re hello" in bounded.platform.texts(chat))  # type: ignore[misc]  # bound
            assert len(bounded.platform.texts(chat)) == 2


async def test_a_repetition_is_known_and_counts_once(house: House) -> None:
    house.configure(OWNED + "    messages_per_hour: 2\n")
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        said = [Inbound(BOBS, "bob", number, "hello") for number in ("1", "1", "1", "2", "2", "1", "3", "1")]
        assert [await door.receive(one) for one in said] == [
            "kept",
            "known",
            "known",
            "kept",
            "known",
            "known",
            "limited",
            "known",
        ]
        assert await door.receive(Inbound(Chat("bobs", "thread"), "bob", "1", "hello")) == "limited"  # another message
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        assert [await door.receive(one) for one in said[:3]] == ["known"] * 3  # known from an earlier process
        assert await door.receive(Inbound(BOBS, "bob", "4", "hello")) == "kept"
