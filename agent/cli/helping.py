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
Call a tool by typing it:
  @terminal {"command": "ls"}
  @tool read_file {"path": "README.md"}
"""
_WITH_MODEL = """\
Say what you want done. A line such as @terminal {"command": "ls"} runs a tool yourself; the model does not hear of it.
!COMMAND is run by you, in the same shell and unasked; its output goes with your next message, that of !!COMMAND does not.
@PATH in a message attaches that file, picture or folder, as a picture that is dropped does; Tab completes it, @"a b" has blanks.
"""
_KEYS = """\
What you type while it works is queued; {steer} hands it to the model with its next results, {take_back} takes it back.
{newline}, or a backslash before Enter begin another line; {edit} opens $EDITOR; {search} searches the history.
{next_mode} switches the mode: default, confirm-edits, plan.
A question takes a letter, or the arrows and Enter; what you go on typing stays yours. Ctrl-C says no to it and interrupts.
Ctrl-C interrupts what runs and keeps the session. {complete} completes. /keys lists all keys.
"""
_PLAIN_KEYS = """\
Ctrl-C interrupts what runs and keeps the session. Tab completes.
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
        raise ToolcribError("here the keys are those of any command line; display.keys is for the chat's own screen")
    keys = chat.opening.crib.config.display.keys
    listed(chat, [(_labels(pressed), f"{words} ({name})") for name, pressed, words in key_table(keys)])
    chat.screen.print_note(
        "Change one: toolcrib config set display.keys.steer '[f5, alt-s]'; interrupt and leave stay as they are."
    )
