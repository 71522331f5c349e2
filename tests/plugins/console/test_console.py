"""The console platform: its socket, and the output of each terminal."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.policy import passphrase
from agent.store.memory import MemoryStore
from plugins.console.place import LINE_BYTES, packed
from plugins.console.platform import ConsolePlatform
from tests.plugins.console.test_console_hostile import ConsoleHouse
from tests.plugins.console.test_console_hostile import house as house
from toolcrib import StoreFailed
from toolcrib.testing import FakeHost


async def test_messages_are_new_ones_in_each_process_and_after_presses(house: ConsoleHouse) -> None:
    for start in range(4):
        async with house.running(getpass.getuser()), house.terminal() as terminal:
            terminal.line({"press": ["m1", "y"]})
            for number in range(3):
                terminal.line({"text": f"message {number} of start {start}"})
                await terminal.next_line("text", f"re message {number} of start {start}")
    assert len(house.asked) == 12


async def test_a_second_gateway_leaves_the_socket_of_the_first_one_alone(house: ConsoleHouse) -> None:
    second = ConsoleHouse(house.folder, MemoryStore())  # like a gateway with another HOME, which does not see the lease
    async with house.running(getpass.getuser()):
        async with second.gateway() as gateway:
            assert "another gateway of this account listens" in gateway.lines[0].problem
            assert not gateway.can_run
        await house.answered()
    assert not house.path.exists()
    async with second.gateway() as gateway:
        assert gateway.lines[0].problem == ""
    second.cribs[0].close()
    second.cribs[1].close()


async def test_a_dead_socket_is_replaced_and_another_s_is_left(house: ConsoleHouse) -> None:
    house.path = house.folder / "s" / "gateway"
    house.path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(house.path))
    async with house.running(getpass.getuser()):
        await house.answered()
        house.path.unlink()
        with socket.socket(socket.AF_UNIX) as another:
            another.bind(str(house.path))
    assert house.path.exists()


async def test_what_is_no_socket_is_left_alone(house: ConsoleHouse) -> None:
    async with house.running(getpass.getuser()):
        pass
    house.path.write_text("somebody's notes")
    async with house.gateway() as gateway:
        assert "is not a socket" in gateway.lines[0].problem
    assert house.path.read_text() == "somebody's notes"


async def test_a_terminal_that_can_t_be_identified_now_is_told_so_and_is_nobody_else(
    house: ConsoleHouse, no_files: Callable[..., AbstractContextManager[None]]
) -> None:
    async with house.running(getpass.getuser()):
        with socket.socket(socket.AF_UNIX) as link:
            link.setblocking(False)
            loop = asyncio.get_running_loop()
            with no_files(spare=1):  # for the accepted connection
                await loop.sock_connect(link, str(house.path))
                async with asyncio.timeout(30):
                    told = json.loads(await loop.sock_recv(link, 4096))
        assert told == {"problem": "this terminal can't be identified now: Too many open files; connect again later"}
        await house.answered()


@asynccontextmanager
async def client(house: ConsoleHouse, stdin: int = PIPE) -> AsyncIterator[Process]:
    """Run the terminal's side with a pipe as its keyboard. It is no child of the gateway, because the gateway hosts sessions."""
    code = (
        "import argparse, sys; from plugins.console import client; p = argparse.ArgumentParser(); client.configure(p);"
        "sys.exit(client.run(p.parse_args(sys.argv[1:])))"
    )
    argv = ["setsid", "--fork", sys.executable, "-c", code, "--socket", str(house.path)]
    process = await asyncio.create_subprocess_exec(*argv, stdin=stdin, stdout=PIPE)
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        assert process.stdout is not None
        if process.stdin is not None:
            process.stdin.close()  # closing its input ends the terminal's side
        while await process.stdout.readline():
            pass
        await process.wait()


