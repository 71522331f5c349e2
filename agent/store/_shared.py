"""What every store does the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolcrib import ToolCallStatus, ToolcribError
from toolcrib._types import Json

Clock = Callable[[], float]
"""Unix time in seconds."""

TITLE_CHARS = 80
CANDIDATES = 5


def title_of(message: Mapping[str, Json]) -> str | None:
    """What a session is called after this message: the beginning of what a user said. None for any other message."""
    if message.get("role") != "user":
        return None
    text = message.get("text")
    return " ".join(text[: 20 * TITLE_CHARS].split())[:TITLE_CHARS] if isinstance(text, str) else ""


def ambiguous(prefix: str, ids: Sequence[str]) -> ToolcribError:
    """``ids`` are those that begin with ``prefix``, or the first CANDIDATES + 1 of them."""
    named = ", ".join(ids[:CANDIDATES]) + (" ..." if len(ids) > CANDIDATES else "")
    return ToolcribError(f"several sessions have an id that begins with {prefix!r}: {named}; give more of it")


def end_words(handler_started: bool) -> str:
    """What is told of a call whose process died."""
    return "interrupted; it may have run, or still run" if handler_started else "interrupted before it ran"


def can_finish_as(status: ToolCallStatus) -> bool:
    return status.is_terminal or status is ToolCallStatus.SUSPENDED
