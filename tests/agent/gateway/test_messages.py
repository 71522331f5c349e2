"""send_message: without approval to the user's own chats, with approval to others, from any process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from agent.conversation.session import Session
from agent.gateway.logs import chat_id
from agent.gateway.messages import TOOL
from agent.store.sqlite import SqliteStore
from tests.agent.gateway.conftest import House, line_of
from toolcrib import ProviderTurn, ToolCall
from toolcrib.chat import Chat, Traits
from toolcrib.testing import FakePlatform, ScriptedSession, Shown

DIRECT, BOBS, GROUP = Chat("direct"), Chat("bobs", title="*Bob*"), Chat("team", is_group=True, title="The team")
CONFIG = """
platforms:
  fake:
    roles: {owner: [ann]}
    allowed_users: [bob, carl]
    allowed_chats: ['*']
  other:
    roles: {owner: [ann.b]}
    allowed_users: [bob]
    messages_to: [news]
    allowed_chats: [news]
"""
ASKED = (
    "send_message wants to send, to :\n  │ x\n  ! other users would read it:  (message.send@)\n"
    "  You are asked about this every time.\n\n"
    "1 yes, once · 3 no — /approve , /deny  REASON; for owner"
)
"""A question about a message to another user's chat, as the asker's chat shows it, with the chat's name and the id removed."""
HEADING = "✉ An agent sends this for you, from "


class Desk:
    """A house with two platforms. ``scripts`` are the models of chats, by user; other models repeat each message."""

    def __init__(self, house: House) -> None:
        self.house = house
        house.configure(CONFIG)
        self.other = FakePlatform("other")
        house.others["other"] = self._second
        self.scripts: dict[str, ScriptedSession] = {}
        self._usual = house.prepare
        house.prepare = self._prepare  # type: ignore[method-assign]  # scripted models for some users

    def _second(self, **given: Any) -> FakePlatform:
        self.other.host = given["host"]
        return self.other

    def _prepare(self, session: Session) -> None:
        model = self.scripts.get(session.identity.user)
        session.link.use(model) if model is not None else self._usual(session)

    async def met(self) -> None:
        """Send one message from each user, so that their chats are known."""
        house = self.house
        await house.platform.says("hello", user="ann")
        await house.platform.says("hello", user="bob", chat=BOBS)
        await self.other.says("hello", user="ann.b", chat=Chat("anns"))
        await self.other.says("hello", user="ann.b", chat=Chat("news", is_group=True, title="News"), is_addressed=True)
        await house.until(lambda: len(house.platform.shown) == 2 and len(self.other.shown) == 2)

    def sends(self, user: str, *calls: dict[str, Any], end: str = "done") -> None:
        """Make the model of a user's next session make these calls, one a turn."""
        self.scripts[user] = ScriptedSession(*([(TOOL, one)] for one in calls), end)

    async def results(self, user: str) -> list[Any]:
        found = []
        for info in await self.house.store.sessions.list(20):
            if info.user == user:
                for one in await self.house.store.sessions.messages(info.id):
                    found += [result["text"] for result in one.get("results", ()) if one["role"] == "results"]
        return [json.loads(text) if text.startswith("{") else text for text in found]


@pytest.fixture
def desk(house: House) -> Desk:
    return Desk(house)


async def again(desk: Desk, user: str = "ann", chat: Chat = DIRECT, text: str = "/new") -> None:
    """Begin a new session in a chat; its model has the user's script."""
    many = len(desk.house.platform.texts(chat))
    await desk.house.platform.says(text, user=user, chat=chat, is_addressed=True)
    await desk.house.until(lambda: len(desk.house.platform.texts(chat)) > many)


async def said(desk: Desk, text: str, ends: Callable[[], object], *, user: str = "ann", chat: Chat = DIRECT) -> None:
    await desk.house.platform.says(text, user=user, chat=chat, is_addressed=True)
    await desk.house.until(ends)


async def test_a_message_to_ones_own_chat_elsewhere_is_shown_as_an_agents_and_asks_nobody(desk: Desk) -> None:
    """003-32"""
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        desk.sends("ann", {"to": "other", "text": "# it *works*\n> quoted\u2028[x](y)"})
        await again(desk)
        await said(desk, "send it there", lambda: desk.house.platform.texts()[-1] == "done")
        await desk.house.until(lambda: len(desk.other.texts(Chat("anns"))) == 2)
    assert desk.other.texts(Chat("anns"))[1] == f"{HEADING}a direct chat on fake:\n\n> # it *works*\n> > quoted\n> [x](y)"
    [result] = await desk.results("ann")
    assert (result["to"], result["status"]) == (f"other/{chat_id('anns')}", "shown")
    assert await desk.house.store.tickets.pending() == []


