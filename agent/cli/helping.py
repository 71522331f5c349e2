"""The output of /help and /keys: how to type calls and messages, the commands, and the configured keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.cli.screen.cells import TEXT_WIDTH
from agent.cli.words import words_of
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_BY_HAND = """\
Call a tool by hand:
  @terminal {"command": "ls"}
  @tool read_file {"path": "README.md"}
"""
_WITH_MODEL = """\
Type what you want done. A line such as @terminal {"command": "ls"} calls a tool by hand; the model does not see it.
!COMMAND runs your command in the same shell, without asking; its output goes with your next message. With !! it does not.
@PATH in a message attaches that file, image or folder; Tab completes the path. If it has blanks, write @"a b".
An image that you drop here is attached too.
"""
_KEYS = """\
Messages that you type during a run are queued; {steer} sends them with the next tool results, {take_back} edits the last one.
{newline}, or a backslash before Enter starts a new line; {edit} opens $EDITOR; {search} searches the history.
{next_mode} switches the mode: default, confirm-edits, plan.
An approval request takes a letter, or the arrows and Enter; your draft stays. Ctrl-C denies it and interrupts the run.
Ctrl-C interrupts the run and keeps the session. {complete} completes. /keys lists all keys.
"""
_PLAIN_KEYS = """\
Ctrl-C interrupts the run and keeps the session. Tab completes.
"""


async def show_help(chat: Conversation, rest: str) -> None:
    from agent.config import key_table

    how = _WITH_MODEL if chat.model else _BY_HAND
    words = (f"{name:<10} {text}" for name, text in words_of(chat.opening.crib).items())
    keys = {name: _labels(keys[:1]) for name, keys, _ in key_table(chat.opening.crib.config.display.keys)}
    told = _PLAIN_KEYS if chat.reader is None else _KEYS.format(**keys)
    lines = [*(how + told).rstrip("\n").split("\n"), *words]
    if chat.screen.interactive:
        from textwrap import fill

        width = max(min(chat.screen.width, TEXT_WIDTH), 30)
        lines = [fill(line, width, subsequent_indent=" " * 11 if line.startswith("/") else "") for line in lines]
    chat.screen.text("\n".join(lines))


def listed(chat: Conversation, rows: Sequence[tuple[str, str]]) -> None:
    """Print names with descriptions in two columns, or below each other on a narrow screen. Nothing is cut."""
    from textwrap import fill

    width, room = max(min(chat.screen.width, TEXT_WIDTH), 20), max(len(name) for name, _ in rows) + 2
    lines = []
    for name, words in rows:
        if room > width // 2:
            lines += [name, fill(words, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)]
        else:
            lines.append(fill(f"{name:<{room}}{words}", width, subsequent_indent=" " * room, break_on_hyphens=False))
    chat.screen.text("\n".join(lines))


def _labels(keys: Sequence[str]) -> str:
    from agent.config import key_label

    return ", ".join(map(key_label, keys)) or "(no key)"


async def show_keys(chat: Conversation, rest: str) -> None:
    from agent.config import key_table

    if chat.reader is None:
        raise ToolcribError("display.keys applies only on the chat's own screen; here the usual keys of a command line apply")
    keys = chat.opening.crib.config.display.keys
    listed(chat, [(_labels(pressed), f"{words} ({name})") for name, pressed, words in key_table(keys)])
    chat.screen.print_note("To change keys: toolcrib config set display.keys.steer '[f5, alt-s]'; interrupt and leave are fixed.")
