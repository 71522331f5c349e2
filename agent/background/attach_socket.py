"""The socket that the process with a session offers to a user's window: a JSON object per line, see ``remote_attached``.

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
from pathlib import Path
from typing import Any

from agent.background.attached import LocalAttached
from agent.config import state_dir
from agent.first_ended import first_ended
from agent.policy.local_peer import LocalPeer
from agent.store._signals import dead_sockets, is_private, reachable
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.terminals.reader import run_beside

_FOLDER = "terminal-sockets"
_WAITS = 20.0
"""Seconds that a socket waits for its user."""
_REFUSED = "is closed to this window: its process is not proven to run outside of all sessions"
LONGEST = 1 << 25
"""Bytes of a message at most: a screen of the largest size, with a style for each cell."""


def offer(scope: CallScope, name: str) -> str:
    """Wait in the background for one user who attaches to a terminal. Return the path of the socket. Raises ToolcribError."""
    attached, folder = LocalAttached(scope, name), state_dir() / _FOLDER
    path = folder / secrets.token_hex(8)
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.socket(socket.AF_UNIX))
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_private(folder):
                raise ToolcribError(f"{folder} must be private to this account: remove it")
            for dead in dead_sockets(folder):
                dead.unlink(missing_ok=True)
            with reachable(folder) as near:
                listening.bind(os.fsencode(near / path.name))
            listening.listen()
        except OSError as error:
            raise ToolcribError(f"no socket can be made in {folder}: {error.strerror}") from error
        listening.setblocking(False)
        run_beside(_serve(attached, listening, path))
        opened.pop_all()
    return str(path)


async def _serve(attached: LocalAttached, listening: socket.socket, path: Path) -> None:
    try:
        async with asyncio.timeout(_WAITS):
            while not is_users(link := (await asyncio.get_running_loop().sock_accept(listening))[0]):
                with contextlib.closing(link), contextlib.suppress(OSError):
                    link.send(_packed(end=_REFUSED))
    except (TimeoutError, OSError):
        return
    finally:
        listening.close()
        _remove(path)
    reader, writer = await asyncio.open_unix_connection(sock=link, limit=LONGEST)
    with contextlib.closing(writer):
        try:
            with contextlib.suppress(OSError, ValueError):  # the window was killed, perhaps within a message
                await first_ended(_show(attached, writer), _type(attached, reader))
        finally:
            await attached.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def is_users(link: socket.socket) -> bool:
    """Return whether a process of this account, proven to run outside of all sessions, is at the other end."""
    try:
        with contextlib.closing(LocalPeer(link)) as peer:
            return peer.uid == os.getuid() and peer.is_outside([state_dir()])
    except OSError:
        return False


def send(writer: asyncio.StreamWriter, **message: Any) -> None:
    """Send a message."""
    writer.write(_packed(**message))


def _packed(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def _show(attached: LocalAttached, writer: asyncio.StreamWriter) -> None:
    while (view := await attached.next()) is not None:
        send(writer, view=view)
        await writer.drain()
    send(writer, end=attached.end)
    await writer.drain()


async def _type(attached: LocalAttached, reader: asyncio.StreamReader) -> None:
    while line := await reader.readline():
        message = json.loads(line)
        window, data = TerminalSize(*message["window"]), base64.b64decode(message["type"])
        await (attached.type(data, window) if data else attached.resize(window))
