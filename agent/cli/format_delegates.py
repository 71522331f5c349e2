"""Describe how background delegates ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from agent.cli.short_forms import ID_CHARS
from tools.delegate_tool import ENDS, used_words

if TYPE_CHECKING:
    from agent.events import DelegateEnded

_HOW: Mapping[str, str] = {**{key: words for key, (words, _) in ENDS.items()}, "done": "done"}


def ended_words(event: DelegateEnded, *, idle: bool) -> str:
    """Return one line about how a background delegate ended. ``idle``: no run is in progress that could read the result."""
    how = _HOW.get(event.ended, "failed")
    if event.problem and how not in ("done", "out of time", "stopped"):
        how = f"{how}: {one_line(event.problem, 300)}"
    reads = "gets its answer with your next message" if idle else "gets its answer next"
    name = f"delegate {one_line(event.name, 60)} ({event.session_id[:ID_CHARS]})"
    return f"{name} has ended: {how}; {used_words(event.turns, event.tokens)}; the model {reads}"
