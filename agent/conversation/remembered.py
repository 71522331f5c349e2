"""State of a session: as the store keeps it, or of one from an older toolcrib as its records carry it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.conversation.transcript import Transcript
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import Store
from toolcrib.contract.undo import ChangeStep
from tools.dispatch.scope import CallScope


async def read_state(store: Store, scope: CallScope, transcript: Transcript) -> None:
    """Have the scope see the session's records and state as they are now. Raises StoreFailed."""
    has_more = await transcript.reload_if_changed()
    await scope.read_state()
    if has_more and not scope.state.versions:
        await give_state(store, transcript.session_id, await transcript.state())
        await scope.read_state()


def news_of(undone: Sequence[ChangeStep]) -> str:
    """Describe, for the model, undos that it did not see; "" where there was none."""
    if not undone:
        return ""
    from agent.undo import news

    return news(undone)


async def give_state(store: Store, session_id: str, values: Mapping[str, Any]) -> None:
    """Keep values of a session that has none yet. Where another process did so first, its own stand."""
    if values:
        await store.state.write([StateWrite("session", session_id, name, value, was=0) for name, value in values.items()])
