"""Requests of a chat are withdrawn, answered in plain words, and never carried out in a session that the chat has left."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.gateway.pairing import Pairings
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib.chat import Chat, Inbound
from toolcrib.testing import ScriptedSession, Shown

DIRECT, BOBS, GROUP = Chat("direct"), Chat("bobs"), Chat("room", is_group=True)


def questions(house: House, chat: Chat) -> list[Shown]:
    return [one for one in house.platform.shown if one.out.chat.key == chat.key and one.out.buttons]


async def ask(house: House, user: str, chat: Chat, folder: Path | None = None) -> None:
    folder = folder or house.folder
    (folder / "build").mkdir(exist_ok=True)
    await house.platform.says(f"rm -rf {folder}/build", user=user, chat=chat, is_addressed=True)
    await house.until(lambda: questions(house, chat))


@pytest.mark.parametrize(("word", "does_it"), [("1", True), ("yes", True), ("No.", False), ("3", False)])
async def test_the_one_question_of_a_direct_chat_is_answered_without_a_reply(house: House, word: str, does_it: bool) -> None:
    """003-25: the question lists the words that answer it."""
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house, "ann", DIRECT)
        await house.platform.says(word)
        await house.until(lambda: house.platform.texts()[-1:] == ["ran it"])
    assert (house.folder / "build").exists() != does_it
    assert word not in house.asked


async def test_other_words_stay_behind_it_and_that_is_said_once(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house, "ann", DIRECT)
        await house.platform.says("and the rest?")
        await house.platform.says("hello?")
        await house.until(lambda: any("waits until the question above" in text for text in house.platform.texts()))
        assert await house.platform.presses(questions(house, DIRECT)[0], "n") == ""
        await house.until(lambda: "re hello?" in house.platform.texts())
        assert len([text for text in house.platform.texts() if "waits until" in text]) == 1


async def test_a_yes_in_a_group_or_to_a_copy_answers_nothing(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts() == ["re hello"])
        await ask(house, "bob", GROUP)
        await house.until(lambda: questions(house, DIRECT))  # the owner's copy
        await house.platform.says("yes")
        await house.until(lambda: house.platform.texts()[-1] == "re yes")
        await house.platform.says("yes", chat=GROUP, is_addressed=True)
        await house.until(lambda: any("waits until" in text for text in house.platform.texts(GROUP)))
        assert len(await house.store.tickets.pending()) == 1
    assert (house.folder / "build").exists()


@pytest.mark.parametrize(
    ("choices", "word", "answer"),
    [
        (["red", "blue"], "2", "blue"),
        (["a", "no"], "no", "no"),
        (["red", "blue"], "red", "red"),
        ([], "the old one", "the old one"),
    ],
)
async def test_a_tool_s_question_is_answered_in_plain_words(house: House, choices: list[str], word: str, answer: str) -> None:
    model = ScriptedSession([("clarify", {"question": "Which one?", "choices": choices})], "thanks")
    house.prepare = lambda session: session.link.use(model)  # type: ignore[method-assign]  # a model that asks
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("go", user="bob", chat=BOBS)
        await house.until(lambda: any("Which one?" in text for text in house.platform.texts(BOBS)))
        if choices:
            await house.platform.says("green", user="bob", chat=BOBS)
            await house.until(lambda: any("waits until" in text for text in house.platform.texts(BOBS)))
            model._turns.append("green it was")
        await house.platform.says(word, user="bob", chat=BOBS)
        await house.until(lambda: "thanks" in house.platform.texts(BOBS))
        assert any(text.endswith(f"✓ answered by fake:bob: {answer}") for text in house.platform.texts(BOBS))
    [info] = await house.store.sessions.list(10)
    [results] = [one for one in await house.store.sessions.messages(info.id) if one["role"] == "results"]
    assert answer in results["results"][0]["text"]


async def test_who_asked_may_take_it_back_and_nobody_else(house: House) -> None:
    for words, user, chat in (("/stop", "bob", BOBS), ("/deny because", "bob", GROUP), ("/new", "bob", Chat("bobs", "2"))):
        async with house.gateway() as gateway:
            line_of(gateway)
            await ask(house, user, chat)
            await house.platform.says("/stop", user="carl", chat=GROUP)
            await house.platform.says(words, user=user, chat=chat)
            await house.until(lambda chat=chat: not questions(house, chat))  # type: ignore[misc]  # bound
            assert await house.store.tickets.pending() == []
            await house.platform.says("hello", user=user, chat=chat, is_addressed=True)
            await house.until(lambda chat=chat: any("hello" in text for text in house.platform.texts(chat)))  # type: ignore[misc]  # bound
        house.ran.clear()
    assert (house.folder / "build").exists()


@pytest.mark.parametrize("word", ["/new", "/stop"])
async def test_what_was_granted_for_a_session_ends_with_it(house: House, word: str) -> None:
    async with house.gateway() as gateway:
        await ask(house, "ann", DIRECT, line_of(gateway).rooms.requests.folder(DIRECT))
        await house.platform.presses(questions(house, DIRECT)[0], "s")
        await house.until(lambda: house.platform.texts()[-1:] == ["ran it"])
        [granted] = await house.store.grants.all()
        assert granted.scope == "session"
        await house.platform.says(word)
        await house.until(lambda: house.platform.texts()[-1] != "ran it")
        assert len(await house.store.grants.all()) == (word == "/stop")


async def test_a_session_that_was_left_is_granted_nothing(house: House) -> None:
    async with house.gateway() as gateway:
        await ask(house, "bob", BOBS, line_of(gateway).rooms.requests.folder(BOBS))
        [question] = questions(house, BOBS)
        await house.platform.says("hello", user="ann", chat=BOBS)  # ann's session begins
        await house.until(lambda: "re hello" in house.platform.texts(BOBS))
        assert await house.platform.presses(question, "s") == "This was already decided."
        assert await house.store.grants.all() == []
        assert question.out.text.endswith("✗ withdrawn")


async def test_a_chat_of_one_person_begins_anew_for_another(house: House) -> None:
    """003-12: each speaker has their own tools, even if a service uses one chat for two users."""
    house.configure(OWNED.replace("    allow_local: true\n", ""))
    async with house.gateway() as gateway:
        line = line_of(gateway)
        names: list[set[str]] = []
        for number, user in enumerate(("ann", "bob", "ann"), 1):
            await house.platform.says(f"hello {number}", user=user)
            await house.until(lambda number=number: f"re hello {number}" in house.platform.texts())  # type: ignore[misc]  # bound
            record = await house.store.mail.chat("fake", DIRECT.key)
            assert record is not None
            names.append(set((await line.manager.opened(record.session_id)).names))
        assert ["terminal" in one for one in names] == [True, False, True]
        assert len(await house.store.sessions.list(10)) == 3


async def test_who_is_the_owner_no_longer_has_no_longer_their_tools(house: House) -> None:
    house.configure("platforms:\n  fake: {}\n")
    pairings = Pairings(house.store, "fake")
    async with house.gateway() as gateway:
        line = line_of(gateway)
        has: list[bool] = []
        for role in ("owner", ""):
            await pairings.remove("dora")
            said = Inbound(DIRECT, "dora", f"code{role}", await pairings.offer(role))
            assert await line.door.receive(said) == "kept"
            await house.platform.says(f"hello {role}!", user="dora")
            await house.until(lambda role=role: f"re hello {role}!" in house.platform.texts())  # type: ignore[misc]  # bound
            record = await house.store.mail.chat("fake", DIRECT.key)
            assert record is not None
            has.append("terminal" in (await line.manager.opened(record.session_id)).names)
        assert has == [True, False]


async def test_a_code_is_taken_from_whoever_says_it_and_reaches_no_model(house: House) -> None:
    pairings = Pairings(house.store, "fake")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(await pairings.offer("admins"), user="bob", chat=BOBS)  # bob may speak already
        assert [(one.user, one.role) for one in await pairings.people()] == [("bob", "admins")]
        code = await pairings.offer("owner")
        await house.platform.says(code, user="bob", chat=GROUP, is_addressed=True)
        assert not await pairings.is_open()
        await house.platform.says(code, user="carl", chat=Chat("carls"))
        assert [one.role for one in await pairings.people()] == ["admins"]
        await house.until(lambda: house.asked == [code])  # a void code is ordinary text


@pytest.mark.parametrize("user", ["role:owner", "room:room", "*"])
async def test_an_id_that_is_nobodys_uses_up_no_code(house: House, user: str) -> None:
    pairings = Pairings(house.store, "fake")
    async with house.gateway() as gateway:
        line_of(gateway)
        code = await pairings.offer("admins")
        await house.platform.says(code, user=user, chat=Chat("nobodys"))
        assert await pairings.people() == []
        await house.platform.says(code, user="dora", chat=Chat("doras"))
        assert [one.user for one in await pairings.people()] == ["dora"]


async def test_a_new_session_in_a_group_answers_what_others_said(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait", user="carl", chat=GROUP, is_addressed=True)
        await house.until(lambda: house.asked)
        for user, words in (("bob", "hello"), ("carl", "never mind"), ("carl", "/new")):
            await house.platform.says(words, user=user, chat=GROUP, is_addressed=True)
        await house.until(lambda: any("hello" in text for text in house.platform.texts(GROUP)))
        house.may.set()
        await house.platform.says("and now?", user="carl", chat=GROUP, is_addressed=True)
        await house.until(lambda: any("and now?" in text for text in house.platform.texts(GROUP)))
    assert not any("never mind" in one for one in house.asked)
    assert [one.user for one in await house.store.sessions.list(10)] == ["room:room"] * 2
