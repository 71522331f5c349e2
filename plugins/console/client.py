"""``toolcrib console``: the terminal's side."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import unicodedata
from typing import Any

from plugins.console.place import LINE_BYTES, packed, socket_path
from toolcrib import ToolcribError

HELP = "Chat with a running gateway from this terminal, as a person in a chat would."
_EPILOG = """\
examples:
  toolcrib console                 the chat `main`; as many terminals as you like, each with a name
  toolcrib console --chat second
  toolcrib console --socket PATH   where platforms.console.settings.socket names another

Lines are messages. `:1` presses the first button of the last message that has some, `:reply TEXT` answers that message,
`:quit` or Ctrl-D leaves. The gateway must run (`toolcrib gateway run console`) and listen to your account:
platforms.console.roles: {owner: [YOU]}, or `toolcrib gateway pair console --role owner`.
"""


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
    shown = asyncio.create_task(_show(reader, screen))
    typed = asyncio.create_task(_type(writer, screen))
    done, left = await asyncio.wait([shown, typed], return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    writer.close()
    for task in done:
        task.result()
    return 0


class _Screen:
    """What was shown last: the message with buttons, and the texts by their ids."""

    def __init__(self) -> None:
        self.asked: tuple[str, list[list[str]]] = ("", [])
        self._texts: dict[str, str] = {}
        self._last = ""
        """The message whose line has not ended."""

    def message(self, number: str, text: str, buttons: list[list[str]], files: list[str]) -> None:
        """Print a message; of one that grows, what is new."""
        before, now = self._texts.get(number), text.rstrip()
        if before is None or not now.startswith(before) or self._last != number:
            self.line(_tame(now) if now != before else "", ends=False)
        else:
            _say(_tame(now[len(before) :]), end="")
        self._texts[number], self._last = now, number
        for file in files:
            self.line(f"[file: {_tame(file)}]")
        if buttons:
            self.asked = number, buttons
            self.line("  ".join(f":{at} {_tame(label)}" for at, (_, label) in enumerate(buttons, 1)))
        elif self.asked[0] == number:
            self.asked = "", []

    def line(self, text: str, *, ends: bool = True) -> None:
        """Print something on a line of its own."""
        if text:
            _say(("\n" if self._last else "") + text, end="\n" if ends else "")
            self._last = ""


async def _show(reader: asyncio.StreamReader, screen: _Screen) -> None:
    while line := await reader.readline():
        told: dict[str, Any] = json.loads(line)
        if "text" in told:
            screen.message(str(told["id"]), str(told["text"]), told.get("buttons") or [], told.get("files") or [])
        elif said := told.get("notice") or told.get("problem"):
            screen.line(f"({_tame(str(said))})")
    screen.line("(the gateway has ended)")


async def _type(writer: asyncio.StreamWriter, screen: _Screen) -> None:
    lines = asyncio.StreamReader()
    with contextlib.suppress(ValueError, OSError):
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text in (":quit", ":q"):
            return
        message, buttons = screen.asked
        if text[:1] == ":" and text[1:].isdecimal():
            number = int(text[1:])
            if not 0 < number <= len(buttons):
                screen.line("(there is no such button)")
                continue
            writer.write(packed({"press": [message, buttons[number - 1][0]]}))
        elif text.startswith(":reply "):
            writer.write(packed({"text": text.removeprefix(":reply "), "reply_to": message}))
        elif text.strip():
            writer.write(packed({"text": text}))
        await writer.drain()


def _say(text: str, *, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def _tame(text: str) -> str:
    """Return text whose control characters a terminal does not act on."""
    return "".join(one if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf") else "\ufffd" for one in text)
