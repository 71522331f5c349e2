"""``toolcrib console``: the client in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from plugins.console.link import GatewayLink
from plugins.console.place import LINE_BYTES, gateway_path, packed, socket_path
from plugins.console.screen import ConsoleScreen
from plugins.console.typed import ConsoleInterrupted, PlainLines, PromptLines, has_prompt
from toolcrib.contract.regex import Regex

HELP = "Chat with a running gateway from this terminal, like a user of a chat platform."
_EPILOG = """\
examples:
  toolcrib console                 the chat `main`; as many terminals as you like, each with a name
  toolcrib console --chat second
  toolcrib console --socket PATH   the gateway of another state folder
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


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--chat", default="main", metavar="NAME", help="the chat's name (default: main)")
    parser.add_argument("--socket", default="", metavar="PATH", help="the gateway's socket")


def run(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_talk(args))
    except (KeyboardInterrupt, ConsoleInterrupted):
        return 130


async def _talk(args: argparse.Namespace) -> int:
    screen, is_prompt = ConsoleScreen(), has_prompt()
    link = GatewayLink(socket_path(args.socket) if args.socket else gateway_path(), args.chat, screen, lasts=is_prompt)
    await link.connect()
    if not is_prompt:
        return await _both(link, screen, PlainLines())

    def label() -> str:
        state = "" if link.is_connected else "(not connected) "
        work = "(working) " if screen.is_writing else ""
        return f"{screen.open_line}\n{state or work}{args.chat}> ".removeprefix("\n")

    lines = PromptLines(label)
    with lines.opened():
        screen.redraw = lines.redraw
        screen.line("(connected: /help lists the commands of the chat, :quit leaves)")
        return await _both(link, screen, lines)


async def _both(link: GatewayLink, screen: ConsoleScreen, lines: PlainLines | PromptLines) -> int:
    """Show what the gateway sends and send what the user types, until the connection or the input ends."""
    shown = asyncio.create_task(link.run())
    typed = asyncio.create_task(_type(link, screen, lines))
    done, left = await asyncio.wait([shown, typed], return_when=asyncio.FIRST_COMPLETED)
    await link.close()
    for task in left:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    link.report_rest()
    for task in done:
        task.result()
    return 0


async def _type(link: GatewayLink, screen: ConsoleScreen, lines: PlainLines | PromptLines) -> None:
    while (line := await lines.next_line()) != b"":
        text = "" if line is None else line.decode("utf-8", "replace").rstrip("\n")
        if line is None or len(packed({"id": "0" * 16, "text": text, "reply_to": screen.asked[0]})) > LINE_BYTES:
            screen.line(f"(not sent: that line is longer than {LINE_BYTES // 2**20} MiB; put it into a file)")
            continue
        if sys.stdin.isatty():
            screen.entered(text)
        if text in (":quit", ":q"):
            return
        if text.lower().lstrip().startswith(":unlock"):
            await _unlock(link, lines, screen, text.strip().lower())
            continue
        if _COMMAND.match(text) and not text.startswith(":reply "):
            screen.line(f"(not sent: the console has no command {text.split()[0]}. {_COMMANDS})")
            continue
        if text[:1] == ":" and text[1:].isdecimal():
            _press(link, screen, int(text[1:]))
        elif text.startswith(":reply "):
            link.message(text.removeprefix(":reply "), screen.asked[0])
        elif text.strip():
            link.message(text)
        await link.drain()


def _press(link: GatewayLink, screen: ConsoleScreen, number: int) -> None:
    message, buttons = screen.asked
    if not 0 < number <= len(buttons):
        screen.line("(no such button is open here; /approvals lists open requests)")
    elif screen.is_taken_over:
        screen.line("(another question has just arrived, with the buttons above; press again to answer it)")
    elif not link.is_connected:
        screen.line("(not sent: the gateway is not connected; press again when it is)")
    else:
        link.send(press=[message, buttons[number - 1][0]])


async def _unlock(link: GatewayLink, lines: PlainLines | PromptLines, screen: ConsoleScreen, text: str) -> None:
    """Ask for the passphrase without echo, and send it to a gateway that is proven to run outside of all sessions."""
    if text != ":unlock":
        screen.line("(not sent: type :unlock alone; it asks for the passphrase and does not show it)")
    elif not sys.stdin.isatty():
        screen.line("(:unlock needs a terminal)")
    elif not link.is_connected:
        screen.line("(not asked: the gateway is not connected)")
    elif not link.is_outside:
        screen.line("(not asked: the gateway is not proven to run outside all sessions, so the passphrase is not sent)")
    else:
        screen.end_line()
        given = await lines.secret()
        if given and link.is_outside:  # the connection may be another one now
            link.send(unlock=given.decode("utf-8", "replace").rstrip("\n"))
            await link.drain()
