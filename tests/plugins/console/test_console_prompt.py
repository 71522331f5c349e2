"""The prompt of ``toolcrib console``: it shows calls and the connection, and outlives the gateway."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from plugins.console import client
from plugins.console.place import gateway_path, socket_path
from tests.plugins.console.test_console_clients import TALK
from tests.plugins.console.test_console_hostile import ConsoleHouse
from tests.plugins.console.test_console_hostile import house as house
from tests.plugins.console.test_console_unlock import Window
from toolcrib import ToolcribError

ENV = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(Path.cwd())}
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def open_window(tmp_path: Path, root: Path, house: ConsoleHouse) -> Iterator[Any]:
    opened: list[Window] = []

    def open_window() -> Window:
        opened.append(Window(tmp_path, root, house.path))
        return opened[-1]

    yield open_window
    for window in opened:
        window.close()


@needs_tmux
async def test_the_prompt_shows_calls_and_the_connection_and_comes_back(house: ConsoleHouse, open_window: Any) -> None:
    folder = house.folder / "build"
    async with house.running(getpass.getuser()):
        window = open_window()
        await window.sees("(connected: /help lists the commands of the chat, :quit leaves) main>")
        window.types(f"rm -f {folder}")
        await window.sees(f"· terminal: rm -f {folder}")
        await window.sees("ran it main>")
    await window.sees("(not connected) main>")
    window.types("typed meanwhile")
    window.types(":1")
    await window.sees("> typed meanwhile")
    window.types(":unlock")
    await window.sees("(not asked: the gateway is not connected")
    async with house.running(getpass.getuser()):
        await window.sees("(connected again: type :unlock before you decide)")
        await window.sees("re typed meanwhile main>")
        window.types(":quit")
    assert [text for text in house.asked if "typed" in text] == ["typed meanwhile"]


async def test_a_message_that_was_never_taken_is_reported_at_the_end(tmp_path: Path) -> None:
    """Ctrl-C leaves too, with exit code 130."""

    async def gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    path = tmp_path / "socket"
    for leaves, code in ((":quit\r", 0), ("\x03", 130)):
        async with await asyncio.start_unix_server(gateway, path) as server:
            program = pexpect.spawn(sys.executable, ["-c", TALK, "--socket", str(path)], env=ENV, encoding="utf-8", timeout=60)
            await asyncio.to_thread(program.expect, r"\(not connected: the gateway has ended the connection")
            server.close()
            path.unlink()
        program.send("hello\r")
        await asyncio.to_thread(program.expect, "> hello")
        program.send(leaves)
        if not code:
            await asyncio.to_thread(program.expect, r"\(not accepted: hello\)")
        await asyncio.to_thread(program.expect, pexpect.EOF)
        program.close()
        assert program.exitstatus == code


async def test_calls_reach_each_terminal_of_the_chat_without_secrets(
    house: ConsoleHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    async with house.running(getpass.getuser()), house.terminal() as terminal, house.terminal("other") as other:
        terminal.line({"text": "rm -f hunter2hunter2"})
        shown = await terminal.next_line("call", "terminal: rm -f")
        assert "hunter2" not in json.dumps(shown)
        await terminal.next_line("text", "ran it")
        other.line({"text": "hello"})
        assert "call" not in await other.next_line("text", "re hello")


async def test_each_state_folder_has_its_own_gateway(
    house: ConsoleHouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A terminal finds the socket of its own state folder's gateway, at any path, and never the socket of another gateway."""
    async with house.running(getpass.getuser()):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "of-this-terminal"))
        assert gateway_path() == house.path
        monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "another"))
        assert gateway_path() == socket_path() != house.path
        parser = argparse.ArgumentParser()
        client.configure(parser)
        with pytest.raises(ToolcribError, match="no gateway listens at"):
            await client._talk(parser.parse_args([]))
        (tmp_path / "another").mkdir()
        (tmp_path / "another" / "console-socket").write_bytes(b"\xff\xfe")
        assert gateway_path() == socket_path()
