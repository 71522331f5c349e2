"""Background delegates of a chat: ``/delegates``, and the question before a session that works in the background is closed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import one_line, tame
from agent.cli.render import table
from agent.cli.short_forms import ID_CHARS, ago
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.delegates.background_delegate import BackgroundDelegate


async def obey_delegates(chat: Conversation, rest: str) -> None:
    """List the background delegates, or stop one by its id or name. Raises ToolcribError."""
    found = chat.session.delegates.at_work
    if rest:
        word, _, named = rest.partition(" ")
        if word != "stop" or not (named := named.strip()):
            raise ToolcribError("use /delegates, or /delegates stop ID; `all` instead of the id stops all of them")
        for one in _named(found, named):
            one.stop()
            chat.screen.print_note(f"{one_line(one.name, 60)} ({one.session_id[:ID_CHARS]}) is being stopped; its changes stay")
        return
    if not found:
        chat.screen.print_note("no delegate is running in the background")
        return
    now = time.time()
    rows = [(one.session_id[:ID_CHARS], one_line(one.name, 40), ago(one.since, now), one_line(one.task, 200)) for one in found]
    table([("ID", "NAME", "BEGAN", "TASK"), *rows], width=chat.screen.width)
    chat.screen.print_note("/delegates stop ID stops one; `toolcrib sessions show ID` shows its work")


def _named(found: Sequence[BackgroundDelegate], named: str) -> Sequence[BackgroundDelegate]:
    """Return the delegates with this id or name. Raises ToolcribError if there are none, or several."""
    meant = list(found) if named == "all" else [one for one in found if named == one.name or one.session_id.startswith(named)]
    if not meant:
        raise ToolcribError(f"no running delegate has the id or name {tame(named)!r}; list delegates: /delegates")
    if len(meant) > 1 and named != "all":
        ids = ", ".join(one.session_id[:ID_CHARS] for one in meant)
        raise ToolcribError(f"{tame(named)!r} matches several delegates: {ids}; use one of these ids")
    return meant


async def may_end(chat: Conversation, doing: str) -> bool:
    """Return whether the session may be closed. Ask the user if background delegates or processes are running: they would end
    with it. ``doing`` names the user's action, such as ``leaving``.
    """
    found, running = chat.session.delegates.at_work, chat.session.running_processes
    if not found and not running:
        return True
    if found:
        names = ", ".join(f"{one_line(one.name, 40)} ({one.session_id[:ID_CHARS]})" for one in found)
        chat.screen.print_note(f"{doing} ends the running delegate{'' if len(found) == 1 else 's'}: {names}")
    if running:
        chat.screen.print_note(f"{doing} ends the background process{'' if len(running) == 1 else 'es'}: {', '.join(running)}")
    if chat.opening.confirm is None or await chat.opening.confirm("Continue?"):
        return True
    shown = ["/delegates shows the tasks of the delegates"] * bool(found) + ["/ps shows the processes"] * bool(running)
    chat.screen.print_note(f"cancelled; {', '.join(shown)}")
    return False
