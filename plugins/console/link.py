"""The connection of ``toolcrib console`` to the gateway, which can be reopened after a loss."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import state_dir
from agent.policy.local_peer import LocalPeer
from plugins.console.place import LINE_BYTES, next_line, packed
from plugins.console.screen import ConsoleScreen, tame
from toolcrib import ToolcribError

if TYPE_CHECKING:
    import socket

_TAKEN_SECONDS = 5.0
"""Seconds that a closing terminal waits for the gateway to take its last message."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class GatewayLink:
    """A connection for one chat. With ``lasts`` it reconnects, and sends messages again that the gateway did not take."""

    def __init__(self, path: Path, chat: str, screen: ConsoleScreen, *, lasts: bool) -> None:
        self._path = path
        self._chat = chat
        self._screen = screen
        self._lasts = lasts
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._sent: dict[str, tuple[str, str]] = {}
        """Typed lines that were not taken yet, with the messages that they answer, by the ids that we gave the lines."""
        self._all_taken = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """True while the connection is open."""
        return self._writer is not None

    async def connect(self) -> None:
        """Connect, and send what was not taken. Raises ToolcribError."""
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(self._path, limit=LINE_BYTES)
        except OSError as error:
            raise ToolcribError(
                f"no gateway listens at {self._path} ({error.strerror}); to start one: toolcrib gateway run console"
            ) from error
        self.send(hello=self._chat)
        if not self.is_outside:
            self._screen.line(
                f"(the program that listens at {self._path} may be a session's command: it is not proven to run outside all"
                " sessions)"
            )
        for number in self._sent:
            self._offer(number)

    @property
    def is_outside(self) -> bool:
        """True if the gateway is proven to run outside of all sessions, so that it can't be a command of a session."""
        if self._writer is None:
            return False
        link: socket.socket = self._writer.get_extra_info("socket")
        gateway = LocalPeer(link)
        is_outside = gateway.is_outside([state_dir()])
        gateway.close()
        return is_outside

    def send(self, **line: Any) -> None:
        """Write a line, if the gateway is connected."""
        if self._writer is not None:
            self._writer.write(packed(line))

    def message(self, text: str, reply_to: str = "") -> None:
        """Send a message, now or when the gateway is connected again."""
        number = secrets.token_hex(8)
        self._sent[number] = text, reply_to
        self._all_taken.clear()
        self._offer(number)

    def _offer(self, number: str) -> None:
        text, reply_to = self._sent[number]
        self.send(id=number, text=text, reply_to=reply_to)

    async def drain(self) -> None:
        """If the gateway is connected, wait while too much is unsent."""
        if self._writer is not None:
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    async def run(self) -> None:
        """Show the gateway's lines until the connection ends, or forever with ``lasts``."""
        pause = _SHORTEST_PAUSE
        while True:
            begun = time.monotonic()
            with contextlib.suppress(ConnectionError):
                await self._show()
            self._disconnect()
            if not self._lasts:
                self._screen.line("(the connection to the gateway has ended)")
                return
            self._screen.line("(not connected: the gateway has ended the connection. Messages are sent when it is back)")
            self._screen.writing(False)
            if time.monotonic() - begun > _LONGEST_PAUSE:
                pause = _SHORTEST_PAUSE
            while not self.is_connected:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
                with contextlib.suppress(ToolcribError):
                    await self.connect()
            self._screen.line("(connected again: type :unlock before you decide)")

    async def close(self) -> None:
        """Disconnect when the gateway has taken the last message, or after a few seconds."""
        if self._sent and self.is_connected:  # the gateway can check the sender only while this process runs
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_taken.wait(), _TAKEN_SECONDS)
        self._screen.end_line()
        self._disconnect()

    def report_rest(self) -> None:
        """Print the messages that the gateway did not take."""
        for text, _ in self._sent.values():
            self._screen.line(f"(not accepted: {tame(text)})")

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    async def _show(self) -> None:
        screen = self._screen
        while (line := await next_line(self._reader)) != b"":
            if line is None:
                screen.line(f"(a message of more than {LINE_BYTES // 2**20} MiB can't be shown here)")
                continue
            told: dict[str, Any] = json.loads(line)
            if "text" in told:
                screen.message(str(told["id"]), str(told["text"]), told.get("buttons") or [], told.get("files") or [])
            elif "taken" in told:
                self._answered(str(told["taken"]))
            elif "typing" in told:
                screen.writing(bool(told["typing"]))
            elif "call" in told:
                screen.aside(f"  · {tame(str(told['call']))}")
            elif said := told.get("notice") or told.get("problem"):
                screen.line(f"({tame(str(said))})")
                self._answered(str(told.get("refused")))

    def _answered(self, number: str) -> None:
        """Record that the gateway took or refused a line."""
        self._sent.pop(number, None)
        if not self._sent:
            self._all_taken.set()
