"""Follow-ups to a result that an observer may ask for (002-26)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from toolcrib.contract.context import ActivityEvent
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.state import StateKey, StateUpdate
from toolcrib.contract.types import Json


@dataclass(frozen=True, slots=True)
class After:
    """Follow-ups to a call; ``post_tool_call`` returns them, or None. The call's result does not change.

    ``state`` changes the state, as ``ToolOutput.state_changes`` do: values or StateUpdates by key. If several plugins set the
    same key, the first one wins and the conflict is logged. ``events`` go to listeners of the session's activity.

    ``later`` are functions without arguments, sync or async. Each runs once, in order, after all results of the turn are
    recorded (for a call outside a turn: after its own result is recorded) and before the results are returned. A sync function
    runs in a thread. A function that raises or exceeds its time limit is logged. If the turn is interrupted and has no results,
    none of them runs.
    """

    state: Mapping[StateKey[Any] | str, Json | StateUpdate] = field(default_factory=dict)
    events: Sequence[ActivityEvent] = ()
    later: Sequence[Callable[[], object]] = ()
