"""The part of a continued run that an earlier process may have printed already, for `toolcrib run --json`."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from toolcrib.contract.dataclass import dataclass

if TYPE_CHECKING:
    from agent.conversation.session import Session


@dataclass(slots=True)
class EarlierOutput:
    """Events of an unfinished run that an earlier process may have printed. ``turn`` is the number of the turn whose reply is
    incomplete, 0 for none; ``begun`` and ``ended`` are the ids of calls that began and ended.
    """

    turn: int = 0
    begun: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    is_run: bool = False
    """True if there is an unfinished run."""
    _is_in_turn: bool = False

    def has(self, event: Event) -> bool:
        """Return whether an event repeats one of these. Call this for each event, in order."""
        match event:
            case TurnStarted(number=number):
                self._is_in_turn, self.turn = number == self.turn, 0
                return self._is_in_turn
            case TurnFinished():
                self._is_in_turn = False
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                return self._is_in_turn
            case ToolStarted(call=call):
                return _taken(self.begun, call.id)
            case ToolFinished(executed=executed):
                return _taken(self.ended, executed.call.id)
        return False


def _taken(ids: set[str], one: str) -> bool:
    is_there = one in ids
    ids.discard(one)  # a server may use an id again
    return is_there


async def earlier_output(session: Session, *, has_task: bool) -> EarlierOutput:
    """Return what an earlier process may have printed of the session's unfinished run. With a task, an unanswered turn is not
    repeated.
    """
    from agent.conversation.state import RunState

    record = await session.store.runs.current(session.id)
    if record is None:
        return EarlierOutput()
    state = RunState.of(record)
    found = EarlierOutput(state.turn + 1 if state.phase == "asking" and not has_task else 0, is_run=True)
    for one in state.batch:
        known = await session.store.ledger.get(session.id, one.call.id)
        if known is not None and known.is_of(state.turn_id, 0.0):
            found.begun.add(one.call.id)
            if known.status.is_terminal:
                found.ended.add(one.call.id)
    return found
