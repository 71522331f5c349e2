"""A /stop applies to the messages before it, in any state: not begun yet, running, or left to the next process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent.gateway.forms import inbound_json
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib.chat import Attachment, Chat, Inbound, NotSent
from toolcrib.contract.mail import Mail
from toolcrib.testing import FakePlatform


class SlowFiles(FakePlatform):
    """A platform that takes a while for a file, as servers do: later messages of its chat wait."""

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        await asyncio.sleep(0.5)
        yield b"file"


DIRECT, GROUP = Chat("direct"), Chat("room", is_group=True)


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_stop_right_behind_its_message_ends_what_that_begins(house: House, *, is_open: bool) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        if is_open:
            await house.platform.says("hello")
            await house.until(lambda: house.platform.texts() == ["re hello"])
        await house.platform.says("wait")
        await house.platform.says("/stop")
        await house.until(lambda: "interrupted" in "".join(house.platform.texts()[-1:]))
        await house.platform.says("and now?")
        await house.until(lambda: house.platform.texts()[-1] == "re and now?")
        house.may.set()
    assert "re wait" not in house.platform.texts()


async def test_what_was_said_behind_the_stop_is_answered_and_what_is_somebody_elses_stays(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait", user="bob", chat=GROUP, is_addressed=True)
        await house.platform.says("/stop", user="carl", chat=GROUP)
        await house.until(lambda: house.platform.texts(GROUP) == ["Another user started that run."])
        await house.platform.says("/stop", user="bob", chat=GROUP)
        await house.platform.says("wait, and continue", user="bob", chat=GROUP, is_addressed=True)
        await house.until(lambda: any("continue" in one for one in house.asked))
        house.may.set()
        await house.until(lambda: any("continue" in text for text in house.platform.texts(GROUP)))
    assert any("interrupted" in text for text in house.platform.texts(GROUP))


async def test_a_stop_in_a_group_leaves_what_others_are_still_to_be_shown(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        house.platform.failing = [NotSent("busy", retry_after=1.0)]
        await house.platform.says("hello", user="carl", chat=GROUP, is_addressed=True)
        await house.until(lambda: not house.platform.failing)
        await house.platform.says("wait", user="bob", chat=GROUP, is_addressed=True)
        await house.until(lambda: len(house.asked) == 2)
        await house.platform.says("/stop", user="bob", chat=GROUP)
        await house.until(lambda: any("interrupted" in text for text in house.platform.texts(GROUP)))
        assert house.platform.texts(GROUP)[0] == "re carl: hello"


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_what_is_said_while_a_gateway_drains_ends_its_run_at_once(house: House, word: str) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        serving = asyncio.create_task(gateway.serve())
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        gateway.end()
        await house.until(lambda: gateway.lines[0].state == "draining")
        await house.platform.says("behind it")
        await house.platform.says(word)
        async with asyncio.timeout(60):
            await serving
    house.may.set()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: "re behind it" in house.platform.texts())
    assert "re wait" not in house.platform.texts()
    assert house.asked == ["wait", "behind it"]


async def test_a_no_is_taken_while_a_gateway_drains_and_a_yes_waits(house: House) -> None:
    for name in ("one", "two"):
        (house.folder / name).mkdir()
    chats = {"one": DIRECT, "two": Chat("another")}
    async with house.gateway() as gateway:
        line_of(gateway)
        serving = asyncio.create_task(gateway.serve())
        for name, chat in chats.items():
            await house.platform.says(f"rm -rf {house.folder}/{name}", chat=chat)
            await house.until(lambda chat=chat: any(one.out.buttons for one in house.platform.shown if one.out.chat == chat))  # type: ignore[misc]  # bound
        await house.platform.says("wait", chat=Chat("busy"))
        await house.until(lambda: "wait" in house.asked)
        gateway.end()
        await house.until(lambda: gateway.lines[0].state == "draining")
        await house.platform.says("no", chat=chats["one"])
        await house.platform.says("yes", chat=chats["two"])
        await house.until(lambda: any("denied" in text for text in house.platform.texts(chats["one"])))
        assert len(await house.store.tickets.pending()) == 1
        house.may.set()
        await serving


async def test_a_stop_that_was_kept_for_the_next_process_ends_the_run_that_goes_on_there(house: House) -> None:
    house.configure(OWNED + "gateway: {drain_seconds: 0.1}\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        gateway.end()
        await gateway.serve()
    said = Inbound(DIRECT, "ann", "kept", "/stop")
    await house.store.mail.arrived(Mail("fake", DIRECT.key, said.message_id, inbound_json(said)))
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: any("topped" in text or "interrupted" in text for text in house.platform.texts()))
        house.may.set()
        await house.platform.says("and now?")
        await house.until(lambda: house.platform.texts()[-1] == "re and now?")
    assert "re wait" not in house.platform.texts()


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_a_stop_that_was_kept_holds_before_its_run_asks_the_model_again(house: House, word: str) -> None:
    house.configure(OWNED + "gateway: {drain_seconds: 0.1}\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        gateway.end()
        await gateway.serve()
    house.platform = SlowFiles()
    for said in ("behind it", word, "and now?"):
        kept = Inbound(DIRECT, "ann", said, said, attachments=[Attachment("a.txt")] if said == "behind it" else [])
        await house.store.mail.arrived(Mail("fake", DIRECT.key, kept.message_id, inbound_json(kept)))
    house.may.set()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: "re and now?" in house.platform.texts())
    assert house.asked[0] == "wait"
    assert [text.partition("\n")[0] for text in house.asked[1:]] == (["behind it"] if word == "/stop" else []) + ["and now?"]


async def test_a_stop_that_was_kept_ends_a_message_that_was_kept_before_it(house: House) -> None:
    for said in ("hello", "/stop", "and now?"):
        kept = Inbound(DIRECT, "ann", said, said)
        await house.store.mail.arrived(Mail("fake", DIRECT.key, kept.message_id, inbound_json(kept)))
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: "re and now?" in house.platform.texts())
    assert house.asked == ["and now?"]
