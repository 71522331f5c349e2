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

from plugins.console.place import LINE_BYTES, bound, inode, next_line, packed, private_folder, socket_path
from toolcrib import StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, settings_of, without_controls

_CREDENTIALS = struct.Struct("3i")
_ID_CHARS = 64
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class ConsolePlatform:
    """Listens on a UNIX socket. Users are the accounts of this machine, as the kernel tells them.

    A terminal gives its messages ids, and hears which were taken: those that were not, it may send again over another connection.
    """

    traits = Traits(max_chars=8_000, edit_seconds=0.1, max_edits=10_000, buttons=True, per_second=1_000)

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        self._path = socket_path(settings_of(host, ("socket",)).get("socket", ""))
        self._server: asyncio.Server | None = None
        self._ours = (0, 0)
        self._terminals: dict[str, asyncio.StreamWriter] = {}
        self._talks: set[asyncio.Task[Any]] = set()
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
        self._server = await asyncio.start_unix_server(self._entered, sock=listening, limit=LINE_BYTES)

    async def stop(self) -> None:
        """Close the socket and every terminal."""
        if self._server is not None:
            if inode(self._path) == self._ours:  # looked at while it is open: no other file has its number then
                self._path.unlink(missing_ok=True)
            self._server.close()
            self._server = None
        for task in self._talks:
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def send(self, out: Outbound) -> str:
        """Show a message in its terminal. Raises NotSent while that is not connected."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        if "/" not in out.chat.id:
            raise NotSent("no terminal's chat has such a name: they are ACCOUNT/NAME", for_good=True)
        writer = self._terminals.get(out.chat.id)
        if writer is None or writer.is_closing():
            raise NotSent(f"no terminal has the chat {out.chat.id!r} open", retry_after=2.0)
        shown_as = out.edits or out.key
        buttons = [[one.choice, one.label] for one in out.buttons]
        files = [one.name for one in out.files]
        writer.write(packed({"id": shown_as, "text": without_controls(out.text), "buttons": buttons, "files": files}))
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

    def _entered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        user = _account(writer)
        name = ""
        try:
            while (line := await next_line(reader)) != b"":
                if line is None:
                    writer.write(packed({"problem": f"a line of more than {LINE_BYTES // 2**20} MiB is not taken"}))
                    continue
                said = json.loads(line)
                if "hello" in said:
                    if self._terminals.get(name) is writer:  # it goes to another chat
                        del self._terminals[name]
                    name = f"{user}/{without_controls(' '.join(str(said['hello']).split()))[:60]}"
                    self._terminals[name] = writer
                    writer.write(packed({"chat": name}))
                elif name:
                    await self._said(name, user, said, writer)
        except (ValueError, KeyError, TypeError, RecursionError, ConnectionError) as error:
            with contextlib.suppress(ConnectionError):
                writer.write(packed({"problem": f"that was not understood: {error}"}))
        finally:
            if self._terminals.get(name) is writer:
                del self._terminals[name]
            writer.close()

    async def _said(self, name: str, user: str, said: Any, writer: asyncio.StreamWriter) -> None:
        chat = Chat(name, title=name)
        if "press" in said:
            message_id, choice = said["press"]
            try:
                line = await self._host.press(Press(chat, user, str(message_id), str(choice), self._next(), user))
                writer.write(packed({"notice": line}))
            except StoreFailed as error:
                writer.write(packed({"problem": str(error)}))
            return
        given = without_controls(str(said.get("id", "")))[:_ID_CHARS]
        message = Inbound(chat, user, given or self._next(), str(said["text"]), user, reply_to=str(said.get("reply_to", "")))
        if await self._until_taken(message, writer) == "refused":
            writer.write(packed({"notice": f"not taken: {user} may not chat here, or said nothing"}))
        if given:
            writer.write(packed({"taken": given}))

    async def _until_taken(self, message: Inbound, writer: asyncio.StreamWriter) -> str:
        """Offer a message until it could be kept, and return what became of it. What is typed meanwhile waits."""
        pause = 0.0
        while True:
            try:
                return await self._host.receive(message)
            except StoreFailed as error:
                if not pause and not writer.is_closing():
                    writer.write(packed({"problem": f"{error}: it is tried again"}))
                pause = min(_LONGEST_PAUSE, pause * 2 or _SHORTEST_PAUSE)
                await asyncio.sleep(pause)

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
