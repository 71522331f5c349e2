"""Delegates in words: how one ended, and what it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.cli.escape import one_line
from agent.cli.short_forms import ID_CHARS
from agent.delegates import TOOL
from agent.delegates.budget import tokens_in

if TYPE_CHECKING:
    from agent.events import DelegateEnded
    from toolcrib.contract.session import ExecutedCall

_ENDS: Mapping[str, tuple[str, str]] = {
    "done": ("ok", "green"),
    "works on": ("works in the background", "yellow"),
    "max_turns": ("out of turns", "yellow"),
    "time": ("out of time", "yellow"),
    "interrupted": ("stopped", "yellow"),
    "ended": ("ended by a gate", "yellow"),
}
_HOW: Mapping[str, str] = {"done": "done", **{key: words for key, (words, _) in _ENDS.items() if key != "done"}}


def outcome_of(executed: ExecutedCall) -> tuple[str, str] | None:
    """Return how the delegate of a call ended, as agent.cli.render.outcome has it; None for any other call."""
    if (data := _data(executed)) is None:
        return None
    return _ENDS.get(str(data["ended"]), ("failed", "red"))


def outcome_lines(executed: ExecutedCall) -> list[str]:
    """Return what to say below the line of a delegate's call: why it failed, and what it used. Nothing for any other call."""
    if (data := _data(executed)) is None:
        return []
    if data["ended"] == "works on":
        return [f"{str(data.get('delegate', ''))[:ID_CHARS]}: /delegates tells what it does"]
    usage = data.get("usage")
    problem = one_line(str(data.get("problem") or ""), 400)
    return [
        *([problem] if problem else []),
        used(int(data.get("turns", 0)), tokens_in(usage) if isinstance(usage, Mapping) else 0),
    ]


def used(turns: int, tokens: int) -> str:
    """Word what a delegate used: ``3 turns, 1,234 tokens``."""
    return f"{turns} turn{'' if turns == 1 else 's'}, {tokens:,} token{'' if tokens == 1 else 's'}"


def ended_words(event: DelegateEnded, *, idle: bool) -> str:
    """Word in one line how a delegate in the background ended. ``idle``: no run is under way that reads its answer."""
    how = _HOW.get(event.ended, "failed")
    if event.problem and how not in ("done", "out of time", "stopped"):
        how = f"{how}: {one_line(event.problem, 300)}"
    reads = "reads its answer with your next message" if idle else "reads its answer next"
    name = f"the delegate {one_line(event.name, 60)} ({event.session_id[:ID_CHARS]})"
    return f"{name} has ended: {how}; {used(event.turns, event.tokens)}; the model {reads}"


def _data(executed: ExecutedCall) -> Mapping[str, Any] | None:
    data = executed.result.data
    is_one = executed.call.name == TOOL and executed.result.is_success and isinstance(data, Mapping) and "ended" in data
    return data if is_one else None
