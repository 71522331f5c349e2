"""``toolcrib ps``: the background processes of the user's sessions."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, open_crib
from agent.cli.options import count
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.process import Crib
    from toolcrib.contract.types import Json

HELP = "List the background processes of your sessions, show their output, attach to their terminals, and end them."
_EPILOG = """\
examples:
  toolcrib ps                          the background processes of all your sessions
  toolcrib ps show server              all that is known about one; the name is enough if only one session has it
  toolcrib ps log 4f1c/server          the end of its output; 4f1c is the beginning of the session's id
  toolcrib ps log server -f            and what it prints from now on, until it ends or you press Ctrl-C
  toolcrib ps log server -n 20         the last 20 lines
  toolcrib ps kill 4f1c/server watch   end two processes with all that they started; their logs stay
  toolcrib ps kill --all --yes         end all, without a question
  toolcrib ps attach 4f1c/repl         watch a terminal live; your first key takes it from the model, Ctrl-] gives it back

A model starts these processes with its tool terminal (background: true); they end with their session. The toolcrib that has a
session open answers for its processes. If that toolcrib was killed, its terminals have ended, and the state of other processes
is "unattended": they may still run. To continue with them, or to read their logs, resume the session: toolcrib chat --resume ID.
`kill` ends the processes that you name; the session's others continue, and all logs stay until the resumed session ends or
`toolcrib env prune` removes them.
In a chat, /ps shows the processes of that chat. Inside a session all of these commands are refused.

`attach` is for processes in a terminal (pty: true), on the machine that has their session open. All keys reach the program,
also Ctrl-C; only Ctrl-] is yours. While you type, the model can look but not type, and the terminal has the size of your window.
What you type is recorded in the session (toolcrib trace), except what the terminal does not show, such as passwords. The model
reads that you typed, and what is on the screen.

