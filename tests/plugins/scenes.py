"""Common behaviour of every chat platform through the whole gateway: scenes with a server that the platform chooses."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from agent.gateway.forms import body_of
from tests.agent.gateway.conftest import line_of
from tests.plugins.houses import ChatHouse, holds
from toolcrib.chat import Chat, NotSent, OutFile


class Scenes:
    """Tests of a platform through the gateway; ``house`` is a fixture of the module that inherits them."""

    async def test_an_answer_grows_by_edits(self, house: ChatHouse) -> None:
        async with house.running():
            words = " ".join(f"word{number}" for number in range(120))
            house.say(house.direct, house.ann, words)
            await holds(lambda: house.said() == [f"re {words}"])
            calls = [kind for kind, _ in house.fake.calls if kind in (house.creates, house.edits)]
            assert calls[0] == house.creates
            assert set(calls[1:]) == {house.edits}

    async def test_a_stranger_reaches_nothing(self, house: ChatHouse) -> None:
        async with house.running():
            house.say(house.room, house.eve, "hello", is_addressed=True)
            house.say(house.direct, house.ann, "mine")
            await holds(lambda: house.said() == ["re mine"])
            assert (house.asked, house.said(house.room)) == (["mine"], [])

    async def test_a_group_is_answered_where_it_is_addressed(self, house: ChatHouse) -> None:
        async with house.running():
            house.say(house.room, house.bob, "an aside")
            house.say(house.room, house.bob, "to you", is_addressed=True)
            await holds(lambda: house.said(house.room))
            first = house.id_of(house.ours(house.room)[0])
            await holds(lambda: len(house.said(house.room)) == 1 and "to you" in house.said(house.room)[0])
            house.say(house.room, house.ann, "and more", reply_to=first)
            await holds(lambda: len(house.asked) == 2)
            assert not [one for one in house.asked if "aside" in one]

    async def test_commands_are_text(self, house: ChatHouse) -> None:
        async with house.running():
            house.say(house.room, house.ann, "/help", is_addressed=True)
            house.say(house.direct, house.ann, "/help")
            await holds(lambda: house.said() and house.said(house.room))
            assert "/new" in house.said()[0]
            assert "/new" in house.said(house.room)[0]
            assert house.asked == []

    async def test_an_approval_by_button_and_anothers_press_refused(self, house: ChatHouse) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(house.room, house.bob, command, is_addressed=True)
            asked = await house.question(house.room)
            assert command in house.text_of(asked)
            yes = house.button(asked, "y")
            assert "may not decide" in await house.press_and_read(asked, house.bob, yes)
            before = len(house.lines())
            house.press(asked, house.eve, yes)
            assert "no such question" in await house.press_and_read(asked, house.ann, "c0")
            assert len(house.lines()) == before + 1
            assert house.doomed.is_dir()
            house.press(asked, house.ann, yes)
            await holds(lambda: house.said(house.room)[-1] == "ran it")
            assert not house.doomed.exists()
            await holds(lambda: not house.buttons_of(asked))
            assert "approved by" in house.text_of(asked)
            assert "already decided" in await house.press_and_read(asked, house.ann, yes)

    async def test_a_refusal_by_button(self, house: ChatHouse) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(house.direct, house.ann, command)
            asked = await house.question()
            house.press(asked, house.ann, house.button(asked, "n"))
            await holds(lambda: "denied by" in house.text_of(asked))
            assert house.doomed.is_dir()
            assert not house.buttons_of(asked)

    @pytest.mark.parametrize("answer", ["yes", "no"])
    async def test_an_approval_by_reply(self, house: ChatHouse, answer: str) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(house.room, house.ann, command, is_addressed=True)
            asked = await house.question(house.room)
            house.say(house.room, house.bob, "yes", reply_to=house.id_of(asked))
            await holds(lambda: any("may not decide" in one for one in house.said(house.room)))
            assert house.doomed.is_dir()
            house.say(house.room, house.ann, answer, reply_to=house.id_of(asked))
            await holds(lambda: ("approved by" if answer == "yes" else "denied by") in house.text_of(asked))
            await holds(lambda: house.doomed.exists() is (answer == "no"))

    async def test_a_question_outlives_a_restart(self, house: ChatHouse) -> None:
        """003-25"""
        command = house.dooms()
        async with house.running():
            house.say(house.direct, house.ann, command)
            asked = await house.question()
        await house.fake.revive()
        async with house.again():
            assert house.doomed.is_dir()
            house.press(asked, house.ann, house.button(asked, "y"))
            await holds(lambda: house.said()[-1] == "ran it")
            assert not house.doomed.exists()
            assert len(house.ours()) == 2

    async def test_what_came_while_it_was_down_is_answered_once(self, house: ChatHouse) -> None:
        async with house.running() as gateway:
            house.say(house.direct, house.ann, "one")
            await holds(lambda: house.said() == ["re one"])
            await house.is_idle(gateway)
        await house.fake.revive()
        house.say(house.direct, house.ann, "two")
        house.say(house.room, house.ann, "three", is_addressed=True)
        house.say(house.direct, house.ann, "four")
        async with house.again():
            await holds(lambda: house.said()[-1] == "re four" and house.said(house.room))
            await asyncio.sleep(0.3)
            assert house.said() == ["re one", "re two", "re four"]
            assert len(house.said(house.room)) == 1
            assert len(house.asked) == 4

    async def test_a_cut_loses_and_doubles_nothing(self, house: ChatHouse) -> None:
        async with house.running():
            house.say(house.direct, house.ann, "one")
            await holds(lambda: house.said() == ["re one"])
            for number in range(2):
                house.fake.cut()
                house.say(house.direct, house.ann, f"while cut {number}")
                await holds(lambda number=number: house.said()[-1] == f"re while cut {number}")  # type: ignore[misc]  # bound
            await asyncio.sleep(0.3)
            assert house.said() == ["re one", "re while cut 0", "re while cut 1"]
            assert len(house.asked) == 3

    async def test_it_goes_on_when_its_server_is_back(self, house: ChatHouse) -> None:
        async with house.running():
            house.say(house.direct, house.ann, "wait for it")
            await holds(lambda: house.asked)
            await house.fake.kill()
            house.may.set()
            await asyncio.sleep(0.5)
            house.say(house.direct, house.ann, "are you there?")
            await house.fake.revive()
            await holds(lambda: house.said()[-1:] == ["re are you there?"])
            assert house.said() == ["re wait for it", "re are you there?"]

    async def test_a_run_that_was_under_way_goes_on_after_a_restart(self, house: ChatHouse) -> None:
        async with house.running():
            house.say(house.direct, house.ann, "wait for it")
            await holds(lambda: house.asked)
        assert house.said() == []
        house.may.set()
        await house.fake.revive()
        async with house.again():
            await holds(lambda: house.said() == ["re wait for it"])
            await asyncio.sleep(0.3)
            assert house.said() == ["re wait for it"]

    async def test_a_lost_acknowledgement_doubles_nothing(self, house: ChatHouse) -> None:
        async with house.running():
            house.loses_acknowledgement()
            house.say(house.direct, house.ann, "hello there")
            await holds(lambda: house.said() == ["re hello there"])
            house.loses_acknowledgement()
            house.say(house.direct, house.ann, "again")
            await holds(lambda: house.said() == ["re hello there", "re again"])
            await asyncio.sleep(1.5)
            assert house.said() == ["re hello there", "re again"]

    async def test_a_lost_acknowledgement_doubles_nothing_after_a_restart(
        self, house: ChatHouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def held(out: Any) -> str:
            raise NotSent("held")

        async with house.running() as gateway:
            house.say(house.direct, house.ann, "one")
            await holds(lambda: house.said() == ["re one"])
            await house.is_idle(gateway)
            house.loses_acknowledgement()
            await line_of(gateway).outbox.put(house.direct, "k", body_of(Chat(house.direct), "the news"))
            await holds(lambda: len(house.said()) == 2)
            monkeypatch.setattr(line_of(gateway)._platform, "send", held)  # no more messages are sent before the end
        house.fake.minutes_later()
        await house.fake.revive()
        async with house.again():
            house.say(house.direct, house.ann, "two")
            await holds(lambda: house.said()[-1] == "re two")
            assert house.said() == ["re one", "the news", "re two"]

    async def test_files_come_in(self, house: ChatHouse) -> None:
        async with house.running():
            house.send_file(house.direct, house.ann, "read this", "../../plan.txt", b"the plan")
            house.send_file(house.direct, house.ann, "and this", "huge", b"", 21 * 2**20)
            await holds(lambda: len(house.asked) == 2 and any("not accepted" in one for one in house.said()))
            words, line = house.asked[0].split("\n")
            path = Path(line.removeprefix("[the file ").removesuffix(" came with this message]"))
            assert (words, path.read_bytes(), path.parent.name) == ("read this", b"the plan", "received")

    @pytest.mark.parametrize("is_lost", [False, True])
    async def test_files_go_out_once(self, house: ChatHouse, tmp_path: Path, *, is_lost: bool) -> None:
        (tmp_path / "report").write_bytes(b"42")
        async with house.running() as gateway:
            if is_lost:
                house.loses_file_acknowledgement()
            files = [OutFile(tmp_path / "report", "report.txt", "text/plain")]
            await line_of(gateway).outbox.put(house.direct, "r", body_of(Chat(house.direct), "the report", files=files))
            await line_of(gateway).outbox.put(house.direct, "s", body_of(Chat(house.direct), "the end"))
            await holds(lambda: house.said()[-1:] == ["the end"])
            assert [one for one in map(house.files_of, house.ours()) if one] == [{"report.txt": b"42"}]
            assert house.said().count("the report") == 1

    async def test_flood_control_delays_and_doubles_nothing(self, house: ChatHouse) -> None:
        async with house.running():
            house.floods(house.creates)
            house.floods(house.edits)
            begun = time.monotonic()
            house.say(house.direct, house.ann, "hello there")
            await holds(lambda: house.said() == ["re hello there"])
            assert time.monotonic() - begun >= 1.0
            await asyncio.sleep(0.3)
            assert house.said() == ["re hello there"]

    async def test_the_secrets_are_in_no_log(self, house: ChatHouse, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        async with house.running():
            house.say(house.direct, house.ann, "hello")
            await holds(lambda: house.said() == ["re hello"])
            house.fake.cut()
            house.say(house.direct, house.ann, "again")
            await holds(lambda: house.said()[-1] == "re again")
        for secret in house.secrets.values():
            assert [record.name for record in caplog.records if secret in f"{record.getMessage()} {record.__dict__}"] == []