async def test_every_message_comes_where_a_provider_gives_the_id_of_a_call_again(desk: Desk) -> None:
    """Some providers repeat ids, in a run and between the runs of a session."""
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        calls = [ToolCall("call_0", TOOL, {"to": "other", "text": text}) for text in ("first", "second", "second")]
        one, two, other_run = (ProviderTurn("", (call,), assistant_turn="x") for call in calls)
        desk.scripts["ann"] = ScriptedSession(one, two, "half", other_run, "done")
        await again(desk)
        await said(desk, "send it there", lambda: desk.house.platform.texts()[-1] == "half")
        await said(desk, "once more", lambda: desk.house.platform.texts()[-1] == "done")
        await desk.house.until(lambda: len(desk.other.texts(Chat("anns"))) == 4)
    assert [text.splitlines()[-1] for text in desk.other.texts(Chat("anns"))[1:]] == ["> first", "> second", "> second"]


async def test_the_other_chats_session_knows_what_was_sent_there_once(desk: Desk) -> None:
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        desk.sends("ann", {"to": "other", "text": "shall I deploy?"})
        await again(desk)
        await said(desk, "ask me there", lambda: len(desk.other.texts(Chat("anns"))) == 2)
        for text in ("yes, do", "and?"):
            await desk.other.says(text, user="ann.b", chat=Chat("anns"))
            await desk.other.until(lambda text=text: desk.other.texts(Chat("anns"))[-1].endswith(text))  # type: ignore[misc]  # bound
    heard = [one for one in desk.house.asked if one.endswith(("yes, do", "and?"))]
    assert "> shall I deploy?" in heard[0]
    assert "not an instruction" in heard[0]
    assert heard[1] == "and?"


async def test_somebody_elses_chat_is_asked_about_with_all_that_would_be_sent(desk: Desk) -> None:
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        text = "line one\n" + "x" * 300 + "\n\x1b[2Jend"
        desk.sends("ann", {"to": "fake/bob", "text": text})
        await again(desk)
        await said(desk, "tell bob", lambda: desk.house.platform.shown[-1].out.buttons)
        asked = desk.house.platform.shown[-1]
        [record] = await desk.house.store.tickets.pending()
        assert [one["key"] for one in record.ticket.parameters["findings"]] == [f"message.send@fake/{chat_id('bobs')}"]
        for part in ("the direct chat “*Bob*” of bob on fake", "line one", "x" * 300, "end"):
            assert part in asked.out.text
        assert "\x1b" not in asked.out.text
        assert len(desk.house.platform.texts(BOBS)) == 1
        await desk.house.platform.presses(asked, asked.out.buttons[0].choice)
        await desk.house.until(lambda: len(desk.house.platform.texts(BOBS)) == 2)
        await desk.house.until(lambda: desk.house.platform.texts()[-1] == "done")
    heading = "✉ An agent sends this for the owner of this bot, from a direct chat on fake:"
    assert desk.house.platform.texts(BOBS)[1].startswith(f"{heading}\n\n> line one\n> ")


async def test_a_no_sends_nothing(desk: Desk) -> None:
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        desk.sends("ann", {"to": "fake/bob", "text": "psst"})
        await again(desk)
        await said(desk, "tell bob", lambda: desk.house.platform.shown[-1].out.buttons)
        await said(desk, "no", lambda: desk.house.platform.texts()[-1] == "done")
    assert len(desk.house.platform.texts(BOBS)) == 1
    assert "the user denied it" in str(await desk.results("ann"))


async def test_nobody_learns_which_chats_others_have(desk: Desk) -> None:
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        desk.sends("bob", {"action": "list"}, {"to": "other/anns", "text": "x"}, {"to": "other/nobody", "text": "x"})
        await again(desk, "bob", BOBS)
        await desk.house.platform.says("who is there?", user="bob", chat=BOBS)
        await desk.house.until(lambda: len(desk.house.platform.texts()) == 2)  # the owner is asked in her own chat
        records = await desk.house.store.tickets.pending()
    [listed] = await desk.results("bob")
    news, own = f"other/{chat_id('news')}", f"fake/{chat_id('bobs')}"
    assert [(one["to"], one["asks"]) for one in listed["chats"]] == [(own, False), (news, False)]
    assert len(records) == 1
    assert "ann" not in json.dumps(listed)


