"""``toolcrib console``: the terminal's side."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import stat
import sys
import time
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.config import state_dir
from agent.policy.local_peer import LocalPeer
from plugins.console.place import LINE_BYTES, next_line, packed, socket_path
from toolcrib import ToolcribError
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    import socket

HELP = "Chat with a running gateway from this terminal, like a user of a chat platform."
_EPILOG = """\
examples:
  toolcrib console                 the chat `main`; as many terminals as you like, each with a name
  toolcrib console --chat second
  toolcrib console --socket PATH   if platforms.console.settings.socket names another
  toolcrib gateway passphrase      set the passphrase for decisions

Lines are messages. `:1` presses the first button of the last message that has some, `:reply TEXT` answers that message,
`:unlock` asks for your passphrase, after which this terminal can decide, `:quit` or Ctrl-D leaves.
The gateway must run (`toolcrib gateway run console`) and listen to your account: platforms.console.roles: {owner: [YOU]}, or
`toolcrib gateway pair console --role owner`.
"""
_COMMAND = Regex(r"\s*:[A-Za-z]")
_COMMANDS = (
    "Commands: :1 and so on for buttons, :reply TEXT, :unlock, :quit. To send such a line as a message, put :reply before it"
)
_LOOK_SECONDS = 2.0
"""Seconds that a user needs to notice a new question."""
_TAKEN_SECONDS = 5.0
"""Seconds that a terminal waits at its end for the gateway to take its last message."""
_REST_SECONDS = 0.3
"""Seconds without new text after which an open line of a finished answer is ended."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--chat", default="main", metavar="NAME", help="the chat's name (default: main)")
    parser.add_argument("--socket", default="", metavar="PATH", help="the gateway's socket")


def run(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_talk(args))
    except KeyboardInterrupt:
        return 130


async def _talk(args: argparse.Namespace) -> int:
    path = socket_path(args.socket)
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES)
    except OSError as error:
        raise ToolcribError(f"no gateway listens at {path} ({error.strerror}): `toolcrib gateway run console`") from error
    writer.write(packed({"hello": args.chat}))
    screen = _Screen()
    if not _is_outside(writer):
        screen.line(
            f"(the program that listens at {path} may be a session's command: it is not proven to run outside all sessions)"
        )
    shown = asyncio.create_task(_show(reader, screen))
    typed = asyncio.create_task(_type(writer, screen))
    done, left = await asyncio.wait([shown, typed], return_when=asyncio.FIRST_COMPLETED)
    if screen.sent and not shown.done():  # the gateway can check the sending process only while that runs
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(screen.all_taken.wait(), _TAKEN_SECONDS)
    for task in left:
        task.cancel()
    screen.end_line()
    writer.close()
    for task in done:
        task.result()
    return 0


class _Screen:
    """The terminal's output: the last message with buttons, and the messages' texts by their ids."""

    def __init__(self) -> None:
        self.asked: tuple[str, list[list[str]]] = ("", [])
        self._taken_over_at = -_LOOK_SECONDS
        """Time when a question replaced another open question."""
        self._texts: dict[str, str] = {}
        self._last = ""
        """The message that was printed last, which may grow in place."""
        self._is_open = False
        """True while the cursor is behind printed text."""
        self._is_writing = False
        self._pause: asyncio.TimerHandle | None = None
        self.sent: dict[str, str] = {}
        """Typed lines that were not taken yet, by the ids that we gave them."""
        self.all_taken = asyncio.Event()

    def message(self, number: str, text: str, buttons: list[list[str]], files: list[str]) -> None:
        """Print a message; of one that grows, only the new text."""
        before, now = self._texts.get(number), text.rstrip()
        if before is not None and now.startswith(before) and self._last == number:
            new = now[len(before) :]
            self._put(_tame(new if self._is_open else new.lstrip()))
        elif now and now != before:
            self.end_line()
            self._put(_tame(now))
            self._last = number
        self._texts[number] = now
        for file in files:
            self.line(f"[file: {_tame(file)}]")
        if buttons:
            if self.asked[0] not in ("", number):
                self._taken_over_at = time.monotonic()
            self.asked = number, buttons
            self.line("  ".join(f":{at} {_tame(label)}" for at, (_, label) in enumerate(buttons, 1)))
        elif self.asked[0] == number:
            self.asked = "", []
        self._rest()

    @property
    def is_taken_over(self) -> bool:
        """True shortly after a question replaced another one: the typed line may be meant for the old one."""
        return time.monotonic() - self._taken_over_at < _LOOK_SECONDS

    def line(self, text: str) -> None:
        """Print text on its own line."""
        self.end_line()
        _say(text)
        self._last = ""

    def answered(self, number: str) -> None:
        """Record that the gateway took or refused a line."""
        self.sent.pop(number, None)
        if not self.sent:
            self.all_taken.set()

    def writing(self, is_on: bool) -> None:
        """Record whether an answer is being written; its end may still arrive after that."""
        self._is_writing = is_on
        self._rest()

    def end_line(self) -> None:
        """End the current line, if it is open."""
        if self._is_open:
            _say("")
        self._is_open = False

    def entered(self) -> None:
        """Record that the user ended a line with Enter."""
        self._is_open = False

    def _put(self, text: str) -> None:
        if text:
            _say(text, end="")
            self._is_open = True

    def _rest(self) -> None:
        """End the line when no more text arrives, so that the next typed text begins a new line."""
        if self._pause is not None:
            self._pause.cancel()
        later = asyncio.get_running_loop().call_later
        self._pause = None if self._is_writing or not self._is_open else later(_REST_SECONDS, self.end_line)


