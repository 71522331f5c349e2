"""Delegates in words: how one ended, what it used, and what is told of those in the background."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.escape import one_line, tame
from agent.cli.session_format import ID_CHARS, ago
from agent.delegates import TOOL
from agent.delegates.budget import tokens_in
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.delegates.background_delegate import BackgroundDelegate
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


def told(executed: ExecutedCall) -> list[str]:
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


async def obey_delegates(chat: Conversation, rest: str) -> None:
    """List the delegates that work in the background, or stop one by its id or name. Raises ToolcribError."""
    from agent.cli.render import table

    found = chat.session.delegates.at_work
    if rest:
        word, _, named = rest.partition(" ")
        if word != "stop" or not (named := named.strip()):
            raise ToolcribError("write /delegates, or /delegates stop ID; `all` in the place of the id stops each of them")
        for one in _named(found, named):
            one.stop()
            chat.screen.note(f"{one_line(one.name, 60)} ({one.session_id[:ID_CHARS]}) is being stopped; what it did stays done")
        return
    if not found:
        chat.screen.note("no delegate works in the background")
        return
    now = time.time()
    rows = [(one.session_id[:ID_CHARS], one_line(one.name, 40), ago(one.since, now), one_line(one.task, 200)) for one in found]
    table([("ID", "NAME", "BEGAN", "TASK"), *rows], width=chat.screen.width)
    chat.screen.note("/delegates stop ID stops one; `toolcrib sessions show ID` tells what it did so far")


def _named(found: Sequence[BackgroundDelegate], named: str) -> Sequence[BackgroundDelegate]:
    """Return those that are meant. Raises ToolcribError where that is none, or not clear."""
    meant = list(found) if named == "all" else [one for one in found if named == one.name or one.session_id.startswith(named)]
    if not meant:
        raise ToolcribError(f"no delegate at work has the id or name {tame(named)!r}; /delegates lists them")
    if len(meant) > 1 and named != "all":
        ids = ", ".join(one.session_id[:ID_CHARS] for one in meant)
        raise ToolcribError(f"{tame(named)!r} stands for several of them: {ids}; say one of these ids")
    return meant


async def may_end(chat: Conversation, doing: str) -> bool:
    """Return whether the session may be left: where delegates work, who end with it, the person is asked. ``doing`` is what they
    do, as ``leaving``.
    """
    found = chat.session.delegates.at_work
    if not found:
        return True
    names = ", ".join(f"{one_line(one.name, 40)} ({one.session_id[:ID_CHARS]})" for one in found)
    chat.screen.note(f"{doing} ends the delegate{'' if len(found) == 1 else 's'} at work: {names}")
    if chat.opening.confirm is None or await chat.opening.confirm("Go ahead?"):
        return True
    chat.screen.note("stayed; /delegates tells what they do")
    return False


def _data(executed: ExecutedCall) -> Mapping[str, Any] | None:
    data = executed.result.data
    is_one = executed.call.name == TOOL and executed.result.is_success and isinstance(data, Mapping) and "ended" in data
    return data if is_one else None
