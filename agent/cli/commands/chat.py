"""``toolcrib chat``: type calls, see results."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.cli.app import INTERRUPTED, OK, open_crib
from agent.cli.signals import Ended, interrupting

if TYPE_CHECKING:
    from pathlib import Path

    from agent.cli.conversation import Conversation
    from agent.run import Crib, Session

NAME = "chat"
HELP = "Type tool calls by hand; every one passes the gates."
_EPILOG = """\
in the chat:
  @terminal {"command": "ls"}      calls a tool; @tool NAME {...} does too
  /help  /tools  /quit

Lines may also be piped in. Then results go to stdout and everything else to stderr, whatever would have to be
approved is denied, and the exit code is 0 once all lines were read, however the calls ended: `toolcrib call`
answers with an exit code for a call.
  printf '@terminal {"command": "uname -a"}\\n' | toolcrib chat
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--toolsets", metavar="A,B", help="these toolsets instead of the configured ones")


def run(args: argparse.Namespace) -> int:
    from agent.cli.ask import asker_for
    from agent.cli.conversation import Conversation
    from agent.cli.render import Screen
    from agent.cli.terminal import Terminal, find_terminal, is_interactive
    from agent.providers.manual import ManualSession

    interactive = is_interactive()
    enabled = args.toolsets.split(",") if args.toolsets else None
    with open_crib(args) as crib, asyncio.Runner() as runner:
        if interactive:
            _confirm_allowlist(crib)
        terminal = Terminal(sys.stdout) if interactive else find_terminal()
        session = crib.open_session(platform="cli", asker=asker_for(terminal), enabled=enabled)
        conversation = Conversation(session, ManualSession(session.names), Screen(interactive=interactive))
        try:
            return (_type if interactive else _pipe)(conversation, session, runner)
        finally:
            with interrupting(lambda: None):
                runner.run(session.close())


def _pipe(conversation: Conversation, session: Session, runner: asyncio.Runner) -> int:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # what is no text reaches the tool's own check, which says so
    for line in sys.stdin or ():
        with interrupting(session.interrupt) as came:
            going_on = runner.run(conversation.say(line))
        if came:
            return INTERRUPTED
        if not going_on:
            break
    return OK


def _type(conversation: Conversation, session: Session, runner: asyncio.Runner) -> int:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    from agent.cli.complete import LineCompleter

    file = _history_file()
    prompt: PromptSession[str] = PromptSession(
        history=InMemoryHistory() if file is None else FileHistory(file),
        completer=LineCompleter(session.definitions),
        complete_while_typing=False,
    )
    print("toolcrib: no model, you call the tools. /help tells how, Ctrl-D leaves.")
    while True:
        try:
            line = runner.run(prompt.prompt_async("> "))
        except Ended:
            raise
        except KeyboardInterrupt:
            continue
        except EOFError:
            return OK
        with _terminal_restored(), interrupting(session.interrupt):
            if not runner.run(conversation.say(line)):
                return OK


@contextmanager
def _terminal_restored() -> Iterator[None]:
    """A tool may not leave the terminal in another mode than it found it in."""
    import termios

    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _history_file() -> Path | None:
    """Private, since typed calls may hold secrets. None where it can't be kept."""
    from agent.config import state_dir

    file = state_dir() / "chat_history"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        file.chmod(0o600)
    except OSError as error:
        print(f"toolcrib: lines are not remembered: {file}: {error.strerror or error}", file=sys.stderr)
        return None
    return file


def _confirm_allowlist(crib: Crib) -> None:
    """Entries of command_allowlist that no answer of the person's wrote are shown, and count only once confirmed."""
    from agent.cli.escape import exact
    from agent.cli.terminal import confirm_by_word

    entries: list[Any] = crib.grants.unconfirmed()
    if not entries:
        return
    print(f"{crib.config.path} names commands to run unasked that you have not confirmed:")
    for entry in entries:
        print(f"  {exact(' '.join(entry.argv))}   in {exact(entry.cwd)}")
    if confirm_by_word("Shall they run unasked?"):
        crib.grants.confirm()
