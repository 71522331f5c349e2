"""The platform in the gateway: each terminal that connects is a chat of its own, for the account that runs the terminal."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import pwd
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.config import state_dir
from agent.policy import passphrase
from agent.policy.local_peer import LocalPeer
from plugins.console.place import LINE_BYTES, bound, inode, next_line, packed, private_folder, record_path, socket_path
from toolcrib import StoreFailed
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, settings_of, without_controls
from toolcrib.contract.passing import shortage

if TYPE_CHECKING:
    import socket

_ID_CHARS = 64
_MOST_TRIES = 3
"""Number of wrong passphrases that closes a connection."""
_INSIDE = (
    "this terminal only shows the chat: it is not proven to run outside all sessions. Use a terminal that no"
    " session's command opened"
)
_LOCKED = "To decide here, type :unlock and your passphrase, then answer again. Denials and /stop need no passphrase."
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


@dataclass(slots=True, eq=False)
class ConsoleConnection:
    """A terminal: the process that connected, and its rights."""

    writer: asyncio.StreamWriter
    peer: LocalPeer
    user: str
    chat: str = ""
    is_unlocked: bool = False
    wrong: int = 0

    def write_line(self, **line: Any) -> None:
        """Write a line, unless the connection is closed."""
        if not self.writer.is_closing():
            self.writer.write(packed(line))

    @property
    def is_persons(self) -> bool:
        """True if the process is currently proven to run outside of all sessions."""
        return self.peer.is_outside([state_dir()])

    @property
    def locked(self) -> str:
        """The reason why this terminal can't decide, or "" if the passphrase was typed and the process still runs."""
        if not self.is_unlocked:
            return _LOCKED if passphrase.is_set() else _unset()
        return "" if self.is_persons else _INSIDE


