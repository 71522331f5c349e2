"""Background delegates that a session waits for, in its state, so that the next process resumes them."""

from __future__ import annotations

from agent.delegates import BACKGROUND
from toolcrib.contract.state import StateStore, StateValue, StateWrite
from tools.dispatch.scope import CallScope


async def record_waiting(states: StateStore, scope: CallScope, delegate: str, *, waits: bool) -> None:
    """Record whether the session of ``scope`` waits for a delegate, by its id. Raises StoreFailed."""
    name, session_id = BACKGROUND.name, scope.identity.session_id
    while True:
        found = (await states.of("session", session_id)).get(name, StateValue(None, 0))
        value = [one for one in found.value or () if one != delegate] + ([delegate] if waits else [])
        if versions := await states.write([StateWrite("session", session_id, name, value, was=found.version)]):
            scope.take_state({name: StateValue(value, versions[0])})
            return
