"""The console passes the suite for chat platforms, with a terminal that stays open while the gateway runs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import pwd
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from plugins.console.place import packed
from plugins.console.platform import ConsolePlatform
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage

ME = pwd.getpwuid(os.getuid()).pw_name


class Terminal(asyncio.Protocol):
    """A terminal that repeats unacknowledged lines over each new connection."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.waiting: dict[str, dict[str, Any]] = {}
        self.is_closed = asyncio.Event()
        self._transport: Any = None
        self._rest = b""

    async def open(self, path: Path) -> None:
        """Connect, and return when the gateway knows this terminal's chat."""
        self._rest, known = b"", len(self.lines)
        self.is_closed.clear()
        self._transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, str(path))
        for line in ({"hello": "main"}, *self.waiting.values()):
            self.send(line)
        async with asyncio.timeout(60):
            while not any("chat" in one for one in self.lines[known:]):
                await asyncio.sleep(0.01)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.lines.append(json.loads(line))
            self.waiting.pop(str(self.lines[-1].get("taken")), None)

    def send(self, line: dict[str, Any]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(packed(line))

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed.set()


class ConsoleDesk(PlatformDesk):
    direct, gone = Chat(f"{ME}/main"), Chat("nobody")
    user, other = ME, "somebody-else"

    def __init__(self, folder: Path) -> None:
        path = folder / "s" / "gateway"
        terminal = self.terminal = Terminal()

        class WithTerminal(ConsolePlatform):
            """A platform that opens the terminal once the gateway runs."""

            async def start(self) -> None:
                await super().start()
                await terminal.open(path)

        self.factory = WithTerminal
        self.settings = {"socket": str(path)}
        self._path = path
        self._ids = itertools.count(1)

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        number = f"u{next(self._ids)}"
        self.terminal.waiting[number] = {"id": number, "text": text, "reply_to": reply_to}
        self.terminal.send(self.terminal.waiting[number])
        return number

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str:
        known = len(self.terminal.lines)
        self.terminal.send({"press": [message_id, choice]})
        async with asyncio.timeout(60):
            while not (told := [one["notice"] for one in self.terminal.lines[known:] if "notice" in one]):
                await asyncio.sleep(0.01)
        return str(told[0])

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        await asyncio.sleep(0.01)  # data that was written arrives in the loop's next turn
        lines = [one for one in self.terminal.lines if "text" in one]
        newest = {one["id"]: SeenMessage(one["id"], one["text"], [choice for choice, _ in one["buttons"]]) for one in lines}
        return list(newest.values())

    async def kill(self) -> None:
        """Close the terminal."""
        self.terminal.cut()
        await self.terminal.is_closed.wait()

    async def revive(self) -> None:
        await self.terminal.open(self._path)


class TestConsole(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[ConsoleDesk]:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            desk = ConsoleDesk(Path(folder))
            stack.callback(desk.terminal.cut)
            yield desk
