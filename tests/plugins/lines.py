"""A proxy to a server, which records the traffic, and host names that lead to it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest


class Line:
    """A proxy to a server on ``port`` that records all data sent to it: ``said``. ``replace`` changes the server's answers, as an
    attacker would.
    """

    def __init__(self, port: int, replace: Callable[[bytes], bytes] = bytes) -> None:
        self._server = port
        self._replace = replace
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []
        self.said = b""
        self.port = 0

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server)
        ends = [writer, far_writer]
        self._ends += ends
        await asyncio.gather(self._carry(reader, far_writer, is_said=True), self._carry(far_reader, writer))
        for one in ends:
            with contextlib.suppress(OSError):
                await one.wait_closed()
        self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_said: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                self.said += data if is_said else b""
                writer.write(data if is_said else self._replace(data))
                await writer.drain()
        writer.close()

    async def close(self) -> None:
        for end in self._ends:
            end.close()
        await asyncio.gather(*self._tasks)

    def has_heard(self, secret: str, *before: str) -> bool:
        """Return whether a secret was sent, plain or in base64, alone or after the other words of a login."""
        plain = [secret.encode(), "\0".join(["", *before, secret]).encode()]
        return any(one in self.said for each in plain for one in (each, base64.b64encode(each)))


@asynccontextmanager
async def line_to(port: int, replace: Callable[[bytes], bytes] = bytes) -> AsyncIterator[Line]:
    """Open a proxy to a server on this machine."""
    line = Line(port, replace)
    listening = await asyncio.start_server(line.join, "127.0.0.1", 0)
    line.port = listening.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        listening.close()
        await line.close()


def lead_here(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make names lead to this machine, as their DNS might, although they look like other hosts."""
    look = socket.getaddrinfo

    def found(host: Any, *given: Any, **more: Any) -> Any:
        return look("127.0.0.1" if host in names else host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
