"""The chat command ``/ps``: the background processes of the chat's session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.background.viewing import obey
from agent.cli.format_processes import HEAD, SPARE, process_cells
from agent.cli.render import table
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_LINES = 40


async def obey_ps(chat: Conversation, rest: str) -> None:
    """List the background processes, show one's output or screen, attach to its terminal, or end one. Raises ToolcribError."""
    action, _, name = rest.partition(" ")
    if action == "attach":
        chat.screen.print_note(await _attach(chat, name.strip()))
        return
    found = await obey(chat.session.scope, rest, lines=_LINES)
    if isinstance(found, str):
        chat.screen.text(found)
        return
    now = time.time()
    table([HEAD, *(process_cells(one, now) for one in found)], spare=SPARE, width=chat.screen.width)
    chat.screen.print_note(
        "/ps log NAME shows the end of one's output, /ps screen NAME a terminal, /ps attach NAME opens it; /ps stop NAME ends one"
    )


async def _attach(chat: Conversation, name: str) -> str:
    """Show a terminal until the user leaves it, and return what happened."""
    from agent.background.attached import LocalAttached
    from agent.policy.self_protection import refuse_below_any

    refuse_below_any("/ps attach")
    if not name:
        raise ToolcribError("give the name of a terminal: /ps attach NAME; /ps lists the processes")
    if chat.reader is None:
        raise ToolcribError("/ps attach needs a terminal that can redraw")
    return await chat.reader.show_terminal(LocalAttached(chat.session.scope, name), name)
