"""Slash commands of users, and answers in words."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.gateway.forms import inbound_json
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import RunIdentity
from toolcrib.chat import Chat, Inbound
from toolcrib.contract.mail import Mail
from toolcrib.testing import Shown
from tools.environments import register_environment
from tools.environments.local import LocalEnvironment

GROUP, OTHER = Chat("room", is_group=True), Chat("other")


async def asked(house: House, *, chat: Chat | None = None, user: str = "ann", folder: Path | None = None) -> Shown:
    """Send a command that needs approval, and return the question."""
    build = (folder or house.folder) / "build"
    build.mkdir(exist_ok=True)
    before = len(house.platform.shown)
    text = f"rm -rf {build} # {before}"
    if chat is None:
        await house.platform.says(text, user=user)
    else:
        await house.platform.says(text, user=user, chat=chat, is_addressed=True)
    await house.until(lambda: [one for one in house.platform.shown[before:] if one.out.buttons])
    return next(one for one in house.platform.shown[before:] if one.out.buttons)


async def said(house: House, text: str, *, user: str = "ann", chat: Chat | None = None, **more: object) -> str:
    """Send a message, and return the text that is shown next."""
    before = len(house.platform.shown)
    await house.platform.says(text, user=user, **({} if chat is None else {"chat": chat}), **more)
    await house.until(lambda: len(house.platform.shown) > before)
    return house.platform.shown[before].out.text


async def test_commands_are_told_and_unknown_ones_too(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        assert "/approve" in await said(house, "/help")
        assert "/status" not in await said(house, "/help", user="bob")
        assert await said(house, "/frob") == "Unknown command: /frob. /help lists the commands."
        assert await said(house, "/status", user="bob") == "/status needs the role owner."
        assert "fake: 0 open chats" in await said(house, "/status")
        assert await said(house, "/stop") == "Nothing is running here."
        assert await said(house, "/approvals") == "Nothing here waits for an answer."
        assert "no such" not in await said(house, "/tools@some_bot")
    assert house.asked == []


async def test_a_new_session_begins(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        assert await said(house, "one") == "re one"
        assert "new session" in await said(house, "/new")
        assert await said(house, "two") == "re two"
    assert len(await house.store.sessions.list(10)) == 2


async def test_what_runs_is_ended_by_whose_it_is(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait", user="bob", chat=GROUP, is_addressed=True)
        await house.until(lambda: house.asked)
        assert await said(house, "/stop", user="carl", chat=GROUP) == "Another user started that run."
        await house.platform.says("/stop", user="bob", chat=GROUP)
        await house.until(lambda: any("interrupted" in text for text in house.platform.texts(GROUP)))


@pytest.mark.parametrize("before", [0, 1])
async def test_what_has_not_begun_yet_is_stopped_too(house: House, before: int) -> None:
    """/stop comes right after its message, while the session is being opened."""
    async with house.gateway() as gateway:
        line = line_of(gateway)
        for number in range(before):
            await house.platform.says(f"{number}")
            await house.until(lambda number=number: f"re {number}" in house.platform.texts())  # type: ignore[misc]  # bound
        (house.folder / "build").mkdir()
        await house.platform.says(f"wait and rm -rf {house.folder}/build")
        await house.platform.says("/stop")
        await house.until(lambda: any("interrupted" in text for text in house.platform.texts()))
        house.may.set()
        await house.until(lambda: not line.manager.at_work_now)
        assert await said(house, "and now?") == "re and now?"
    assert not [one for one in house.platform.shown if one.out.buttons]


async def test_what_runs_is_stopped_while_the_gateway_drains(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        draining = asyncio.create_task(line.drain(60))
        await asyncio.sleep(0)
        await house.platform.says("/stop")
        await house.until(lambda: any("interrupted" in text for text in house.platform.texts()))
        await asyncio.wait_for(draining, 20)
        await house.platform.says("for the next one")
        await house.platform.says("/stop")
    assert house.asked == ["wait"]
    house.platform.shown.clear()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: any("interrupted" in text or "re for the next" in text for text in house.platform.texts()))


async def test_approve_and_deny_by_words(house: House) -> None:
    """003-25"""
    async with house.gateway() as gateway:
        line_of(gateway)
        question = await asked(house)
        [record] = await house.store.tickets.pending()
        assert record.ticket.id[:8] in await said(house, "/approvals")
        assert await said(house, "/approve", chat=OTHER) == "Nothing here waits for an answer."
        assert "not available" in await said(house, f"/approve {record.ticket.id[:8]} always")
        assert "That scope" in await said(house, "/approve forever")
        await house.platform.says(f"/deny {record.ticket.id[:8]} keep it")
        await house.until(lambda: "denied by" in question.out.text)
        assert question.out.text.endswith("keep it")
        assert (house.folder / "build").is_dir()


async def test_a_word_from_before_a_question_was_shown_approves_nothing(house: House) -> None:
    """The word may answer an earlier message. A denial counts anyway."""
    early = time.time() - 60
    async with house.gateway() as gateway:
        line_of(gateway)
        direct = (await asked(house)).out.chat
        assert "waits until the question above" in await said(house, "Yes.", at=early)
        assert "You wrote that before this question was shown" in await said(house, "/approve", at=early)
    body = inbound_json(Inbound(direct, "ann", "kept", "yes"))
    assert await house.store.mail.arrived(Mail("fake", direct.key, "kept", body, at=early)) is not None  # sent while it drained
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: sum("waits until" in text for text in house.platform.texts()) == 2)
        assert (house.folder / "build").is_dir()
        await house.platform.says("/deny dead end", at=early)
        await house.until(lambda: any(text.endswith(": dead end") for text in house.platform.texts()))
        assert (house.folder / "build").is_dir()


async def test_a_reply_answers_the_question_it_replies_to(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        question = await asked(house)
        assert "Answer with 1" in await said(house, "maybe", reply_to=question.id)
        await house.platform.says("1", reply_to=question.id)
        await house.until(lambda: house.platform.texts()[-1] == "ran it")
        assert not (house.folder / "build").exists()
        assert await said(house, "3", reply_to=question.id) == "This was already decided."


async def test_a_stranger_s_answer_in_a_group_counts_for_nothing(house: House) -> None:
    """003-25"""
    async with house.gateway() as gateway:
        line_of(gateway)
        question = await asked(house, chat=GROUP, user="bob")
        assert "owner" in await house.platform.presses(question, "y", user="bob")
        assert await house.platform.presses(question, "y", user="eve") == ""
        await house.platform.says("1", user="bob", chat=GROUP, reply_to=question.id, is_addressed=True)
        await asyncio.sleep(0.2)
        assert (house.folder / "build").is_dir()


async def test_a_grant_of_one_chat_is_none_of_another_s(house: House) -> None:
    """003-26"""
    async with house.gateway() as gateway:
        line = line_of(gateway)
        room = line.rooms.requests.folder(GROUP)
        question = await asked(house, chat=GROUP, user="bob", folder=room)
        assert await house.platform.presses(question, "s") == ""
        await house.until(lambda: not (room / "build").exists())
        await house.until(lambda: house.platform.texts(GROUP)[-1] == "ran it")
        assert {grant.principal for grant in await house.store.grants.all()} == {"fake:room:room"}
        (room / "build").mkdir()
        await house.platform.says(f"rm -rf {room}/build # again", chat=GROUP, user="carl", is_addressed=True)
        await house.until(lambda: not (room / "build").exists())  # the room's grant covers every speaker in it
        again = await asked(house, folder=room)
        assert again.out.chat.id == "direct"


async def test_words_from_elsewhere_mean_the_same_here(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        assert "/approve" in await said(house, "/start")
        assert "new session" in await said(house, "/reset")
        assert "Unknown command: /model" in await said(house, "/model")
        assert await said(house, "/etc/hosts is what?") == "re /etc/hosts is what?"


async def test_plugins_commands_are_for_the_surfaces_and_the_role_that_they_name(house: House) -> None:
    def sky(text: str, identity: RunIdentity) -> str:
        """Report the sky's color."""
        return f"blue over {text or 'all'}, {identity.user}"

    async def fails(text: str, identity: RunIdentity) -> str:
        raise ValueError("secret words")

    gateway = house.gateway()
    crib = house.cribs[-1]
    crib._add_slash("sky", sky, surfaces=["chat"])
    crib._add_slash("storm", fails, surfaces=["terminal", "chat"], role="owner")
    crib._add_slash("inside", sky)
    async with gateway:
        line_of(gateway)
        assert await said(house, "/sky Rome", user="bob") == "blue over Rome, bob"
        assert await said(house, "/storm", user="bob") == "/storm needs the role owner."
        failed = await said(house, "/storm")
        assert ("/storm failed" in failed, "secret" in failed) == (True, False)
        assert "Unknown command: /inside" in await said(house, "/inside")
        told = await said(house, "/help", user="bob")
        assert "/sky — Report the sky's color." in told
        assert "/storm" not in told
    assert house.asked == []


