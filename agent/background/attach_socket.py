"""The socket between a user's window and the process that has the session open: a JSON object per line.

The store only carries its path. Typing must be quick, and must come from a user: requests in the store have no sender, but the
kernel names the process at the other end of a socket, and a session's commands are refused.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.background.attached import Attached, AttachedView, LocalAttached
from agent.config import state_dir
from agent.policy.local_peer import LocalPeer
from agent.store._signals import dead_sockets, is_private, reachable
from toolcrib.contract.errors import ExecutionFailed, ToolcribError
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.screen.terminal import ScreenCursor
from tools.terminals.reader import run_beside

_FOLDER = "terminal-sockets"
_WAITS = 20.0
"""Seconds that a socket waits for its user."""
_LONGEST = 1 << 25
"""Bytes of a message at most: a screen of the largest size, with a style for each cell."""
_GONE = "is out of reach: the toolcrib that had its session open has ended"


def offer(scope: CallScope, name: str) -> str:
    """Wait in the background for one user who attaches to a terminal. Return the path of the socket. Raises ExecutionFailed."""
    if scope.processes.terminals.get(name) is None:
        raise ExecutionFailed(f"{name} is not a terminal; only what the model starts with pty: true can be attached")
    folder = state_dir() / _FOLDER
    listening = socket.socket(socket.AF_UNIX)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            raise ExecutionFailed(f"{folder} must be private to this account: remove it")
        for dead in dead_sockets(folder):
            dead.unlink(missing_ok=True)
        path = folder / secrets.token_hex(8)
        with reachable(folder) as near:
            listening.bind(os.fsencode(near / path.name))
        listening.listen()
    except OSError as error:
        raise ExecutionFailed(f"no socket can be made in {folder}: {error.strerror}") from error
    listening.setblocking(False)
    run_beside(_serve(scope, name, listening, path))
    return str(path)


async def _serve(scope: CallScope, name: str, listening: socket.socket, path: Path) -> None:
    try:
        async with asyncio.timeout(_WAITS):
            while not _is_users(link := (await asyncio.get_running_loop().sock_accept(listening))[0]):
                link.close()
    except (TimeoutError, OSError):
        return
    finally:
        listening.close()
        _remove(path)
    reader, writer = await asyncio.open_unix_connection(sock=link, limit=_LONGEST)
    try:
        attached = LocalAttached(scope, name)
        tasks = [asyncio.create_task(work) for work in (_show(attached, writer), _type(attached, reader))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await attached.close()
    except ToolcribError as error:
        _send(writer, end=str(error))
    finally:
        writer.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _is_users(link: socket.socket) -> bool:
    """Return whether a process of this account, proven to run outside of all sessions, is at the other end."""
    try:
        peer = LocalPeer(link)
    except OSError:
        return False
    try:
        return peer.uid == os.getuid() and peer.is_outside([state_dir()])
    finally:
        peer.close()


def _send(writer: asyncio.StreamWriter, **message: Any) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def _show(attached: Attached, writer: asyncio.StreamWriter) -> None:
    """Send each view, of its rows only those that changed."""
    shown: tuple[str, ...] = ()
    while (view := await attached.next()) is not None:
        rows = {at: row for at, row in enumerate(view.rows) if at >= len(shown) or shown[at] != row}
        shown = view.rows
        keys = (view.application_cursor, view.paste)
        facts = {"columns": view.columns, "cursor": view.cursor, "title": view.title, "keys": keys, "typist": view.typist}
        _send(writer, rows=rows, count=len(shown), **facts)
        await writer.drain()
    _send(writer, end=attached.end)
    await writer.drain()


async def _type(attached: Attached, reader: asyncio.StreamReader) -> None:
    while line := await reader.readline():
        message = json.loads(line)
        window = TerminalSize(*message["window"])
        if "type" in message:
            await attached.type(base64.b64decode(message["type"]), window)
        else:
            await attached.resize(window)


class RemoteAttached:
    """See Attached."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._rows: tuple[str, ...] = ()
        self.end = _GONE
        """Why it ended."""

    async def next(self) -> AttachedView | None:
        with contextlib.suppress(OSError, ValueError):
            message: Mapping[str, Any] = json.loads(await self._reader.readline())
            if "end" not in message:
                kept, rows = self._rows, message["rows"]
                self._rows = tuple(rows.get(str(at), kept[at] if at < len(kept) else "") for at in range(message["count"]))
                cursor, (application, paste) = ScreenCursor(*message["cursor"]), message["keys"]
                columns, title, typist = message["columns"], message["title"], message["typist"]
                return AttachedView(self._rows, columns, cursor, title, application, paste, typist)
            self.end = message["end"]
        return None

    async def type(self, data: bytes, window: TerminalSize) -> None:
        self._tell(window, type=base64.b64encode(data).decode())

    async def resize(self, window: TerminalSize) -> None:
        self._tell(window)

    def _tell(self, window: TerminalSize, **more: str) -> None:
        _send(self._writer, window=(window.columns, window.rows), **more)

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def attach(path: str) -> RemoteAttached:
    """Connect to the socket that ``offer`` made. Raises ExecutionFailed."""
    place = Path(path)
    link = socket.socket(socket.AF_UNIX)
    try:
        with reachable(place.parent) as near:
            link.connect(os.fsencode(near / place.name))
        if not _is_users(link):
            raise ExecutionFailed("the toolcrib that has the session open is not proven to run outside of all sessions")
    except OSError as error:
        link.close()
        why = f"{path}: {error.strerror}"
        raise ExecutionFailed(f"attach on the machine and in the account that have the session open ({why})") from error
    except ExecutionFailed:
        link.close()
        raise
    return RemoteAttached(*await asyncio.open_unix_connection(sock=link, limit=_LONGEST))
