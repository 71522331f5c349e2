"""The tests that every chat platform must pass, with a server that the platform's author chooses. See PlatformSuite."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import SkipTest

from toolcrib._testing_desk import PlatformDesk, Stage
from toolcrib.chat import Button, Chat, NotSent, Outbound, OutFile, ShowsTyping
from toolcrib.contract.errors import StoreFailed

_BUTTONS = (Button("y", "Yes", "👍"), Button("n", "No", "👎"))
_FILE = bytes(range(256)) * 300
_LOUD = "@everyone @here @channel @room <!channel> <@{0}> @{0} [you](tg://user?id={0}) \x1b[31mred\x00 \u202eback"


def _scene(play: Callable[[Any, Stage], Awaitable[None]]) -> Callable[[PlatformSuite], None]:
    """Turn a coroutine function into a test, so that the suite needs no pytest plugin."""

    def test(self: PlatformSuite) -> None:
        try:
            asyncio.run(self._play(play))
        except AssertionError as error:
            error.add_note(_known_at(error))
            raise

    test.__name__, test.__qualname__, test.__doc__ = play.__name__, play.__qualname__, play.__doc__
    return test


def _known_at(error: AssertionError) -> str:
    """Return the local variables at a failed assertion, because pytest shows them only for the author's own test files."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    found = {} if place is None else place.tb_frame.f_locals
    return "\n".join(f"{name} = {value!r}" for name, value in found.items() if name not in ("self", "stage"))


