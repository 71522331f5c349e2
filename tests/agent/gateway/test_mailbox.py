"""No message is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from agent.conversation.manager import SessionManager
from agent.gateway import mailbox as module
from tests.agent.gateway.conftest import OWNED, House, Parrot, line_of
from toolcrib import ProviderTurn, StoreFailed
from toolcrib.chat import Attachment, Chat
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import OnEvent
from toolcrib.testing import ScriptedSession

GROUP = Chat("room", is_group=True)


async def test_the_same_message_counts_once(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        for _ in range(3):
            await house.platform.says("hello", message_id="same")
        await house.until(lambda: house.platform.texts() == ["re hello"])
        assert line.door.counts == {"kept": 1, "known": 2, "refused": 0}
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("/new")
        await house.platform.says("hello", message_id="same")
        assert line.door.counts["known"] == 1
    assert house.asked == ["hello"]


async def test_messages_of_a_chat_are_answered_in_order(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        for number in range(6):
            await house.platform.says(f"n{number}")
        await house.until(lambda: len(house.platform.texts()) == 6)
        assert house.platform.texts() == [f"re n{number}" for number in range(6)]


async def test_what_came_before_the_end_is_answered_after_the_start(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        line.mailbox._closing = True  # as if the process died before it read the mail
        await house.platform.says("hello")
    assert house.asked == []
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: house.platform.texts() == ["re hello"])


async def test_an_edited_message_changes_nothing(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        first = await house.platform.says("hello")
        await house.platform.says("rm -rf /", edits=first)
        await house.until(lambda: house.platform.texts() == ["re hello"])
    assert house.asked == ["hello"]


async def test_another_speaker_s_message_waits_and_never_steers(house: House) -> None:
    house.configure(OWNED + "    busy: interrupt\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait", user="bob", chat=GROUP, is_addressed=True)
        await house.until(lambda: house.asked)
        await house.platform.says("me too", user="carl", chat=GROUP, is_addressed=True)
        await asyncio.sleep(0.2)
        assert house.platform.texts(GROUP) == []
        house.may.set()
        await house.until(lambda: len(house.platform.texts(GROUP)) == 2)
        assert house.platform.texts(GROUP) == ["re bob: wait", "re carl: me too"]


async def test_a_store_that_fails_takes_nothing_and_keeps_what_it_has(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.02)
    async with house.gateway() as gateway:
        line_of(gateway)

        async def full(*args: Any) -> None:
            raise StoreFailed("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(house.store.mail, "arrived", full)
            with pytest.raises(StoreFailed):
                await house.platform.says("lost", message_id="1")
        failures = [StoreFailed("full")] * 2
        done = house.store.mail.done

        async def sometimes(ids: Any) -> None:
            if failures:
                raise failures.pop()
            await done(ids)

        monkeypatch.setattr(house.store.mail, "done", sometimes)
        await house.platform.says("hello", message_id="1")
        await house.until(lambda: not failures and house.platform.texts() == ["re hello"])
    assert house.asked == ["hello"]


@pytest.mark.parametrize(
    "fault", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread"), MemoryError()], ids=repr
)
async def test_a_fault_that_passes_refuses_no_message(house: House, monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.02)
    faults = [fault] * 4
    arrived = house.store.mail.arrived

    def failing_or(work: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            if faults:
                raise faults.pop()
            return work(*args, **more)

        return call

    monkeypatch.setattr(house.store.mail, "arrived", failing_or(arrived))
    async with house.gateway() as gateway:
        line_of(gateway)
        for _ in range(2):
            with pytest.raises(StoreFailed, match="short of file descriptors, memory or threads"):
                await house.platform.says("hello", message_id="1")
        monkeypatch.setattr(house.store.mail, "arrived", arrived)
        monkeypatch.setattr(SessionManager, "say_in", failing_or(SessionManager.say_in))
        await house.platform.says("hello", message_id="1")
        await house.until(lambda: not faults and house.platform.texts() == ["re hello"])
    assert house.asked == ["hello"]


async def test_files_come_to_the_chat_s_place_and_bad_ones_are_told(house: House) -> None:
    house.platform.files = {"a": b"some text", "big": b"x" * (21 * 1024 * 1024)}
    files = [
        Attachment("../../etc/../notes.txt", "text/plain", None, {"id": "a"}),
        Attachment("big.bin", "application/octet-stream", 3, {"id": "big"}),
        Attachment("gone.txt", "text/plain", None, {"id": "gone"}),
        Attachment("not.png", "image/png", None, {"id": "a"}),
    ]
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("look", attachments=files)
        await house.until(lambda: len(house.platform.texts()) == 2)
    told = "\n".join(house.platform.texts())
    assert "not accepted: big.bin: it is larger than 20 MiB" in told
    assert "not accepted: gone.txt: it could not be downloaded" in told
    assert "not accepted: not.png" in told
    [read] = house.asked
    path = read.partition("[the file ")[2].partition(" came")[0]
    assert path.endswith("-0-notes.txt")
    assert "/received/" in path


async def test_others_than_the_owner_get_no_place_unless_it_is_safe(house: House) -> None:
    """003-12"""
    house.configure(OWNED.replace("    allow_local: true\n", ""))
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("hello", user="bob", chat=Chat("bobs"))
        await house.platform.says("hello", user="ann")
        await house.until(lambda: len(house.platform.shown) == 2)
        names = {info.user: (await line.manager.opened(info.id)).names for info in await house.store.sessions.list(10)}
        assert {"terminal", "read_file", "write_file"}.isdisjoint(names["bob"])
        assert {"terminal", "read_file", "write_file"} <= set(names["ann"])


async def test_too_many_messages_are_told_once(house: House) -> None:
    house.configure(OWNED + "    messages_per_hour: 2\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        chat = Chat("bobs")
        for number in range(5):
            await house.platform.says(f"n{number}", user="bob", chat=chat)
        await house.until(lambda: len(house.platform.texts(chat)) == 3)
        assert len([text for text in house.platform.texts(chat) if "2 messages within an hour" in text]) == 1
    assert house.asked == ["n0", "n1"]


async def test_a_new_session_begins_with_what_the_earlier_ones_left_of_the_day(house: House) -> None:
    class Costly(Parrot):
        async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
            return replace(await super().stream_turn(on_event), usage={"input": 40, "output": 10})

    house.prepare = lambda session: session.link.use(Costly(house))  # type: ignore[method-assign]  # a model that reports usage
    house.configure(OWNED + "    tokens_per_day: 80\n    busy: steer\n")
    bobs, room = Chat("bobs"), Chat("room", is_group=True)
    async with house.gateway() as gateway:
        line_of(gateway)
        for number, text in enumerate(("one", "two", "/new", "three"), 1):
            await house.platform.says(text, user="bob", chat=bobs)
            assert len(await house.texts(number, chat=bobs)) == number
        assert house.platform.texts(bobs)[-1] == "You have used up the daily quota of 80 tokens."
        for number, text in enumerate(("four", "five", "six"), 1):
            await house.platform.says(text, user="bob" if number < 3 else "carl", chat=room, is_addressed=True)
            assert len(await house.texts(number, chat=room)) == number
        assert house.platform.texts(room)[-1] == "This group has used up the daily quota of 80 tokens."
        await house.platform.says("seven", user="ann")
        await house.until(lambda: house.platform.texts() == ["re seven"])
    assert house.asked == ["one", "two", "bob: four", "bob: five", "seven"]


async def test_what_was_said_at_once_keeps_within_the_day_too(house: House) -> None:
    class Costly(Parrot):
        async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
            return replace(await super().stream_turn(on_event), usage={"input": 40, "output": 10})

    house.prepare = lambda session: session.link.use(house.parrots.setdefault(session.id, Costly(house)))  # type: ignore[method-assign]  # a model that reports usage
    house.configure(OWNED + "    tokens_per_day: 80\n")
    bobs = Chat("bobs")
    async with house.gateway() as gateway:
        line_of(gateway)
        for number in range(6):
            await house.platform.says(f"wait {number}", user="bob", chat=bobs)
        await house.until(lambda: house.asked)
        house.may.set()
        told = ["⚠ You have used up the daily quota of 80 tokens."] * 4
        await house.until(lambda: house.platform.texts(bobs) == ["re wait 0", "re wait 1", *told])
    assert house.asked == ["wait 0", "wait 1"]


async def test_one_users_runs_at_once_are_bounded_over_their_chats(house: House) -> None:
    house.configure(OWNED + "    runs_at_once: 2\n")
    chats = [Chat("bobs", thread=str(number)) for number in range(4)]
    async with house.gateway() as gateway:
        line_of(gateway)
        for chat in chats:
            await house.platform.says("wait", user="bob", chat=chat)
        await house.until(lambda: len(house.platform.shown) == 2)
        assert ["You have 2 runs in other chats" in one.out.text for one in house.platform.shown] == [True, True]
        await house.platform.says("wait", user="carl", chat=Chat("carls"))
        await house.until(lambda: len(house.asked) == 3)
        house.may.set()
        await house.until(lambda: len(house.platform.shown) == 5)
        await house.platform.says("hello", user="bob", chat=chats[3])
        await house.until(lambda: house.platform.texts(chats[3])[-1] == "re hello")
    assert house.asked == ["wait", "wait", "wait", "hello"]


async def test_one_group_and_one_user_are_narrowed_apart(house: House) -> None:
    """003-12: restrictions by platform, chat and user."""
    narrowed = "users:\n  'fake:room:room': {disabled_tools: [todo]}\n  'fake:carl': {disabled_tools: [clarify]}\n"
    house.configure(narrowed + OWNED)
    async with house.gateway() as gateway:
        line = line_of(gateway)
        for user, chat in (("bob", GROUP), ("bob", Chat("bobs")), ("carl", Chat("carls"))):
            await house.platform.says("hello", user=user, chat=chat, is_addressed=True)
            await house.until(lambda chat=chat: house.platform.texts(chat))  # type: ignore[misc]  # bound
        names = {info.user: (await line.manager.opened(info.id)).names for info in await house.store.sessions.list(10)}
        has = {user: ("todo" in some, "clarify" in some) for user, some in names.items()}
        assert has == {"room:room": (False, True), "bob": (True, True), "carl": (True, False)}


async def test_who_speaks_in_a_group_uses_no_tool_that_is_not_theirs(house: House) -> None:
    """003-12: the model reads the same tools for every speaker; the gate applies the speaker's rights."""
    house.configure("users: {'fake:carl': {disabled_tools: [todo]}}\n" + OWNED)
    model = ScriptedSession("hello", [("todo", {})], "done", [("todo", {})], "done too")
    house.prepare = lambda session: session.link.use(model)  # type: ignore[method-assign]  # a scripted model
    async with house.gateway() as gateway:
        line_of(gateway)
        for number, user in enumerate(("bob", "carl", "bob"), 1):
            await house.platform.says("go", user=user, chat=GROUP, is_addressed=True)
            await house.until(lambda number=number: len(house.platform.texts(GROUP)) == number)  # type: ignore[misc]  # bound
    [[refused], [done]] = model.results
    assert "not granted" in str(refused.result.to_json())
    assert done.result.data["todos"] == []
