"""``toolcrib chat``: chat with a model, or call tools by hand."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
import textwrap
from collections import deque
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, INTERRUPTED, OK, running_crib
from agent.cli.escape import tame
from agent.cli.options import (
    MODEL_HELP,
    add_model_options,
    add_session_options,
    choice_of,
    folder_of,
    limits_of,
    mode_of,
    wants_trace,
)
from agent.cli.sandbox_words import where_line
from agent.cli.screen.tty import terminal_restored
from agent.cli.signals import Ended, interrupting
from agent.cli.words import SLASH
from agent.desk.commands import SLASH_COMMANDS
from agent.policy.self_protection import is_below_any

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from agent.api import Crib
    from agent.cli.complete import LineCompleter
    from agent.cli.conversation import Conversation
    from agent.cli.drafts import KeptDraft
    from agent.cli.interactive import InteractiveChat

_HISTORY_BYTES = 1 << 20
_TURNS = 50
"""Default number of turns of a run in the chat, after which the chat asks the user whether to continue."""
HELP = "Chat with a model that uses the tools, or call tools by hand without a model."


def _slash_commands() -> str:
    """Return the chat's commands with their arguments, in lines of the help's width."""
    words = (f"{name} {SLASH_COMMANDS[name].arguments}".rstrip().replace(" ", "\N{NO-BREAK SPACE}") for name in SLASH)
    lines = textwrap.wrap("  ".join(words), 124, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


_EPILOG = f"""\
examples:
  toolcrib chat "which test fails?"
  toolcrib chat --base-url http://127.0.0.1:11434/v1 --model qwen3
  toolcrib chat --continue
  toolcrib chat --backend docker
  toolcrib chat --provider manual

{MODEL_HELP}
in the chat:
  @terminal {{"command": "ls"}}      calls a tool; so does @tool NAME {{...}}
  !git status                      runs your command without asking and sends the model its output; !!git status does not send it
  what does @src/main.py do?       attaches a file, picture or folder; Tab completes its name
{_slash_commands()}
  Messages that you type during a run are queued. Alt-S sends the message with the next tool results, Ctrl-C interrupts the run.
  A !command waits until the model's shell is free. /keys lists all keys.

Input may also be piped in. Then answers and results go to standard output, everything else to standard error, and calls that
need approval are denied. The exit code is 0 after the last line, even if calls failed (`toolcrib call` has an exit code for each
call), or 1 if the model did not answer a line.
  printf '@terminal {{"command": "uname -a"}}\\n' | toolcrib chat
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("message", metavar="MESSAGE", nargs="?", default="", help="the first message, as if you typed it")
    words = "only append lines, in words: nothing spins or is redrawn (display.screen_reader)"
    parser.add_argument("--screen-reader", action="store_true", help=words)
    add_model_options(parser)
    add_session_options(parser)


def run(args: argparse.Namespace) -> int:
    from agent.cli.resuming import show_last
    from agent.cli.terminal import is_interactive

    interactive = is_interactive()
    with running_crib(args) as (crib, runner):
        if interactive:
            _confirm_allowlist(crib)
        paints = interactive and not _reads_aloud(args, crib) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
        drafts = _drafts(crib)
        live = _live_chat(crib, drafts) if paints else None
        ahead: list[str] = []
        conversation = _conversation(args, crib, live, ahead, interactive=interactive)
        try:
            left = runner.run(_open(args, conversation, drafts if live is not None else None))
            if live is not None:
                if left:
                    drafts.adopt(left, conversation.session.id)
                return _live(args, conversation, live, runner)
            if interactive:
                _greet(conversation)
            if args.resume or args.latest:
                runner.run(show_last(conversation))
                if interactive:
                    _go_on(conversation, runner)
            return _type(conversation, runner, args.message, ahead) if interactive else _pipe(conversation, runner, args.message)
        finally:
            with interrupting(lambda: None):
                runner.run(conversation.close())


def _reads_aloud(args: argparse.Namespace, crib: Crib) -> bool:
    """Return whether the chat must work with a screen reader: it then only adds lines, and uses words instead of symbols."""
    return args.screen_reader or crib.config.display.screen_reader


def _drafts(crib: Crib) -> KeptDraft:
    from agent.cli.drafts import KeptDraft
    from agent.config import state_dir

    return KeptDraft(state_dir() / "drafts", str(crib.project_dir))