class PlatformSuite:
    """Tests of a chat platform. Inherit them, and define the desk:

        class TestBells(PlatformSuite):
            @asynccontextmanager
            async def desk(self):
                async with BellsServer() as server:
                    yield BellsDesk(server)

    Each test has its own desk. ``seconds`` is the time limit of each wait, ``quiet`` the time to watch for unexpected messages.
    """

    seconds = 30.0
    quiet = 0.2

    def desk(self) -> AbstractAsyncContextManager[PlatformDesk]:
        """Open a desk: a server, its users, and the factory of the platform."""
        raise NotImplementedError

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[Stage]:
        async with self.desk() as desk:
            folder = Path(tempfile.mkdtemp(prefix="toolcrib-suite-"))
            stage = Stage(desk, folder, self.seconds, self.quiet)
            try:
                yield stage
            finally:
                await stage.platform.stop()
                shutil.rmtree(folder)

    async def _play(self, play: Callable[[Any, Stage], Awaitable[None]]) -> None:
        async with self._stage() as stage:
            await play(self, stage)

    # -- receiving -----------------------------------------------------------------------------------------------

    @_scene
    async def test_a_message_arrives_once_as_its_server_vouches_for_it(self, stage: Stage) -> None:
        await stage.open()
        text = f"user={stage.desk.other} message_id=1 chat={stage.desk.gone.id} é 👍"
        message_id = await stage.say(text)
        [message] = await stage.received(1)
        assert (message.user, message.message_id, message.text) == (stage.desk.user, message_id, text)
        assert (message.chat.key, message.chat.is_group) == (stage.desk.direct.key, False)
        assert not message.edits

    @_scene
    async def test_messages_arrive_in_order(self, stage: Stage) -> None:
        await stage.open()
        ids = [await stage.say(f"number {number}") for number in range(6)]
        assert [one.message_id for one in await stage.received(6)] == ids

    @_scene
    async def test_what_was_not_taken_is_offered_again(self, stage: Stage) -> None:
        await stage.open()
        stage.host.failing = StoreFailed("the disk is full")
        ids = [await stage.say("one"), await stage.say("two")]
        await stage.until("a message is offered", lambda: bool(stage.host.offered))
        stage.host.failing = None
        assert sorted(one.message_id for one in await stage.received(2)) == sorted(ids)

    @_scene
    async def test_what_was_not_taken_before_the_end_is_offered_at_the_next_start(self, stage: Stage) -> None:
        await stage.open()
        stage.host.failing = StoreFailed("the disk is full")
        first = await stage.say("before")
        await stage.until("a message is offered", lambda: bool(stage.host.offered))
        await stage.platform.stop()
        stage.host.failing = None
        second = await stage.say("meanwhile")
        await stage.reopen()
        assert sorted(one.message_id for one in await stage.received(2)) == sorted([first, second])

    @_scene
    async def test_nothing_arrives_before_the_start(self, stage: Stage) -> None:
        await stage.platform.connect()
        await stage.say("too early")
        await asyncio.sleep(self.quiet)
        assert stage.host.offered == [], "connect() receives nothing"

    @_scene
    async def test_what_programs_write_is_nobodys(self, stage: Stage) -> None:
        await stage.open()
        chat = stage.desk.group or stage.desk.direct
        await stage.show("our own words", chat=chat)
        await stage.received(0)
        await stage.desk.bot_writes(chat, "I am a program")
        await stage.received(0)

    @_scene
    async def test_groups_are_told_from_direct_chats(self, stage: Stage) -> None:
        group = _group(stage)
        await stage.open()
        await stage.desk.write(group, "between us", user=stage.desk.user)
        await stage.received(1)
        await stage.desk.write(group, "to you", user=stage.desk.other, is_addressed=True)
        first, second = await stage.received(2)
        assert (first.chat.key, first.chat.is_group, first.is_addressed) == (group.key, True, False)
        assert (second.chat.key, second.user, second.is_addressed) == (group.key, stage.desk.other, True)

    @_scene
    async def test_an_answer_to_us_is_addressed_to_us(self, stage: Stage) -> None:
        group = _group(stage)
        await stage.open()
        ours = await stage.show("a question", chat=group)
        theirs = await stage.desk.write(group, "an aside", user=stage.desk.user)
        await stage.received(1)
        await stage.desk.write(group, "an answer", user=stage.desk.other, reply_to=ours)
        await stage.received(2)
        await stage.desk.write(group, "another aside", user=stage.desk.other, reply_to=theirs)
        _, answer, aside = await stage.received(3)
        assert (answer.reply_to, answer.is_addressed) == (ours, True)
        assert (aside.reply_to, aside.is_addressed) == (theirs, False)

    @_scene
    async def test_an_edit_is_no_new_message(self, stage: Stage) -> None:
        await stage.open()
        message_id = await stage.say("yes")
        await stage.received(1)
        await stage.desk.edit(stage.desk.direct, message_id, "no", user=stage.desk.user)
        await stage.received(1)
        assert all(one.edits == message_id for one in stage.host.received if one.text != "yes")

    @_scene
    async def test_a_press_names_who_pressed(self, stage: Stage) -> None:
        chat = stage.desk.group or stage.desk.direct
        await stage.open()
        if not (stage.platform.traits.buttons or stage.platform.traits.reactions):
            raise SkipTest("Traits.buttons and Traits.reactions are not set")
        stage.host.answer_to_press = "settled"
        message_id = await stage.show("may I?", chat=chat, buttons=_BUTTONS)
        assert list((await stage.seen(message_id, chat)).buttons) == ["y", "n"]
        people = [stage.desk.user, stage.desk.other] if stage.desk.group else [stage.desk.user]
        for number, (user, choice) in enumerate(zip(people, "yn", strict=False), 1):
            assert await stage.desk.press(chat, message_id, choice, user=user) in ("settled", None)
            await stage.until("the press arrives", lambda number=number: len(stage.host.presses) == number)  # type: ignore[misc]  # bound
            press = stage.host.presses[-1]
            assert (press.chat.key, press.user, press.message_id, press.choice) == (chat.key, user, message_id, choice)

    @_scene
    async def test_a_file_comes_in(self, stage: Stage) -> None:
        await stage.open()
        await stage.desk.write_file(stage.desk.direct, "notes.bin", _FILE, user=stage.desk.user)
        [message] = await stage.received(1)
        assert [one.name for one in message.attachments] == ["notes.bin"]
        assert message.attachments[0].size in (None, len(_FILE))
        assert await stage.fetched(message) == [_FILE]
        await stage.reopen()
        assert await stage.fetched(message) == [_FILE], "ref is enough after a restart"

    # -- sending -------------------------------------------------------------------------------------------------

    @_scene
    async def test_a_message_is_shown_and_changed(self, stage: Stage) -> None:
        await stage.open()
        traits = stage.platform.traits
        has_buttons = traits.buttons or traits.reactions
        message_id = await stage.show("the first form", buttons=_BUTTONS if has_buttons else ())
        assert "the first form" in (await stage.seen(message_id)).text
        if traits.edit_seconds is None:
            return
        for text in ("the second form", "the second form"):  # repeating the shown text is not an error
            await asyncio.sleep(min(traits.edit_seconds, 1.0))
            assert await stage.show(text, edits=message_id) == message_id
        seen = await stage.seen(message_id)
        assert ("the second form" in seen.text, list(seen.buttons)) == (True, [])
        assert len(await stage.desk.shown(stage.desk.direct)) == 1

    @_scene
    async def test_what_is_plain_is_shown_as_it_stands(self, stage: Stage) -> None:
        await stage.open()
        text = "rm -rf *_x_* `y` <b>&amp; [a](http://b.example) 2 < 3\n  # two  spaces"
        assert text in (await stage.seen(await stage.show(text, is_plain=True))).text

    @_scene
    async def test_nobody_is_pinged_and_nothing_hides(self, stage: Stage) -> None:
        await stage.open()
        chat = stage.desk.group or stage.desk.direct
        for is_plain in (False, True):
            seen = await stage.seen(await stage.show(_LOUD.format(stage.desk.other), chat=chat, is_plain=is_plain), chat)
            assert list(seen.pings) == []
            assert not [char for char in "\x1b\x00\u202e" if char in seen.text], f"control characters in {seen.text!r}"

    @_scene
    async def test_a_key_is_shown_once_where_that_is_said(self, stage: Stage) -> None:
        await stage.open()
        if not stage.platform.traits.idempotent:
            raise SkipTest("Traits.idempotent is not set")
        first = await stage.show("once", key="the same")
        await stage.reopen()
        assert await stage.show("once", key="the same") == first
        assert len(await stage.desk.shown(stage.desk.direct)) == 1

    @_scene
    async def test_what_can_never_be_shown_is_said_so(self, stage: Stage) -> None:
        await stage.open()
        most = stage.platform.traits.max_chars
        assert await stage.show("x" * most)
        too_long = await stage.not_sent(Outbound(stage.desk.direct, "x" * (most + 1), "long"))
        nowhere = await stage.not_sent(Outbound(stage.desk.gone, "hello?", "gone"))
        assert (too_long.for_good, nowhere.for_good) == (True, True)

    @_scene
    async def test_a_file_goes_out(self, stage: Stage) -> None:
        await stage.open()
        if not stage.platform.traits.max_file_bytes:
            raise SkipTest("Traits.max_file_bytes is 0")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "copy")
            path.write_bytes(_FILE)  # noqa: ASYNC240 - a small file
            await stage.show("here", files=(OutFile(path, "notes.bin"),))
        files = [one.files for one in await stage.desk.shown(stage.desk.direct) if one.files]
        assert files == [{"notes.bin": _FILE}]

    # -- connection and end --------------------------------------------------------------------------------------

    @_scene
    async def test_it_outlives_its_server(self, stage: Stage) -> None:
        await stage.open()
        await stage.show("before")
        await stage.desk.kill()
        assert not (await stage.not_sent(Outbound(stage.desk.direct, "meanwhile", "k"))).for_good
        await stage.desk.revive()

        async def is_shown() -> bool:
            try:
                return bool(await stage.show("after", key="after"))
            except NotSent as error:
                if error.for_good:
                    raise
                return False

        await stage.until("messages are shown again", is_shown)
        message_id = await stage.say("are you back?")
        assert [one.message_id for one in await stage.received(1)] == [message_id]

    @_scene
    async def test_typing_can_be_shown(self, stage: Stage) -> None:
        await stage.open()
        if not isinstance(stage.platform, ShowsTyping):
            raise SkipTest("the platform has no typing()")
        await stage.platform.typing(stage.desk.direct, True)
        await stage.platform.typing(stage.desk.direct, False)

    @_scene
    async def test_stop_frees_everything_and_may_come_twice(self, stage: Stage) -> None:
        await stage.made().stop()  # a platform that was never connected
        before = asyncio.all_tasks()
        await stage.open()
        await stage.show("hello")
        await stage.platform.stop()
        await stage.platform.stop()
        await stage.until("no task is left", lambda: not (asyncio.all_tasks() - before))
        offered = len(stage.host.offered)
        try:
            await stage.say("nobody listens")
        except OSError:
            return  # a server that the platform ran has ended with it
        await asyncio.sleep(self.quiet)
        assert len(stage.host.offered) == offered, "it receives nothing more"


def _group(stage: Stage) -> Chat:
    if stage.desk.group is None:
        raise SkipTest("there are no groups here")
    return stage.desk.group
