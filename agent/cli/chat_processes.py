"""The chat command ``/ps``: the background processes of the chat's session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.background.viewing import obey
from agent.cli.format_processes import HEAD, SPARE, process_cells
from agent.cli.render import table

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_LINES = 40


async def obey_ps(chat: Conversation, rest: str) -> None:
    """List the background processes, show one's output or screen, or end one. Raises ToolcribError."""
    found = await obey(chat.session.scope, rest, lines=_LINES)
    if isinstance(found, str):
        chat.screen.text(found)
        return
    now = time.time()
    table([HEAD, *(process_cells(one, now) for one in found)], spare=SPARE, width=chat.screen.width)
    chat.screen.print_note("/ps log NAME shows the end of one's output, /ps screen NAME a terminal; /ps stop NAME ends one")
