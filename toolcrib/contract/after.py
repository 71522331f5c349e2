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
    """Follow-ups to a call; ``post_tool_call`` returns them, or None. The result itself stays as it is.

    ``state`` changes the state, as ``ToolOutput.state_changes`` do: values or StateUpdates by key. Where several plugins set
    the same key, the first one wins and it is logged. ``events`` go to whoever listens to the session's activity.

    ``later`` are functions without arguments, sync or async. Each runs once, in order, when all results of the turn are there
    and recorded (of a call on its own: when that is), before they are handed over. A sync one runs in a thread. One that raises
    or is late is logged. A turn that breaks off, so that it has no results, runs none.
    """

    state: Mapping[StateKey[Any] | str, Json | StateUpdate] = field(default_factory=dict)
    events: Sequence[ActivityEvent] = ()
    later: Sequence[Callable[[], object]] = ()