exit codes: 0 done, 1 no such process or it can't be reached, 2 wrong command line or configuration, 130 interrupted.
"""
_OVER = ("exited", "lost", "ended")
"""States of processes that no longer run."""
_ACTIONS = ("list", "show", "log", "kill", "attach")
_FOLLOW = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", help="what to do (default: list)")
    parser.add_argument("names", metavar="SESSION/NAME", nargs="*", default=[], help="the process; NAME alone if it is unique")
    parser.add_argument("-f", "--follow", action="store_true", help="log: also print later output until the process ends")
    parser.add_argument("-n", "--lines", metavar="LINES", type=count, default=100, help="log: the last LINES (default: 100)")
    parser.add_argument("--all", action="store_true", help="kill: all background processes of your sessions")
    parser.add_argument("--yes", action="store_true", help="kill: do not ask")
    parser.add_argument("--json", action="store_true", help="list, show, log, kill: print JSON")


def run(args: argparse.Namespace) -> int:
    from agent.background.reaching import Unreached
    from agent.cli.escape import tame
    from agent.cli.terminal import is_interactive
    from tools.dispatch.bridge import run_async

    if args.action == "list" and args.names:
        raise ToolcribError(f"list takes no names; to show a process: toolcrib ps show {args.names[0]}")
    if args.action in ("show", "log", "attach") and len(args.names) != 1:
        raise ToolcribError(f"give one process: toolcrib ps {args.action} SESSION/NAME; to list processes: toolcrib ps")
    if args.action == "kill" and bool(args.names) == args.all:
        raise ToolcribError("name what to end: toolcrib ps kill SESSION/NAME ..., or --all")
    if args.follow and (args.json or args.action != "log"):
        raise ToolcribError("-f is for log, without --json")
    if args.action == "attach" and (args.json or not is_interactive()):
        raise ToolcribError("attach needs a user at a terminal: standard input and output must be one, without --json")
    with open_crib(args, looks=True, as_confirmed=args.action != "kill") as crib:
        refuse_below(folders_of(crib.config), f"`toolcrib ps {args.action}`")
        try:
            return run_async(_DO[args.action](crib, args))
        except Unreached as error:
            print(tame(f"toolcrib: {error}"), file=sys.stderr)
            return FAILED


async def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.background.reaching import all_processes
    from agent.cli.format_processes import HEAD, SPARE, process_cells
    from agent.cli.render import table
    from agent.cli.short_forms import ID_CHARS

    found, now = await all_processes(crib), time.time()
    if args.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    elif found:
        cells = [(one["session"][:ID_CHARS], *process_cells(one, now)[:-1], one["title"], one["command"]) for one in found]
        table([("SESSION", *HEAD[:-1], "TITLE", "COMMAND"), *cells], spare=(7, *(at + 1 for at in SPARE)), whole=(1,))
        if any(one["state"] == "unattended" for one in found):
            print("\nunattended: their toolcrib was killed. To continue with them: toolcrib chat --resume SESSION")
    else:
        print("no background processes; a model starts them with its tool terminal")
    return OK


async def _show(crib: Crib, args: argparse.Namespace) -> int:
    from agent.background.reaching import all_processes, chosen
    from agent.cli.escape import one_line

    [one] = chosen(await all_processes(crib), args.names)
    if args.json:
        print(json.dumps(one, ensure_ascii=False, indent=2))
        return OK
    for name, value in one.items():
        if value not in (None, "", []):
            value = datetime.fromtimestamp(float(value)) if name in ("at", "ended_at") else value
            print(f"{name + ':':<13}{one_line(str(value), 5000)}")
    return OK


async def _log(crib: Crib, args: argparse.Namespace) -> int:
    import asyncio

    from agent.background.reaching import all_processes, chosen, log_from

    [one] = chosen(await all_processes(crib), args.names)
    log = await log_from(crib.store, one, lines=args.lines)
    if args.json:
        print(json.dumps({"session": one["session"], "name": one["name"], "output": log["text"]}, ensure_ascii=False))
        return OK
    _print(log)
    while args.follow and log["writes"]:
        await asyncio.sleep(_FOLLOW)
        log = await log_from(crib.store, one, lines=args.lines, begin=log["next"])
        _print(log)
    return OK


def _print(log: Mapping[str, Json]) -> None:
    from agent.cli.escape import tame

    print(tame(log["text"].replace("\r\n", "\n")), end="", flush=True)


async def _kill(crib: Crib, args: argparse.Namespace) -> int:
    from agent.background.reaching import Unreached, all_processes, chosen, end
    from agent.cli.escape import tame
    from agent.cli.terminal import agreed

    known = await all_processes(crib)
    found = [one for one in known if one["state"] not in _OVER]
    wanted = found if args.all else chosen(known, args.names)
    if over := [one["name"] for one in wanted if one["state"] in _OVER]:
        raise Unreached(f"nothing was ended: {', '.join(over)} has ended already. List processes: toolcrib ps")
    named = [f"{one['session'][:12]}/{one['name']}" for one in wanted]
    if not agreed(f"End {', '.join(named)}?", named, yes=args.yes):
        return FAILED
    await end(crib, wanted)
    if args.json:
        print(json.dumps([{"session": one["session"], "name": one["name"]} for one in wanted], ensure_ascii=False))
    else:
        print("\n".join(f"ended: {tame(name)}" for name in named) or "no background process is running")
    return OK


async def _attach(crib: Crib, args: argparse.Namespace) -> int:
    import asyncio

    from agent.background.reaching import all_processes, chosen, socket_of
    from agent.background.remote_attached import attach
    from agent.cli.attached_screen import show_terminal
    from agent.cli.escape import tame
    from agent.cli.screen.themes import theme_for
    from agent.cli.signals import interrupting
    from agent.policy.self_protection import refuse_below_any

    refuse_below_any("`toolcrib ps attach`")
    [one] = chosen(await all_processes(crib), args.names)
    attached = await attach(await socket_of(crib.store, one))
    display, loop, is_over = crib.config.display, asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(is_over.set)

    with interrupting(stop):
        print(tame(await show_terminal(attached, one["name"], theme_for(display.theme, display.color), is_over)))
    return OK


_DO: Mapping[str, Callable[[Crib, argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "list": _list,
    "show": _show,
    "log": _log,
    "kill": _kill,
    "attach": _attach,
}