async def test_each_chat_says_what_a_message_does_while_a_run_is_under_way(house: House) -> None:
    alone = Chat("bobs")
    async with house.gateway() as gateway:
        line_of(gateway)
        assert "during a run: queue." in await said(house, "/busy", user="bob", chat=alone)
        assert "queue, steer, interrupt" in await said(house, "/busy never", user="bob", chat=alone)
        assert await said(house, "/busy interrupt", user="bob", chat=GROUP) == "In a group only the owner may change this."
        assert await said(house, "/busy steer", chat=GROUP) == "Mode for messages that arrive during a run: steer."
        assert (
            await said(house, "/busy interrupt", user="bob", chat=alone)
            == "Mode for messages that arrive during a run: interrupt."
        )
        await said(house, "/new", user="bob", chat=alone)
        await house.platform.says("wait", user="bob", chat=alone)
        await house.until(lambda: house.asked == ["wait"])
        await house.platform.says("hello", user="bob", chat=alone)
        await house.until(lambda: house.platform.texts(alone)[-1] == "re hello")  # the first message no longer waits
        assert any("interrupted" in text for text in house.platform.texts(alone))
        assert "during a run: queue." in await said(house, "/busy", chat=OTHER)


async def test_a_backend_that_toolcrib_does_not_know_to_contain_commands_is_no_place(house: House) -> None:
    """A plugin's backend may run commands on this machine without a sandbox."""
    house.configure(OWNED.replace("    allow_local: true\n", "    backend: vm\n"))
    take_back = register_environment("vm", LocalEnvironment)
    try:
        async with house.gateway():
            assert "platforms.fake.backend to a contained one (bubblewrap, docker, ssh)" in await said(
                house, "/tools", chat=Chat("r", is_group=True)
            )
    finally:
        take_back()


