"""Questions reach their approvers, can be answered as soon as they are visible, and get reminders in their chats."""

from __future__ import annotations

import asyncio
import time

import pytest

from agent.conversation.hosting import remind
from agent.events import TicketReminder
from agent.gateway import questions as module
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import StoreFailed, SuspendTicket, ToolCall
from toolcrib.chat import Chat, NotSent, Press, Traits
from toolcrib.contract.store import TicketRecord
from toolcrib.contract.types import Json
from toolcrib.testing import FakePlatform, Shown

GROUP = Chat("room", is_group=True, title="The\nroom")
DIRECT = Chat("direct")


async def ask(house: House, user: str = "bob", chat: Chat = GROUP) -> TicketRecord:
    """Send a command that needs approval as a user, and return its ticket."""
    (house.folder / "build").mkdir(exist_ok=True)
    await house.platform.says(f"rm -rf {house.folder}/build", user=user, chat=chat, is_addressed=True)
    await house.until(lambda: questions(house, chat))
    return (await house.store.tickets.pending())[-1]


def questions(house: House, chat: Chat) -> list[Shown]:
    return [one for one in house.platform.shown if one.out.chat.key == chat.key and one.out.buttons]


async def greeted(house: House, *users: str) -> None:
    """Write to the bot in direct chats of these users, so that it knows the chats."""
    for user in users:
        chat = DIRECT if user == "ann" else Chat(f"{user}s")
        await house.platform.says("hello", user=user, chat=chat)
        await house.until(lambda chat=chat: "re hello" in house.platform.texts(chat))  # type: ignore[misc]  # bound


# -- a press that comes before the question's id is known ----------------------------------------------------------------


async def test_a_press_before_the_question_s_id_is_known_is_offered_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """003-25"""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.001)
    house.platform.failing = [NotSent("no word came back", perhaps_sent=True, retry_after=60.0)]
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await ask(house, "ann", DIRECT)
        [question] = questions(house, DIRECT)
        for _ in range(module._PUT_OFF):
            with pytest.raises(StoreFailed, match="still being sent"):
                await house.platform.presses(question, "y", press_id="one")
        assert "press again" in await house.platform.presses(question, "y", press_id="one")  # others are not delayed
        assert (house.folder / "build").is_dir()
        [post] = await house.store.mail.questions("fake")
        await house.store.mail.moved(post.id, "shown", shown_as=question.id)
        assert await house.platform.presses(question, "y", press_id="one") == ""
        await house.until(lambda: not (house.folder / "build").exists())
        assert line.questions.open == 0


async def test_an_answer_that_is_as_quick_as_the_question_is_shown_counts(house: House) -> None:
    """003-25: the user reads the question before the platform confirms that it is shown."""
    house.platform.failing = [NotSent("no word came back", perhaps_sent=True, retry_after=0.2)]
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house, "ann", DIRECT)
        await house.platform.says("1", user="ann", chat=DIRECT)
        await house.until(lambda: not (house.folder / "build").exists())


async def test_a_press_looks_again_for_the_question_s_id(house: House) -> None:
    house.platform.failing = [NotSent("no word came back", perhaps_sent=True, retry_after=0.2)]
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house, "ann", DIRECT)
        [question] = questions(house, DIRECT)
        assert await house.platform.presses(question, "y") == ""
        await house.until(lambda: not (house.folder / "build").exists())


async def test_a_button_s_key_finds_a_question_of_its_chat_and_overrules_no_message(house: House) -> None:
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        mine = await ask(house, "ann", DIRECT)
        [shown] = questions(house, DIRECT)
        theirs = await ask(house)
        for where, key in ((DIRECT, "run:x"), (DIRECT, f"ticket:{'0' * 32}"), (GROUP, f"ticket:{mine.ticket.id}")):
            assert "no such question" in await door.press(Press(where, "ann", "m404", "n", f"p{key}{where.id}", key=key))
        assert len(await house.store.tickets.pending()) == 2
        await door.press(Press(DIRECT, "ann", shown.id, "n", "p1", key=f"ticket:{theirs.ticket.id}"))
        assert [one.ticket.id for one in await house.store.tickets.pending()] == [theirs.ticket.id]
        assert await door.press(Press(GROUP, "ann", "m404", "n", "p2", key=f"ticket:{theirs.ticket.id}")) == ""
        assert await house.store.tickets.pending() == []


async def test_a_press_on_nothing_is_told_so_while_a_question_is_unseen(house: House) -> None:
    house.platform.failing = [NotSent("flooded", retry_after=60.0)]
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: line.questions.open)
        assert house.platform.shown == []
        assert "no such question" in await line.door.press(Press(DIRECT, "ann", "m1", "y", "p1"))


