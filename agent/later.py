"""The note at a session's end about files that it wrote and that later run outside its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.contract.errors import StoreFailed

if TYPE_CHECKING:
    from agent.conversation.session import Session

_SHOWN = 10
MOST_NOTE = 4_000
"""Maximum number of characters of a note that are shown."""


async def later_note(session: Session) -> str:
    """Return the note about the session's files that will run outside its sandbox; "" if there are none, or no sandbox."""
    if session.backend.held == "none":
        return ""
    from tools.contained.later import later_run

    try:
        steps = await session.store.changes.steps(session.id)
    except StoreFailed:  # the session ends anyway, and the store has reported the failure
        return ""
    last = {change.path: change.after for step in steps for change in step.changes}
    found = later_run((path, state.mode) for path, state in last.items() if state is not None)
    if not found:
        return ""
    shown = ", ".join(f"{path} ({by})" for path, by in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"this session wrote files that will run outside the sandbox; read them first: {shown}{more}"