async def test_a_session_in_an_uncontained_backend_gets_no_place_by_another_default(house: House) -> None:
    """The session stays in its first backend."""
    own = OWNED.replace("    allow_local: true\n", "    backend: local\n")
    house.configure(own)
    chat = Chat("bobs")
    async with house.gateway():
        before = await said(house, "/tools", user="bob", chat=chat)
        assert "terminal" not in before
    house.configure(own.replace("    backend: local\n", "") + "terminal: {backend: bubblewrap}\n")
    async with house.gateway():
        assert await said(house, "/tools", user="bob", chat=chat) == before
        assert "terminal" in await said(house, "/tools", user="carl", chat=Chat("carls"))


@pytest.mark.parametrize("backend", ["", "    backend: bubblewrap\n"])
async def test_tools_tells_the_owner_alone_which_setting_gives_a_chat_a_place(house: House, backend: str) -> None:
    house.configure(OWNED.replace("    allow_local: true\n", backend))
    group = Chat("room", is_group=True)
    async with house.gateway():
        if backend:
            assert "\n" not in await said(house, "/tools", chat=group)
            return
        to_owner = await said(house, "/tools", chat=group)
        assert "they are not given to groups. To enable them: set platforms.fake.backend to a contained one" in to_owner
        assert "platforms.fake.allow_local: true" in to_owner
        for chat in (group, Chat("bobs")):
            to_bob = await said(house, "/tools", user="bob", chat=chat)
            assert to_bob.endswith("this chat has no environment.")
            assert "platforms." not in to_bob
        assert "\n" not in await said(house, "/tools", chat=Chat("anns"))


async def test_folders_above_those_of_chats_are_closed(house: House) -> None:
    """The gateway also closes folders of an earlier version."""
    chats = house.folder.parent / "state-chats"
    (chats / "fake").mkdir(parents=True)
    async with house.gateway():
        assert await said(house, "one") == "re one"
    below = [one for one in chats.rglob("*") if one.is_dir()]
    assert len(below) == 2
    assert {one.stat().st_mode & 0o777 for one in (chats, *below)} == {0o700}


async def test_background_processes_are_listed_and_ended_and_counted(house: House) -> None:
    """003-30"""
    async with house.gateway() as gateway:
        line = line_of(gateway)
        assert await said(house, "/ps") == "This session has no background processes."
        assert (await said(house, "/ps stop")).startswith("use /ps, /ps log NAME, /ps screen NAME, or /ps stop NAME")
        assert await said(house, "hi") == "re hi"
        [info] = await house.store.sessions.list(10)
        session = await line.manager.opened(info.id)
        command = {"command": "printf 'a *b*\\n'; sleep 600", "background": True, "name": "dev"}
        done = await asyncio.to_thread(session.call, "terminal", command)
        assert not done.result.is_error, done.result
        assert (await said(house, "/ps")).startswith("dev: running — printf ")
        assert await said(house, "/ps log dev") == "a *b*"
        assert "dev has no terminal; to see what it printed: /ps log dev" in await said(house, "/ps screen dev")
        assert "there is no background process 'db'" in await said(house, "/ps stop db")
        assert await said(house, "/ps", user="bob", chat=OTHER) == "This session has no background processes."
        assert "1 background processes" in await said(house, "/status")
        assert line.status().to_json()["processes"] == 1
        assert await said(house, "/ps stop dev") == "Ended: dev"
        assert (await said(house, "/ps")).startswith("dev: exit code ")
        assert line.status().processes == 0


async def test_a_chat_shows_a_screen_in_its_columns(house: House) -> None:
    """003-30"""
    async with house.gateway() as gateway:
        line = line_of(gateway)
        assert await said(house, "hi") == "re hi"
        [info] = await house.store.sessions.list(10)
        session = await line.manager.opened(info.id)
        command = {"command": "printf 'NAME   SIZE\nfile   12\n'; sleep 600", "background": True, "pty": True, "name": "menu"}
        done = await asyncio.to_thread(session.call, "terminal", command)
        assert not done.result.is_error, done.result
        await asyncio.to_thread(session.call, "process", {"action": "wait", "name": "menu", "pattern": "12"})
        assert await said(house, "/ps screen menu") == "NAME   SIZE\nfile   12\n‸"
        assert await said(house, "/ps log menu") == "NAME SIZE\nfile 12"
        assert await said(house, "/ps stop menu") == "Ended: menu"
