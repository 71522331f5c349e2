"""State of a session, from the store or, for a session of an older toolcrib, from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.conversation.transcript import Transcript
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import Store
from toolcrib.contract.undo import ChangeStep
from tools.dispatch.scope import CallScope


async def read_state(store: Store, scope: CallScope, transcript: Transcript) -> None:
    """Reload the session's records and state into its scope. Raises StoreFailed."""
    has_more = await transcript.reload_if_changed()
    await scope.read_state()
    if has_more and not scope.state.versions:
        await give_state(store, transcript.session_id, await transcript.state())
        await scope.read_state()


def news_of(undone: Sequence[ChangeStep]) -> str:
    """Return a description for the model of undos that it has not seen; "" for none."""
    if not undone:
        return ""
    from agent.undo import news

    return news(undone)


async def give_state(store: Store, session_id: str, values: Mapping[str, Any]) -> None:
    """Store the first values of a session's state. If another process stored values first, those stay."""
    if values:
        await store.state.write([StateWrite("session", session_id, name, value, was=0) for name, value in values.items()])