class ConsolePlatform:
    """Listens on a UNIX socket. Users are the accounts of this machine, as the kernel reports them. A process that is not proven
    to run outside of all sessions can only read, and deciding takes the user's passphrase, once for each connection.

    A terminal gives its messages ids, and learns which ones were taken: it may send the others again over another connection.
    """

    traits = Traits(max_chars=8_000, edit_seconds=0.1, max_edits=10_000, buttons=True, per_second=1_000)

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        self._path = socket_path(settings_of(host, ("socket",)).get("socket", ""))
        self._server: asyncio.Server | None = None
        self._ours = (0, 0)
        self._terminals: dict[str, ConsoleConnection] = {}
        self._looking: set[ConsoleConnection] = set()
        self._guard = passphrase.PassphraseGuard()
        self._talks: set[asyncio.Task[Any]] = set()
        self._process = secrets.token_hex(8)
        """Part of each id, because a killed process may have stored no counter."""
        self._ids = itertools.count(1)

    @property
    def shortcomings(self) -> Sequence[tuple[str, str]]:
        """See toolcrib.chat.TellsShortcomings."""
        if passphrase.is_set():
            return ()
        return (("no passphrase is set, so the console can't approve anything", "toolcrib gateway passphrase"),)

    async def connect(self) -> str:
        """Prepare the socket's folder, and return the socket's path. Raises ToolcribError."""
        private_folder(self._path)
        return str(self._path)

    async def start(self) -> None:
        """Listen. Raises ConfigError if another gateway listens. The account's lease does not prevent that, because the other
        gateway may use another store.
        """
        listening = bound(self._path)
        self._ours = inode(self._path)
        record_path(self._path)
        self._server = await asyncio.start_unix_server(self._entered, sock=listening, limit=LINE_BYTES)

    async def stop(self) -> None:
        """Close the socket and every terminal."""
        if self._server is not None:
            if inode(self._path) == self._ours:  # compared while it is open: no other file can have its inode then
                self._path.unlink(missing_ok=True)
            self._server.close()
            self._server = None
        for task in self._talks:
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def send(self, out: Outbound) -> str:
        """Show a message in its terminal. Raises NotSent while the terminal is not connected."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        if "/" not in out.chat.id:
            raise NotSent("not the name of a terminal's chat: use ACCOUNT/NAME", for_good=True)
        terminal = self._terminals.get(out.chat.id)
        if terminal is None or terminal.writer.is_closing():
            raise NotSent(f"no terminal has the chat {out.chat.id!r} open", retry_after=2.0)
        shown_as = out.edits or out.key
        buttons = [[one.choice, one.label] for one in out.buttons]
        files = [one.name for one in out.files]
        for one in (terminal, *(one for one in self._looking if one.chat == out.chat.id)):
            one.write_line(id=shown_as, text=without_controls(out.text), buttons=buttons, files=files)
        try:
            await terminal.writer.drain()
        except ConnectionError as error:
            raise NotSent(str(error), retry_after=2.0, perhaps_sent=True) from error
        return shown_as

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written."""
        if (terminal := self._terminals.get(chat.id)) is not None:
            terminal.write_line(typing=is_on)

    async def calling(self, chat: Chat, line: str) -> None:
        """Show a line about a call that begins."""
        shown = (self._terminals.get(chat.id), *(one for one in self._looking if one.chat == chat.id))
        for terminal in filter(None, shown):
            terminal.write_line(call=without_controls(line))

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the text of an attached file."""
        yield str(attachment.ref["text"]).encode()

    def _entered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: socket.socket = writer.get_extra_info("socket")
        try:
            peer = LocalPeer(link)
            user = _account(peer.uid)
        except OSError as error:
            writer.write(packed({"problem": f"this terminal can't be identified now: {error.strerror}; connect again later"}))
            writer.close()
            return
        terminal = ConsoleConnection(writer, peer, user)
        try:
            while (line := await next_line(reader)) != b"":
                if line is None:
                    terminal.write_line(problem=f"a line of more than {LINE_BYTES // 2**20} MiB is not accepted")
                elif not await self._heard(terminal, json.loads(line)):
                    break
        except (ValueError, KeyError, TypeError, RecursionError, ConnectionError) as error:
            terminal.write_line(problem=f"invalid input: {error}")
        except OSError as error:
            terminal.write_line(problem=f"the gateway can't continue this connection: {error.strerror}; connect again later")
        finally:
            self._leave(terminal)
            peer.close()
            writer.close()

    async def _heard(self, terminal: ConsoleConnection, said: Any) -> bool:
        """Act on a line, and return whether to continue reading."""
        if not isinstance(said, dict):
            raise TypeError("a line must be a JSON object")
        if "hello" in said:
            self._leave(terminal)  # the terminal switches to another chat
            terminal.chat = f"{terminal.user}/{without_controls(' '.join(str(said['hello']).split()))[:60]}"
            terminal.write_line(chat=terminal.chat)
            if terminal.is_persons:
                self._terminals[terminal.chat] = terminal
            else:
                self._looking.add(terminal)
                terminal.write_line(notice=_INSIDE)
        elif not terminal.chat:
            return True
        elif terminal in self._looking:
            terminal.write_line(problem="not accepted: this terminal is read-only", refused=said.get("id", ""))
        elif "unlock" in said:
            await self._unlock(terminal, str(said["unlock"]))
        else:
            await self._said(terminal, said)
        return terminal.wrong < _MOST_TRIES

    def _leave(self, terminal: ConsoleConnection) -> None:
        self._looking.discard(terminal)
        if self._terminals.get(terminal.chat) is terminal:
            del self._terminals[terminal.chat]

    async def _unlock(self, terminal: ConsoleConnection, given: str) -> None:
        if not passphrase.is_set():
            terminal.write_line(problem=_unset())
        elif await self._guard.accepts(given) and terminal.is_persons:
            terminal.is_unlocked, terminal.wrong = True, 0
            terminal.write_line(notice="unlocked: this terminal can decide until it disconnects")
        else:
            terminal.wrong += 1
            left = "the next attempt has to wait" if terminal.wrong < _MOST_TRIES else "run toolcrib console again to retry"
            terminal.write_line(problem=f"that is not the passphrase; {left}")

    async def _said(self, terminal: ConsoleConnection, said: Any) -> None:
        chat, user = Chat(terminal.chat, title=terminal.chat), terminal.user
        if "press" in said:
            message_id, choice = said["press"]
            press = Press(chat, user, str(message_id), str(choice), self._next(), user, locked=terminal.locked)
            try:
                terminal.write_line(notice=await self._host.press(press))
            except StoreFailed as error:
                terminal.write_line(problem=str(error))
            return
        given = without_controls(str(said.get("id", "")))[:_ID_CHARS]
        reply_to, number = str(said.get("reply_to", "")), given or self._next()
        message = Inbound(chat, user, number, str(said["text"]), user, reply_to=reply_to, locked=terminal.locked)
        if await self._until_taken(message, terminal) == "refused":
            hint = "" if message.locked else ". To get access: toolcrib gateway pair console --role owner"
            terminal.write_line(notice=f"not accepted: {user} may not chat here, or the message is empty{hint}")
        if given:
            terminal.write_line(taken=given)

    async def _until_taken(self, message: Inbound, terminal: ConsoleConnection) -> str:
        """Offer a message to the gateway, again after each StoreFailed, and return the result. Later lines wait."""
        pause = 0.0
        while True:
            try:
                return await self._host.receive(message)
            except StoreFailed as error:
                if not pause:
                    terminal.write_line(problem=f"{error}: retrying")
                pause = min(_LONGEST_PAUSE, pause * 2 or _SHORTEST_PAUSE)
                await asyncio.sleep(pause)

    def _next(self) -> str:
        """Return an id that is unique on this platform, across processes."""
        return f"{self._process}-{next(self._ids)}"


def _unset() -> str:
    """Return what to do if no passphrase is set."""
    return (
        f"Decisions here need a passphrase, but none is set for this gateway (state folder {state_dir()}). "
        "Set one with the same configuration and state folder: toolcrib gateway passphrase"
    )


def _account(uid: int) -> str:
    """Return the name of an account. Raises OSError if it can't be looked up now."""
    for is_last in (False, True):
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:  # it may also mean that no files can be opened
            if not is_last and (short := shortage()):
                raise OSError(errno.EMFILE, short) from None
    return str(uid) if uid != os.getuid() else "me"