async def typed(process: Process, text: str) -> str:
    """Type a line, and return the next output line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{text}\n".encode())
    return (await process.stdout.readline()).decode()


async def test_an_answer_s_line_ends_before_the_next_one(house: ConsoleHouse) -> None:
    async with house.running(getpass.getuser()), client(house) as process:
        assert await typed(process, "hello there") == "re hello there\n"
        assert (await typed(process, "/title mine")).endswith("\n")
        assert await typed(process, "and again") == "re and again\n"
        rest, _ = await process.communicate(b"")
        assert rest == b""


async def test_a_file_as_standard_input_is_read_to_its_end(house: ConsoleHouse, tmp_path: Path) -> None:
    (tmp_path / "said").write_bytes(b"\xef\xbb\xbfhello there\n")  # it begins with a byte order mark
    async with house.running(getpass.getuser()):
        for file in (Path(os.devnull), tmp_path / "said"):
            with file.open("rb") as opened:
                async with client(house, opened.fileno()):
                    pass  # leaving the block waits until the terminal's side has ended
        await house.until(lambda: len(house.asked) == 1)
        assert house.asked == ["hello there"]


def test_a_missing_passphrase_is_a_shortcoming(tmp_path: Path) -> None:
    made = ConsolePlatform("console", FakeHost(settings={"socket": str(tmp_path / "socket")}))
    assert [fix for _, fix in made.shortcomings] == ["toolcrib gateway passphrase"]
    passphrase.set_passphrase("four cranes lift paper")
    assert not made.shortcomings


async def test_a_button_that_was_meant_for_a_question_presses_none_of_the_next_one(house: ConsoleHouse) -> None:
    lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in ("one", "two"):
            writer.write(packed({"id": number, "text": f"{number}?", "buttons": [["y", "yes"]]}))
        while line := await reader.readline():
            lines.put_nowait(json.loads(line))
        writer.close()

    house.path = house.folder / "socket"
    async with await asyncio.start_unix_server(gateway, house.path), client(house) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = [(await process.stdout.readline()).decode() for _ in range(4)]
        assert "two?" in shown[2]
        assert "another question has just arrived" in await typed(process, ":1")
        await asyncio.sleep(2.1)
        process.stdin.write(b":1\n")
        assert await lines.get() == {"hello": "main"}
        assert await lines.get() == {"press": ["two", "y"]}


async def test_lines_that_are_too_long_are_passed_over(house: ConsoleHouse) -> None:
    """Lines longer than a pipe's buffer are sent. Lines that the gateway would refuse are not sent, and the chat continues."""
    async with house.running(getpass.getuser()), client(house) as process:
        assert "not sent: that line is longer than 1 MiB" in await typed(process, "x" * 3_000_000)
        assert "not sent: that line is longer than 1 MiB" in await typed(process, "\u00e9" * 400_000)
        assert process.stdin is not None
        process.stdin.write(b"y" * 200_000 + b"\n")
        await house.until(lambda: house.asked)
        assert len(house.asked[0]) > 65_536


async def test_a_line_that_is_too_long_ends_no_connection(house: ConsoleHouse) -> None:
    async with house.running(getpass.getuser()), house.terminal() as terminal:
        terminal.line(b"x" * (3 * LINE_BYTES))
        await terminal.next_line("problem", "a line of more than 1 MiB is not accepted")
        terminal.line({"text": "still here"})
        await terminal.next_line("text", "re still here")


async def test_what_was_not_taken_is_told(house: ConsoleHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(mail: object) -> None:
        raise StoreFailed("the disk is full")

    async with contextlib.AsyncExitStack() as stays:
        async with house.running(getpass.getuser()):
            async with house.terminal() as terminal:
                for _ in range(2):  # repeated, as if the connection was lost before the acknowledgement arrived
                    terminal.line({"id": "7", "text": "taken once"})
                    await terminal.next_line("taken", "7")
                await terminal.next_line("text", "re taken once")
            process = await stays.enter_async_context(client(house))
            assert await typed(process, "hello there") == "re hello there\n"
            monkeypatch.setattr(house.store.mail, "arrived", full)
            assert await typed(process, "and\tthis") == "(the disk is full: retrying)\n"
        assert process.stdout is not None
        rest = (await process.stdout.read()).decode()
    assert rest == "(the connection to the gateway has ended)\n(not accepted: and\tthis)\n"
    assert house.asked == ["taken once", "hello there"]