async def _open(args: argparse.Namespace, conversation: Conversation, drafts: KeptDraft | None) -> str:
    """Open the requested session. If it takes over the draft of an earlier session without messages, return the id of that
    session, otherwise "".
    """
    from agent.desk.opening import NothingToContinue

    left = "" if drafts is None or args.resume else drafts.left_here()
    info = await conversation.opening.crib.store.sessions.get(left) if left else None
    if info is not None and info.messages:
        left = ""  # the draft stays with that session
    try:
        await conversation.open(resume=args.resume, latest=args.latest, backend=args.backend, mode=args.mode)
    except NothingToContinue:
        if not left:
            raise
        await conversation.open(backend=args.backend, mode=args.mode)
        args.latest = False
    return "" if args.latest else left


def _live_chat(crib: Crib, drafts: KeptDraft) -> InteractiveChat:
    from agent.cli.interactive import InteractiveChat

    config = crib.config
    return InteractiveChat(config.display, _history(_history_file()), drafts=drafts, notify=config.approval.notify_command)


def _live(args: argparse.Namespace, conversation: Conversation, live: InteractiveChat, runner: asyncio.Runner) -> int:
    """Run the chat on its own screen. Return the exit code."""
    from agent.cli.resuming import show_last

    live.completer = _completer(conversation)
    if args.message.strip():
        live.sent(args.message, steers=False)

    async def begin() -> None:
        _greet(conversation)
        if args.resume or args.latest:
            await show_last(conversation)
        live.restore_draft()
        if args.resume or args.latest:
            await conversation.go_on()

    try:
        with terminal_restored():  # a run that a signal ended restores the chat's mode late
            runner.run(live.run(conversation, begin))
    except Ended:
        raise
    except KeyboardInterrupt as error:
        error.add_note(f"toolcrib chat --resume {conversation.session.id[:12]} continues this session")
        raise
    session, info = conversation.session.id, runner.run(conversation.session.info())
    if info is not None and info.messages:
        print(f"session {session[:12]}: toolcrib chat --resume {session[:12]} continues this session")
    return OK


def _conversation(
    args: argparse.Namespace, crib: Crib, live: InteractiveChat | None, ahead: list[str], *, interactive: bool
) -> Conversation:
    """Return the conversation. ``ahead`` receives text typed before a question if the chat has no screen of its own."""
    from agent.cli.ask import asker_for
    from agent.cli.below import TerminalBelow
    from agent.cli.conversation import Conversation
    from agent.cli.opening import ChatOpening
    from agent.cli.plain import PlainScreen
    from agent.cli.render import Screen
    from agent.cli.slash import obey
    from agent.cli.terminal import Terminal, find_terminal

    crib.backends.start_early(args.backend)
    aloud = interactive and _reads_aloud(args, crib)
    screen = PlainScreen(words=aloud) if interactive else Screen(interactive=False)
    below = TerminalBelow(screen, Terminal(sys.stdout, lines_only=aloud, kept=ahead.append)) if interactive else None
    opening = ChatOpening(
        crib,
        live.questions.ask if live is not None else asker_for(below or find_terminal(), lambda: conversation.interrupt()),
        limits_of(crib.config, args, _TURNS),
        args.toolsets,
        args.disable,
        folder_of(args, crib),
        wants_trace(args),
        args.backend,
        None if is_below_any() else live.questions.confirm if live is not None else below.confirm if below is not None else None,
        mode_of(args, crib.config),
        at_prompt=live is not None,
    )
    shown = (screen,) if live is None else (live.view.screen, live.view)
    conversation = Conversation(opening, choice_of(args), *shown, obey=obey)
    return conversation


def _greet(conversation: Conversation) -> None:
    if is_below_any():
        print("toolcrib: this chat was started by a command of a session: it cannot approve calls, so they are denied.")
    print(f"toolcrib: {tame(where_line(conversation.session))}")
    if conversation.model:
        print(f"toolcrib: {conversation.model} answers. /help lists the commands, Ctrl-D leaves.")
        return
    print("toolcrib: no model: call tools by hand. /help lists the commands, Ctrl-D leaves.")
    if not conversation.has_server() and not conversation.choice.provider:
        from agent.cli.offer import offers

        for line in offers("chat"):
            conversation.screen.print_note(line)


def _pipe(conversation: Conversation, runner: asyncio.Runner, first: str) -> int:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # the tool's own check reports bytes that are not text
    code = OK
    for line in chain([first] if first.strip() else [], sys.stdin or ()):
        with interrupting(conversation.interrupt) as came:
            going_on = runner.run(conversation.say(line.removeprefix("\ufeff")))
        if came:
            return INTERRUPTED
        if conversation.failed:
            code = FAILED
        if not going_on:
            break
    return code