async def test_whether_a_chat_is_known_shows_only_once_somebody_agreed(desk: Desk) -> None:
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        desk.sends("bob", {"to": "other/ghost", "text": "x"})
        await again(desk, "bob", BOBS)
        await desk.house.platform.says("write", user="bob", chat=BOBS)
        await desk.house.until(lambda: desk.house.platform.shown[-1].out.buttons)
        asked = next(one for one in desk.house.platform.shown if one.out.chat.key == "direct" and one.out.buttons)
        assert "to no chat that this session may write to (other/ghost)" in asked.out.text
        await desk.house.platform.presses(asked, asked.out.buttons[0].choice)
        await desk.house.until(lambda: desk.house.platform.texts(BOBS)[-1] == "done")
    assert "nothing was sent" in str(await desk.results("bob"))


@pytest.mark.parametrize(("user", "chat"), [("bob", BOBS), ("bob", GROUP), ("ann", GROUP)])
async def test_a_question_tells_its_asker_and_their_group_nothing_of_chats_that_are_not_theirs(
    desk: Desk, user: str, chat: Chat
) -> None:
    """The approver reads whether the chat is one user's, several users' or a group's, or does not exist. The asker never does."""
    told, asides = set(), list[str]()
    names = ("fake/carl", "fake/ann", "fake/direct", f"fake/{chat_id('direct')}", "fake/crew", "fake/nobody")
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        await desk.house.platform.says("hello", user="carl", chat=Chat("carls"))
        await desk.house.platform.says("hello", user="carl", chat=Chat("carls", "a thread"))
        await desk.house.platform.says("hello", chat=Chat("crew", is_group=True, title="The crew"), is_addressed=True)
        for name in names:
            desk.sends(user if chat is BOBS else "room:team", {"to": name, "text": "x"})
            await again(desk, user, chat)
            await desk.house.platform.says(f"write to {name}", user=user, chat=chat, is_addressed=True)
            here, copy = [await asked_in(desk, one) for one in (chat, DIRECT)]
            await again(desk, user, chat, "/approvals")
            listed = desk.house.platform.texts(chat)[-1]
            assert name in here.out.text
            told |= {re.sub(f"{name}|[0-9a-f]{{8}}|, until .*", "", text) for text in (here.out.text, listed)}
            asides.append(copy.out.text.split(", to ")[1].split(f" ({name}):")[0])
            await desk.house.platform.presses(copy, "n")
            await desk.house.until(lambda: desk.house.platform.texts(chat)[-1] == "done")
    assert told == {ASKED, ": send_message: to  other users would read it: "}
    direct, none = f"the direct chat of ann on fake, fake/{chat_id('direct')}", "no chat that this session may write to"
    crew = f"the group “The crew” on fake, fake/{chat_id('crew')}"
    assert asides == [none, *[none if chat is GROUP else direct] * 3, crew, none]


async def asked_in(desk: Desk, chat: Chat) -> Shown:
    """Return the open question in a chat once it is shown there."""

    def found() -> list[Shown]:
        return [one for one in desk.house.platform.shown if one.out.chat.key == chat.key and one.out.buttons]

    await desk.house.until(found)
    return found()[0]


async def test_a_groups_session_reaches_no_members_chat_but_those_the_operator_allowed(desk: Desk) -> None:
    """003-32"""
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        news = f"other/{chat_id('news')}"
        desk.sends("room:team", {"to": "fake/bob", "text": "a"}, {"to": news, "text": "c"})
        await desk.house.platform.says("all", chat=GROUP, is_addressed=True)
        copy = await asked_in(desk, DIRECT)
        assert "to no chat that this session may write to (fake/bob)" in copy.out.text
        await desk.house.platform.presses(copy, "y")
        await desk.house.until(lambda: desk.house.platform.texts(GROUP)[-1:] == ["done"])
        await desk.house.until(lambda: len(desk.other.texts(Chat("news"))) == 2)
    first, second = await desk.results("room:team")
    assert "nothing was sent" in str(first)
    assert second["status"] == "shown"
    assert len(desk.house.platform.texts(BOBS)) == 1
    assert desk.other.texts(Chat("news"))[1] == "✉ An agent sends this for ann on fake, from the group “The team” on fake:\n\n> c"