async def test_an_answer_in_words_looks_again_too(house: House) -> None:
    house.platform.failing = [NotSent("no word came back", perhaps_sent=True, retry_after=0.2)]
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house, "ann", DIRECT)
        await house.platform.says("1", reply_to=questions(house, DIRECT)[0].id)
        await house.until(lambda: not (house.folder / "build").exists())
    assert "1" not in house.asked


async def test_a_button_of_a_tool_s_question_is_one_of_its_choices(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await greeted(house, "bob")
        [info] = await house.store.sessions.list(10)
        parameters: Json = {"choices": ["red", "green"]}
        ticket = SuspendTicket("ask", "Which?", resume_mode="pass_to_tool", parameters=parameters, call=ToolCall("c1", "ask", {}))
        await house.store.tickets.put(TicketRecord(ticket, info.id))
        await line.questions.show(Chat("bobs"), ticket.id)
        await house.until(lambda: questions(house, Chat("bobs")))
        [question] = questions(house, Chat("bobs"))
        for choice in ("c2", "c-1", "c", "c\u00b2", "c\u0661", "c 1", "c1.0", "c" + "0" * 60 + "1", "y"):
            assert "no such question" in await house.platform.presses(question, choice, user="bob")
        assert "may not decide" in await house.platform.presses(question, "c1", user="carl")
        assert await house.platform.presses(question, "c1", user="bob") == ""
        settled = await house.store.tickets.get(ticket.id)
        assert settled is not None
        assert settled.answer is not None
        assert settled.answer.payload == "green"


# -- copies for approvers ------------------------------------------------------------------------------------------------


async def test_a_question_is_copied_to_who_may_settle_it(house: House) -> None:
    """003-25"""
    async with house.gateway() as gateway:
        line_of(gateway)
        await greeted(house, "ann", "carl")
        await ask(house)
        await house.until(lambda: questions(house, DIRECT))
        [there], [copy] = questions(house, GROUP), questions(house, DIRECT)
        assert questions(house, Chat("carls")) == []
        assert 'asked by bob in the chat room "The room"' in copy.out.text
        assert f"rm -rf {house.folder}/build" in copy.out.text
        assert "owner" in await house.platform.presses(copy, "y", user="carl")  # a user without the right presses a button of it
        assert (house.folder / "build").is_dir()
        assert await house.platform.presses(copy, "y") == ""
        await house.until(lambda: house.platform.texts(GROUP)[-1] == "ran it")
        await house.until(lambda: all("approved by ann" in one.out.text and not one.out.buttons for one in (there, copy)))
        assert 'asked by bob in the chat room "The room"' in copy.out.text
        assert "already decided" in await house.platform.presses(there, "n")


async def test_a_copy_is_answered_by_words_and_command(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await greeted(house, "ann")
        record = await ask(house)
        await house.until(lambda: questions(house, DIRECT))
        await house.platform.says("/approvals")
        await house.until(lambda: record.ticket.id[:8] in house.platform.texts()[-1])
        await house.platform.says(f"/deny {record.ticket.id[:8]} not\ntoday")
        await house.until(lambda: any(text.endswith("not today") for text in house.platform.texts(GROUP)))
        assert (house.folder / "build").is_dir()


async def test_who_asked_and_may_decide_is_asked_alone(house: House) -> None:
    house.configure(OWNED.replace("[ann]", "[ann, dora]"))
    async with house.gateway() as gateway:
        line_of(gateway)
        await greeted(house, "dora")
        await ask(house, "ann", GROUP)
        await asyncio.sleep(0.1)
        assert questions(house, Chat("doras")) == []


async def test_copies_go_to_few_and_to_nobody_who_was_let_out(house: House) -> None:
    people = [f"o{number}" for number in range(8)]
    house.configure(OWNED.replace("[ann]", str(people)))
    async with house.gateway() as gateway:
        line_of(gateway)
        await greeted(house, *people)
    house.configure(OWNED.replace("[ann]", str(people[:7])))
    async with house.gateway() as gateway:
        line_of(gateway)
        await ask(house)
        copies = [Chat(f"{user}s") for user in people]
        await house.until(lambda: sum(bool(questions(house, chat)) for chat in copies) == 5)
        await asyncio.sleep(0.1)
        assert sum(bool(questions(house, chat)) for chat in copies) == 5
        assert questions(house, Chat("o7s")) == []


async def test_whoever_asks_for_much_buries_nobody_s_chat(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COPIES", 2)
    async with house.gateway() as gateway:
        line_of(gateway)
        await greeted(house, "ann")
        for number in range(4):
            (house.folder / f"b{number}").mkdir()
            chat = Chat(f"room{number}", is_group=True)
            await house.platform.says(f"rm -rf {house.folder}/b{number}", user="bob", chat=chat, is_addressed=True)
            await house.until(lambda chat=chat: questions(house, chat))  # type: ignore[misc]  # bound
            await asyncio.sleep(0.05)
        assert len(questions(house, DIRECT)) == 2
        await house.platform.presses(questions(house, DIRECT)[0], "n")
        await house.until(lambda: len(questions(house, DIRECT)) == 1)
        await ask(house, "bob", GROUP)
        await house.until(lambda: len(questions(house, DIRECT)) == 2)


async def test_copies_outlive_the_gateway_and_are_not_doubled(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await greeted(house, "ann")
        await ask(house)
        await house.until(lambda: questions(house, DIRECT))
    async with house.gateway() as gateway:
        line_of(gateway)
        await asyncio.sleep(0.1)
        [copy], [there] = questions(house, DIRECT), questions(house, GROUP)
        assert await house.platform.presses(copy, "n") == ""
        await house.until(lambda: "denied by ann" in there.out.text and "denied by ann" in copy.out.text)


# -- reminders -----------------------------------------------------------------------------------------------------------


async def test_a_reminder_is_a_reply_to_the_question_wherever_it_is_shown(house: House) -> None:
    house.configure(OWNED + "approval: {reminders: 1000}\n")
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await greeted(house, "ann")
        record = await ask(house)
        await house.until(lambda: questions(house, DIRECT))
        assert record.remind_at is not None
        for many in (1, 2):
            for _ in range(2):  # two events make one reminder
                line.replies.watch(record.session_id, TicketReminder(record.ticket.id, record.session_id, "?", None))
            await house.until(lambda many=many: len(reminders(house, GROUP)) == len(reminders(house, DIRECT)) == many)  # type: ignore[misc]  # bound
            await asyncio.sleep(0.1)
            for chat in (GROUP, DIRECT):
                [question] = questions(house, chat)
                assert [one.out.reply_to for one in reminders(house, chat)] == [question.id] * many
            await house.store.tickets.reminded(record.ticket.id, record.remind_at, record.remind_at + 1)


def reminders(house: House, chat: Chat) -> list[Shown]:
    return [one for one in house.platform.shown if one.out.chat.key == chat.key and "still waits" in one.out.text]


async def test_one_platform_s_reminder_is_not_taken_by_another(house: House) -> None:
    """Two lines watch one store: whichever is first, the chat with the question gets the reminder."""
    house.configure(OWNED + "approval: {reminders: 0.5}\n")
    async with house.gateway() as gateway:
        line = line_of(gateway)
        record = await ask(house, "ann", DIRECT)
        assert record.remind_at is not None
        await asyncio.sleep(max(0.0, record.remind_at - time.time()) + 0.05)
        told: list[TicketReminder] = []
        await remind(house.store, "another", told.append)
        assert told == []
        await remind(house.store, "fake", lambda one: line.replies.watch(one.session_id, one))
        await house.until(lambda: any("still waits" in text for text in house.platform.texts()))


async def _asked_alone(house: House) -> Shown:
    (house.folder / "build").mkdir()
    await house.platform.says(f"rm -rf {house.folder}/build")
    await house.until(lambda: questions(house, DIRECT))
    return questions(house, DIRECT)[0]


@pytest.mark.parametrize("word", ["yes", "1", "2", "/approve", "/approve once"])
async def test_where_a_message_is_no_proof_of_its_writer_it_approves_nothing(house: House, word: str) -> None:
    """003-25"""
    house.platform = FakePlatform(traits=Traits(edit_seconds=0.0, buttons=True, per_second=10_000, written_approvals=False))
    async with house.gateway():
        question = await _asked_alone(house)
        assert "A message cannot approve this" in question.out.text
        for reply_to in (question.id, ""):
            await house.platform.says(word, reply_to=reply_to)
        await house.until(lambda: sum(text.startswith("A message cannot approve this.") for text in house.platform.texts()) == 2)
        assert (house.folder / "build").is_dir()
        assert await house.platform.presses(question, "y") == ""
        await house.until(lambda: not (house.folder / "build").exists())


async def test_where_a_message_approves_nothing_it_refuses_all_the_same(house: House) -> None:
    """003-25"""
    house.platform = FakePlatform(traits=Traits(edit_seconds=0.0, per_second=10_000, written_approvals=False))
    async with house.gateway():
        question = await _asked_alone(house)
        assert "toolcrib approvals" in question.out.text
        await house.platform.says("what?", reply_to=question.id)
        await house.until(lambda: any("Answer with 3" in text for text in house.platform.texts()))
        await house.platform.says("no", reply_to=question.id)
        await house.until(lambda: any("denied by" in text for text in house.platform.texts()))
        assert (house.folder / "build").is_dir()
