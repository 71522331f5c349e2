"""The gateway's side: each terminal that connects is a chat of its own, by the account that runs it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import pwd
import secrets
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

from plugins.console.place import LINE_BYTES, bound, inode, packed, private_folder, socket_path
from toolcrib import StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, without_controls

_CREDENTIALS = struct.Struct("3i")


class ConsolePlatform:
    """Listens on a UNIX socket. Users are the accounts of this machine, as the kernel tells them."""

    traits = Traits(max_chars=8_000, edit_seconds=0.1, max_edits=10_000, buttons=True, per_second=1_000)

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        self._path = socket_path(str(host.settings.get("socket", "")))
        self._server: asyncio.Server | None = None
        self._ours = (0, 0)
        self._terminals: dict[str, asyncio.StreamWriter] = {}
        self._process = secrets.token_hex(8)
        """Part of each id, as nothing is sure to be kept of the last process where that was killed."""
        self._ids = itertools.count(1)

    async def connect(self) -> str:
        """Look whether the socket can be ours. Raises ToolcribError."""
        private_folder(self._path)
        return str(self._path)

    async def start(self) -> None:
        """Listen. Raises ConfigError where another gateway does: the account's lease is in our store, and it may have another."""
        listening = bound(self._path)
        self._ours = inode(self._path)
        self._server = await asyncio.start_unix_server(self._talk, sock=listening, limit=LINE_BYTES)

    async def stop(self) -> None:
        """Close the socket and every terminal."""
        if self._server is not None:
            if inode(self._path) == self._ours:  # looked at while it is open: no other file has its number then
                self._path.unlink(missing_ok=True)
            self._server.close()
            self._server = None
        for writer in list(self._terminals.values()):
            writer.close()

    async def send(self, out: Outbound) -> str:
        """Show a message in its terminal. Raises NotSent while that is not connected."""
        writer = self._terminals.get(out.chat.id)
        if writer is None or writer.is_closing():
            raise NotSent(f"no terminal has the chat {out.chat.id!r} open", retry_after=2.0)
        shown_as = out.edits or out.key
        buttons = [[one.choice, one.label] for one in out.buttons]
        files = [one.name for one in out.files]
        writer.write(packed({"id": shown_as, "text": out.text, "buttons": buttons, "files": files}))
        try:
            await writer.drain()
        except ConnectionError as error:
            raise NotSent(str(error), retry_after=2.0, perhaps_sent=True) from error
        return shown_as

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written."""
        writer = self._terminals.get(chat.id)
        if writer is not None and not writer.is_closing():
            writer.write(packed({"typing": is_on}))

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the text that came as a file."""
        yield str(attachment.ref["text"]).encode()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        user = _account(writer)
        name = ""
        try:
            while line := await reader.readline():
                said = json.loads(line)
                if "hello" in said:
                    if self._terminals.get(name) is writer:  # it goes to another chat
                        del self._terminals[name]
                    name = f"{user}/{without_controls(' '.join(str(said['hello']).split()))[:60]}"
                    self._terminals[name] = writer
                elif name:
                    await self._said(name, user, said, writer)
        except (ValueError, KeyError, TypeError, RecursionError, ConnectionError, asyncio.LimitOverrunError) as error:
            with contextlib.suppress(ConnectionError):
                writer.write(packed({"problem": f"that was not understood: {error}"}))
        finally:
            if self._terminals.get(name) is writer:
                del self._terminals[name]
            writer.close()

    async def _said(self, name: str, user: str, said: Any, writer: asyncio.StreamWriter) -> None:
        chat = Chat(name, title=name)
        try:
            if "press" in said:
                message, choice = said["press"]
                line = await self._host.press(Press(chat, user, str(message), str(choice), self._next(), user))
                writer.write(packed({"notice": line}))
                return
            message = Inbound(chat, user, self._next(), str(said["text"]), user, reply_to=str(said.get("reply_to", "")))
            if await self._host.receive(message) == "refused":
                writer.write(packed({"notice": f"not taken: {user} may not chat here, or said nothing"}))
        except StoreFailed as error:
            writer.write(packed({"problem": str(error)}))

    def _next(self) -> str:
        """Return an id that no message of this platform had, in any process."""
        return f"{self._process}-{next(self._ids)}"


def _account(writer: asyncio.StreamWriter) -> str:
    """Return the name of the account at the other end. Raises ToolcribError where the kernel does not tell."""
    link: socket.socket | None = writer.get_extra_info("socket")
    if link is None:
        raise ToolcribError("the console's socket is gone")
    _, uid, _ = _CREDENTIALS.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid) if uid != os.getuid() else "me"