async def test_quotas_count_and_a_long_message_comes_in_quoted_parts(desk: Desk) -> None:
    desk.other.traits = Traits(max_chars=500, per_second=10_000, idempotent=True)
    desk.house.configure(CONFIG.replace("allowed_users: [bob, carl]", "allowed_users: [bob]\n    messages_per_hour: 4"))
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        news = f"other/{chat_id('news')}"
        desk.sends("bob", {"to": news, "text": "word\n" * 300}, {"to": news, "text": "again"})
        await again(desk, "bob", BOBS)
        await desk.house.platform.says("write", user="bob", chat=BOBS)
        await desk.house.until(lambda: desk.house.platform.texts(BOBS)[-1] == "done")
        await desk.house.until(lambda: sum(one.count("> word") for one in desk.other.texts(Chat("news"))) == 300)
    parts = desk.other.texts(Chat("news"))[1:]
    assert len(parts) > 3
    assert all(len(one) <= 500 and one.splitlines()[-1] == "> word" for one in parts)
    assert all(set(one.splitlines()) == {"> word"} for one in parts[1:])
    assert "the limit is" in str((await desk.results("bob"))[1])


async def test_a_file_goes_with_it_where_the_session_may_read(desk: Desk) -> None:
    desk.other.traits = Traits(max_file_bytes=1_000, per_second=10_000)
    file = desk.house.folder / "report.txt"
    file.write_text("figures")
    async with desk.house.gateway() as gateway:
        line_of(gateway)
        await desk.met()
        large = desk.house.folder / "l"
        large.write_bytes(b"x" * 1_001)
        desk.sends("ann", {"to": "other", "file": str(file)}, {"to": "other", "text": "large", "file": str(large)})
        await again(desk)
        await said(desk, "send it", lambda: desk.house.platform.texts()[-1] == "done")
        await desk.house.until(lambda: len(desk.other.texts(Chat("anns"))) == 3)
        first, second = (one.out for one in desk.other.shown if one.out.chat.key == "anns" and one.out.text.startswith("✉"))
        assert [(one.name, one.path.read_text()) for one in first.files] == [("report.txt", "figures")]
    assert not second.files
    assert second.text.endswith("(The file l is not shown: this chat does not accept it.)")


async def test_a_session_of_another_process_has_the_gateway_show_it(house: House) -> None:
    """A terminal's session over the same file: its message is stored while no gateway runs; the next gateway shows it once."""
    house.store = SqliteStore(house.folder / "store.db")
    desk = Desk(house)
    try:
        async with house.gateway() as gateway:
            line_of(gateway)
            await desk.met()
        from agent.api import assemble
        from agent.config import load_config

        elsewhere = SqliteStore(house.folder / "store.db")
        crib = assemble(config=load_config(house.config), project_dir=house.folder, store=elsewhere)
        session = await crib.open()
        try:
            done = (await call(session, {"to": "other", "text": "from the terminal"})).result
            assert done.data["status"] == "queued"
            assert done.data["note"].startswith("no gateway runs for other now")
            async with house.gateway() as gateway:
                line_of(gateway)
                await house.until(lambda: len(desk.other.texts(Chat("anns"))) == 2)
                live = (await call(session, {"to": "other", "text": "and now"})).result
                assert (live.data["status"], live.data.get("note")) == ("shown", None)
            refused = (await call(session, {"to": "fake/bob", "text": "unattended"})).result
            assert refused.is_error
            assert "no user can be asked" in str(refused.message).lower()
        finally:
            await session.close()
            await crib.aclose()
    finally:
        for crib in house.cribs:
            await crib.aclose()
        house.cribs.clear()
        house.store.close()
        elsewhere.close()
    assert [one.splitlines()[-1] for one in desk.other.texts(Chat("anns"))[1:]] == ["> from the terminal", "> and now"]
    assert len(house.platform.texts(BOBS)) == 1


async def call(session: Session, args: dict[str, Any]) -> Any:
    return await session.acall(ToolCall(ToolCall.new_id(), TOOL, args))
