"""The chat command /ps: shows and ends the background processes of a chat's session, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.gateway.forms import one_line
from toolcrib.contract.chat import without_controls
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.conversation.session import Session

_LINES, _LONGEST = 20, 200


async def processes_of(session: Session, text: str) -> str:
    """Run the text after /ps as a command, and return the reply. A group's processes belong to all who may speak there."""
    from agent.background.viewing import obey

    try:
        found = await obey(session.scope, text, lines=_LINES)
    except ToolcribError as error:
        return one_line(str(error), 500)
    if isinstance(found, str) and text.startswith("screen "):  # in its columns
        return "\n".join(without_controls(line)[:_LONGEST] for line in found.split("\n"))
    lines = found.splitlines() if isinstance(found, str) else map(_line, found)
    return "\n".join(one_line(line, _LONGEST) for line in lines)


def _line(one: Mapping[str, Json]) -> str:
    state = one["state"] if one["exit_code"] is None else f"exit code {one['exit_code']}"
    return f"{one['name']}: {state}{''.join(f', port {port}' for port in one['ports'])} — {one['command']}"
