"""The chat's last row: the model, its cost, the backend of commands, and what keys do now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.escape import one_line, tame
from agent.cli.screen.cells import width

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation


def footer(conversation: Conversation, tokens: int, keys: str, room: int) -> str:
    """Return the row. ``tokens`` is the known use of context; ``keys`` describes the keys' current actions.

    If ``room`` is too narrow, the parts that matter least for the next key are left out.
    """
    session = conversation.session
    parts: list[str] = [session.mode.now] if session.mode.now != "default" else []  # first, since a narrow screen must not cut it
    parts.append(model := one_line(conversation.model, 40) or "no model")
    spare = []
    if tokens:
        window = session.link.window
        share = "" if window is None else f", {tokens * 100 // window} %"
        spare.append(f"{tokens:,} tokens of context{share}")
    if conversation.cost is not None:
        spare.append(f"{'~' if conversation.estimated else ''}{conversation.cost:.4f} spent")
    parts += spare
    parts.append(backend := tame(session.backend.name))
    if at_work := len(session.delegates.at_work):
        parts.append(f"{at_work} running delegate{'' if at_work == 1 else 's'}")
    if running := len(session.running_processes):
        parts.append(f"{running} process{'' if running == 1 else 'es'}")
    if waiting := len(conversation.beside) + len(conversation.images):
        parts.append(f"{waiting} for the next message")
    for part in (*spare, backend, model):
        if width(" · ".join([*parts, keys])) > room:
            parts.remove(part)
    return " · ".join([*parts, keys])