async def _show(reader: asyncio.StreamReader, screen: _Screen) -> None:
    while (line := await next_line(reader)) != b"":
        if line is None:
            screen.line(f"(a message of more than {LINE_BYTES // 2**20} MiB can't be shown here)")
            continue
        told: dict[str, Any] = json.loads(line)
        if "text" in told:
            screen.message(str(told["id"]), str(told["text"]), told.get("buttons") or [], told.get("files") or [])
        elif "taken" in told:
            screen.answered(str(told["taken"]))
        elif "typing" in told:
            screen.writing(bool(told["typing"]))
        elif said := told.get("notice") or told.get("problem"):
            screen.line(f"({_tame(str(said))})")
            screen.answered(str(told.get("refused")))
    screen.line("(the connection to the gateway has ended)")
    for text in screen.sent.values():
        screen.line(f"(not accepted: {_tame(text)})")


async def _standard_input() -> asyncio.StreamReader:
    """Return a reader of the typed input. An event loop can't wait for a file or /dev/null; these are read whole."""
    lines = asyncio.StreamReader(limit=LINE_BYTES)
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if sys.stdin.isatty() or stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    else:
        lines.feed_data(await asyncio.to_thread(sys.stdin.buffer.read))
        lines.feed_eof()
    return lines


async def _type(writer: asyncio.StreamWriter, screen: _Screen) -> None:
    lines = await _standard_input()
    while (line := await next_line(lines)) != b"":
        text = "" if line is None else line.decode("utf-8", "replace").rstrip("\n")
        if line is None or len(_message(text, screen.asked[0])[1]) > LINE_BYTES:
            screen.line(f"(not sent: that line is longer than {LINE_BYTES // 2**20} MiB; put it into a file)")
            continue
        if sys.stdin.isatty():
            screen.entered()
        if text in (":quit", ":q"):
            return
        if text.lower().lstrip().startswith(":unlock"):
            await _unlock(writer, lines, screen, text.strip().lower())
            continue
        if _COMMAND.match(text) and not text.startswith(":reply "):
            screen.line(f"(not sent: the console has no command {text.split()[0]}. {_COMMANDS})")
            continue
        message, buttons = screen.asked
        if text[:1] == ":" and text[1:].isdecimal():
            number = int(text[1:])
            if not 0 < number <= len(buttons):
                screen.line("(no such button is open here; /approvals lists open requests)")
                continue
            if screen.is_taken_over:
                screen.line("(another question has just arrived, with the buttons above; press again to answer it)")
                continue
            writer.write(packed({"press": [message, buttons[number - 1][0]]}))
        elif text.startswith(":reply "):
            _send(writer, screen, text.removeprefix(":reply "), message)
        elif text.strip():
            _send(writer, screen, text)
        await writer.drain()


async def _unlock(writer: asyncio.StreamWriter, lines: asyncio.StreamReader, screen: _Screen, text: str) -> None:
    """Ask for the passphrase without echo, and send it to a gateway that is proven to run outside of all sessions."""
    if text != ":unlock":
        screen.line("(not sent: type :unlock alone; it asks for the passphrase and does not show it)")
    elif not sys.stdin.isatty():
        screen.line("(:unlock needs a terminal)")
    elif not _is_outside(writer):
        screen.line("(not asked: the gateway is not proven to run outside all sessions, so the passphrase is not sent)")
    else:
        screen.end_line()
        with _without_echo():
            _say("Passphrase (not shown): ", end="")
            given = await next_line(lines)
        _say("")
        if given:
            writer.write(packed({"unlock": given.decode("utf-8", "replace").rstrip("\n")}))
            await writer.drain()


def _is_outside(writer: asyncio.StreamWriter) -> bool:
    """Return whether the gateway is proven to run outside of all sessions, so that no session's command impersonates it."""
    link: socket.socket = writer.get_extra_info("socket")
    gateway = LocalPeer(link)
    is_outside = gateway.is_outside([state_dir()])
    gateway.close()
    return is_outside


@contextlib.contextmanager
def _without_echo() -> Iterator[None]:
    """Turn off the terminal's echo."""
    import termios

    before = termios.tcgetattr(sys.stdin)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)


def _send(writer: asyncio.StreamWriter, screen: _Screen, text: str, reply_to: str = "") -> None:
    number, line = _message(text, reply_to)
    screen.sent[number] = text
    screen.all_taken.clear()
    writer.write(line)


def _message(text: str, reply_to: str) -> tuple[str, bytes]:
    """Return the id that the gateway's acknowledgement will name, and the message as a line."""
    number = secrets.token_hex(8)
    return number, packed({"id": number, "text": text, "reply_to": reply_to})


def _say(text: str, *, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def _tame(text: str) -> str:
    """Return text without control characters that a terminal would act on."""
    return "".join(one if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf") else "\ufffd" for one in text)
