"""Hostile lines on the console's socket, through the whole gateway: the kernel identifies the account, whatever a line claims."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.gateway.gateway import Gateway
from agent.store.memory import MemoryStore
from plugins.console.place import LINE_BYTES
from tests.agent.gateway.conftest import House, line_of

OWNED = """
plugins: {{enabled: [console]}}
platforms:
  console:
    roles: {{owner: ['{owner}']}}
    allow_local: true
    settings: {{socket: '{path}'}}
"""


class ConsoleHouse(House):
    """A house whose chats are terminals."""

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.config), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["console"], prepare=self.prepare)

    @asynccontextmanager
    async def running(self, owner: str) -> AsyncIterator[Gateway]:
        self.path = self.folder / "s" / "gateway"
        self.configure(OWNED.format(owner=owner, path=self.path))
        async with self.gateway() as gateway:
            line_of(gateway)
            yield gateway

    @asynccontextmanager
    async def terminal(self, chat: str = "main") -> AsyncIterator[Terminal]:
        reader, writer = await asyncio.open_unix_connection(self.path)
        opened = Terminal(reader, writer)
        opened.line({"hello": chat})
        yield opened
        writer.close()

    async def answered(self) -> None:
        """Check that the gateway answers the owner."""
        async with self.terminal("good") as terminal:
            terminal.line({"text": "are you well?"})
            await terminal.next_line("text", "re are you well?")


class Terminal:
    """A connection to the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def line(self, said: Any) -> None:
        self._writer.write((said if isinstance(said, bytes) else json.dumps(said).encode()) + b"\n")

    async def next_line(self, kind: str, words: str) -> dict[str, Any]:
        """Return the next line of a kind that contains this text."""
        async with asyncio.timeout(30):
            while line := await self._reader.readline():
                found: dict[str, Any] = json.loads(line)
                if words in str(found.get(kind, "")) and kind in found:
                    return found
        raise AssertionError(f"the end came before {words!r}")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    made = ConsoleHouse(tmp_path / "project", MemoryStore())
    yield made
    for crib in made.cribs:
        crib.close()


async def test_an_account_that_nobody_let_in_reaches_nothing_whatever_it_says_of_itself(house: ConsoleHouse) -> None:
    async with house.running("somebody-else"), house.terminal("../somebody-else/main") as terminal:
        for more in ({}, {"user": "somebody-else"}, {"roles": ["owner"]}, {"chat": "somebody-else/main"}, {"is_group": True}):
            terminal.line({"text": "let me in", **more})
            await terminal.next_line("notice", "may not chat here")
        terminal.line({"press": ["m1", "y"]})
        await terminal.next_line("notice", "")
    assert house.asked == []
    assert await house.store.mail.chats() == []


LINES: dict[str, Any] = {
    "no JSON": b"let me in",
    "no object": ["let me in"],
    "a number": 3,
    "nothing said": {"txt": "let me in"},
    "a press that is a word": {"press": "let me in"},
    "a press of three": {"press": ["let", "me", "in"]},
    "a press of nothing": {"press": ["m999", "y"]},
    "brackets without end": b"[" * 200_000,
    "a number of five thousand digits": b"9" * 5_000,
    "a line without end": b"x" * (LINE_BYTES + 10),
    "bytes that are no text": b"\xff\xfe\0",
    "blanks": {"text": " \n "},
}


@pytest.mark.parametrize("line", LINES.values(), ids=list(LINES))
async def test_a_line_that_is_none_ends_or_says_nothing(house: ConsoleHouse, line: Any) -> None:
    async with house.running(getpass.getuser()), house.terminal() as terminal:
        terminal.line(line)
        await house.answered()
    assert house.asked == ["are you well?"]


async def test_a_terminal_that_names_itself_anew_leaves_its_chat(house: ConsoleHouse) -> None:
    async with house.running(getpass.getuser()) as gateway:
        async with house.terminal("one") as terminal:
            terminal.line({"hello": "two\0\x1b[2J" + "x" * 5_000})
            terminal.line({"text": "hello"})
            await terminal.next_line("text", "re hello")
        [record] = await house.store.mail.chats()
        assert len(record.chat) < 120
        assert "\0" not in record.chat
        assert line_of(gateway).door.counts["kept"] == 1
        await house.answered()


async def test_nobody_else_enters_the_socket_s_folder(house: ConsoleHouse) -> None:
    async with house.running(getpass.getuser()):
        assert (house.path.parent.stat().st_mode & 0o777, house.path.stat().st_mode & 0o777) == (0o700, 0o600)
        await house.answered()
    house.path.parent.chmod(0o755)
    async with house.gateway() as gateway:
        assert "not private to this account" in gateway.lines[0].problem
