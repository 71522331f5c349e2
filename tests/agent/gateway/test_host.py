"""Tests of a platform's secrets, from the file beside the configuration, and of the users whose invitations it may accept."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agent.config import state_dir
from agent.gateway.pairing import Pairings
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import ConfigError
from toolcrib.chat import Chat


async def test_a_secret_is_read_beside_the_configuration_that_is_used(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAKE_TOKEN", raising=False)
    secrets = house.folder / "secrets.env"
    secrets.write_text("FAKE_TOKEN=beside\n")
    secrets.chmod(0o600)
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        assert door.secret("FAKE_TOKEN") == "beside"
        with pytest.raises(ConfigError, match=str(Path(secrets))):
            door.secret("OTHER_TOKEN")
        monkeypatch.setenv("FAKE_TOKEN", "of the environment")
        assert door.secret("FAKE_TOKEN") == "of the environment"


async def test_a_platform_may_ask_whether_somebody_is_listened_to(house: House) -> None:
    house.configure(OWNED.replace("['*']", "[room]"))
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        room, elsewhere = Chat("room", is_group=True), Chat("elsewhere", is_group=True)
        assert await door.listens(Chat("d"), "bob")
        assert await door.listens(room, "bob")
        assert not await door.listens(elsewhere, "bob")
        assert not await door.listens(Chat("d"), "eve", ["owner"])
        assert not await door.listens(Chat("d\0"), "ann")
    decisions = [entry.decision for entry in await house.store.audit.entries()]
    assert decisions == ["refused: group", "refused: stranger"]
    assert await house.store.mail.chats() == []


async def test_a_platform_may_ask_whose_invitation_to_follow(house: House) -> None:
    house.configure(OWNED.replace("['*']", "[room]"))
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        room, elsewhere = Chat("room", is_group=True), Chat("elsewhere", is_group=True)
        assert await door.follows(Chat("d"), "bob")
        assert await door.follows(elsewhere, "bob")  # a user who may speak may invite the bot; messages there are refused
        assert await door.follows(room, "eve")
        for chat in (Chat("d"), elsewhere, Chat("*")):
            assert not await door.follows(chat, "eve", ["owner"])
        assert not await door.follows(Chat("d\0"), "ann")
        await Pairings(house.store, "fake").offer()
        assert await door.follows(Chat("d"), "eve")
        assert not await door.follows(elsewhere, "eve")
    entries = await house.store.audit.entries()
    assert [(entry.decision, entry.detail["times"]) for entry in entries] == [("refused: stranger", 1)]
    assert await house.store.mail.chats() == []


async def test_a_platform_has_a_folder_that_nobody_else_reads(house: House) -> None:
    async with house.gateway() as gateway:
        folder = line_of(gateway).door.folder
        assert folder == state_dir() / "platforms" / "fake"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
