"""A user at a terminal of a session that another process has open."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
from pathlib import Path

from agent.background.attach_socket import LONGEST, is_users, send
from agent.background.reaching import Unreached
from agent.store._signals import reachable
from toolcrib.contract.terminal import TerminalSize
from tools.screen.terminal import ScreenCursor
from tools.terminals.terminal import TerminalView

_CLOSES = 2.0
"""Seconds that the other process may take to read the last keys."""
_GONE = "is out of reach: the toolcrib that had its session open has ended"


class RemoteAttached:
    """A user's connection to a terminal of another process: see LocalAttached."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.end = _GONE
        """Why it ended."""

    async def next(self) -> TerminalView | None:
        """See LocalAttached."""
        with contextlib.suppress(OSError, ValueError):  # ended within a message
            message = json.loads(await self._reader.readline())
            if "end" in message:
                self.end = message["end"]
                return None
            rows, columns, cursor, *modes = message["view"]
            return TerminalView(tuple(rows), columns, ScreenCursor(*cursor), *modes)
        return None

    async def type(self, data: bytes, window: TerminalSize) -> None:
        """See LocalAttached."""
        send(self._writer, window=(window.columns, window.rows), type=base64.b64encode(data).decode())

    async def resize(self, window: TerminalSize) -> None:
        """See LocalAttached."""
        await self.type(b"", window)

    async def close(self) -> None:
        """See LocalAttached."""
        self._writer.close()
        with contextlib.suppress(OSError):  # also TimeoutError: the other process does not read what was typed
            async with asyncio.timeout(_CLOSES):
                await self._writer.wait_closed()
        self._writer.transport.abort()


async def attach(path: str) -> RemoteAttached:
    """Connect to the socket that ``offer`` made. Raises Unreached."""
    place, link = Path(path), socket.socket(socket.AF_UNIX)
    try:
        with reachable(place.parent) as near:
            link.connect(os.fsencode(near / place.name))
    except OSError as error:
        why = f"{path}: {error.strerror}"
        raise Unreached(f"the session is open on another machine or in another account: attach there ({why})") from error
    if not is_users(link):
        raise Unreached("the toolcrib that has the session open is not proven to run outside of all sessions")
    return RemoteAttached(*await asyncio.open_unix_connection(sock=link, limit=LONGEST))
