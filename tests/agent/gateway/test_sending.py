"""Files and pictures that are sent to chats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import Image, ProviderTurn, ToolCall
from toolcrib.chat import Chat, Traits
from toolcrib.testing import ScriptedSession

BOBS = Chat("bobs")
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def house(house: House) -> House:
    house.platform.traits = Traits(max_file_bytes=1_000)
    return house


def scripted(house: House, *turns: Any) -> ScriptedSession:
    model = ScriptedSession(*turns)
    house.prepare = lambda session: session.link.use(model)  # type: ignore[method-assign]  # a scripted model
    return model


async def results(house: House) -> list[str]:
    [info] = await house.store.sessions.list(10)
    records = await house.store.sessions.messages(info.id)
    return [result["text"] for one in records if one["role"] == "results" for result in one["results"]]


async def test_a_model_sends_a_file_and_a_copy_of_it_is_shown(house: House) -> None:
    file = house.folder / "report.png"
    file.write_bytes(PNG)
    scripted(house, [("send_file", {"path": str(file), "text": "the report"})], "there it is")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("send it")
        await house.until(lambda: house.platform.texts() == ["the report", "there it is"])
        [sent] = house.platform.shown[0].out.files
        file.write_bytes(b"changed")
        assert (sent.name, sent.media_type, sent.path.read_bytes()) == ("report.png", "image/png", PNG)
        assert (sent.path.stat().st_mode & 0o777, sent.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert json.loads((await results(house))[0]) == {"sent": "report.png", "bytes": len(PNG)}


@pytest.mark.parametrize("in_one_run", [True, False])
async def test_every_file_comes_where_a_provider_gives_the_id_of_a_call_again(house: House, in_one_run: bool) -> None:
    """Some providers repeat ids, in a run and between the runs of a session. The second file must be sent too."""
    first, second = house.folder / "first.txt", house.folder / "second.txt"
    turns = [
        ProviderTurn("", (ToolCall("call_0", "send_file", {"path": str(file)}),), assistant_turn="x") for file in (first, second)
    ]
    scripted(house, *([*turns, "done"] if in_one_run else [turns[0], "half", turns[1], "done"]))
    first.write_text("1")
    second.write_text("2")
    async with house.gateway() as gateway:
        line_of(gateway)
        for end in ("done",) if in_one_run else ("half", "done"):
            await house.platform.says("send it")
            await house.until(lambda end=end: house.platform.texts()[-1:] == [end])  # type: ignore[misc]  # bound
        sent = [(file.name, file.path.read_bytes()) for one in house.platform.shown for file in one.out.files]
    assert sent == [("first.txt", b"1"), ("second.txt", b"2")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone.txt", "gone.txt"),
        ("large.bin", "is larger than the 1,000 bytes that this chat accepts"),
        ("folder", "is not a regular file"),
    ],
)
async def test_what_is_not_sent_is_told(house: House, name: str, said: str) -> None:
    (house.folder / "large.bin").write_bytes(b"x" * 1_001)
    (house.folder / "folder").mkdir()
    scripted(house, [("send_file", {"path": str(house.folder / name)})], "no")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("send it")
        await house.until(lambda: house.platform.texts() == ["no"])
    assert said in (await results(house))[0]


async def test_our_own_files_are_not_sent(house: House, tmp_path: Path) -> None:
    secrets = house.config.with_name("secrets.env")
    secrets.write_text("KEY=1\n")
    secrets.chmod(0o600)
    scripted(house, [("send_file", {"path": str(secrets)})], "no")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("send it")
        await house.until(lambda: house.platform.texts()[-1:] == ["no"])
    assert not house.platform.shown[0].out.files
    assert "KEY" not in (await results(house))[0]


@pytest.mark.parametrize("most", [0, 1_000])
async def test_chats_have_it_where_they_have_a_place_and_the_platform_takes_files(house: House, most: int) -> None:
    house.platform.traits = Traits(max_file_bytes=most)
    house.configure(OWNED.replace("    allow_local: true\n", ""))
    async with house.gateway() as gateway:
        line = line_of(gateway)
        for user, chat in (("ann", Chat("direct")), ("bob", BOBS)):
            await house.platform.says("hello", user=user, chat=chat)
            await house.until(lambda chat=chat: house.platform.texts(chat))  # type: ignore[misc]  # bound
        names = {info.user: (await line.manager.opened(info.id)).names for info in await house.store.sessions.list(10)}
    assert ("send_file" in names["ann"], "send_file" in names["bob"]) == (most > 0, False)


async def test_pictures_that_a_model_makes_are_shown(house: House) -> None:
    small, large = Image("image/png", PNG), Image("image/png", PNG + b"\0" * 1_000)
    scripted(house, ProviderTurn("two of them", images=(small, large), assistant_turn="x"))
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("draw")
        await house.until(lambda: len(house.platform.shown) == 3)
    files = [file for one in house.platform.shown for file in one.out.files]
    assert [(file.name, file.path.read_bytes()) for file in files] == [("picture.png", PNG)]
    assert any("too large for this chat" in text for text in house.platform.texts())
    assert "two of them" in house.platform.texts()