def _type(conversation: Conversation, runner: asyncio.Runner, first: str, ahead: list[str]) -> int:
    """Read a line at a time. Text that was typed before a question, in ``ahead``, is used after the run. Return the exit code."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.shortcuts import CompleteStyle

    prompt: PromptSession[str] = PromptSession(
        history=_history(_history_file()),
        completer=_completer(conversation),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE if conversation.screen.words else CompleteStyle.COLUMN,
        enable_suspend=True,
        vi_mode=conversation.opening.crib.config.display.editing_mode == "vi",
    )
    if first.strip():
        print(f"> {tame(first)}")
        with terminal_restored(), interrupting(conversation.interrupt):
            if not runner.run(conversation.say(first)):
                return OK
    queued: deque[str] = deque()
    draft = ""
    while True:
        lines, _, draft = "".join([draft, *ahead]).rpartition("\n")
        ahead.clear()
        queued += (line for line in lines.split("\n") if line.strip())
        try:
            if queued:
                line = queued.popleft()
                print(f"> {tame(line)}")
            else:
                line, draft = runner.run(prompt.prompt_async("> ", default=draft)), ""
        except Ended:
            raise
        except KeyboardInterrupt:
            draft = ""
            continue
        except EOFError:
            return OK
        with terminal_restored(), interrupting(conversation.interrupt) as came:
            if not runner.run(conversation.say(line)):
                return OK
        if came:  # the user decides whether to send the queued lines
            draft = " ".join([*queued, draft]).strip()
            queued.clear()


def _completer(conversation: Conversation) -> LineCompleter:
    from agent.cli.arguments import offers_of
    from agent.cli.complete import LineCompleter
    from agent.cli.filenames import FileNames
    from agent.cli.words import words_of

    def folder() -> str:
        """Return the folder of the session's commands if it is on this machine, else "". Opens no environment."""
        if conversation.session.backend.is_remote:
            return ""
        scope = conversation.session.scope
        here = scope.cwd if scope.opened is not None else scope.start
        return here if Path(here).is_dir() else ""

    words = words_of(conversation.opening.crib)
    return LineCompleter(conversation.session.definitions, words, FileNames(folder), offers_of(conversation))


def _go_on(conversation: Conversation, runner: asyncio.Runner) -> None:
    """Ask the questions that a run of the session waits for, and continue it."""
    with terminal_restored(), interrupting(conversation.interrupt):
        runner.run(conversation.go_on())


def _history(file: Path | None) -> History:
    """Return the history of typed lines. A line that can't be stored, for example on a full disk, does not end the chat."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if file is None:
        return InMemoryHistory()

    class TypedLines(FileHistory):
        def store_string(self, string: str) -> None:
            try:
                super().store_string(string)
            except OSError as error:
                print(f"toolcrib: cannot save this line in the history: {file}: {error.strerror or error}", file=sys.stderr)

    return TypedLines(file)


def _history_file() -> Path | None:
    """Return the history file, or None if it can't be written. It is private, because typed calls may contain secrets."""
    from agent.config import state_dir

    file = state_dir() / "chat_history"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        file.chmod(0o600)
        _shorten(file)
    except OSError as error:
        print(f"toolcrib: cannot save lines in the history: {file}: {error.strerror or error}", file=sys.stderr)
        return None
    return file


def _shorten(file: Path) -> None:
    """Drop the older entries of a history longer than _HISTORY_BYTES: each start reads the whole file."""
    if file.stat().st_size <= _HISTORY_BYTES:
        return
    _, begin, newest = file.read_bytes()[-_HISTORY_BYTES // 2 :].partition(b"\n# ")  # an entry begins with its time
    short = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        with open(os.open(short, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as out:  # noqa: PTH123 - a descriptor
            out.write(begin + newest)
        short.replace(file)
    finally:
        short.unlink(missing_ok=True)


def _confirm_allowlist(crib: Crib) -> None:
    """Show entries of command_allowlist that were not added by an answer of the user, and ask to confirm them."""
    from agent.cli.escape import exact
    from agent.cli.terminal import columns_of, confirm_by_word
    from tools.approval.prompt import PromptLine, physical

    entries: list[Any] = crib.grants.unconfirmed()
    if not entries:
        return
    print(f"{crib.config.path} has unconfirmed entries that allow commands without asking:")
    lines = [PromptLine(f"  {exact(crib.grants.describe(entry))}") for entry in entries]
    print("\n".join(physical(lines, columns_of(sys.stdout))))
    if confirm_by_word("Allow them to run without asking?"):
        crib.grants.confirm()
