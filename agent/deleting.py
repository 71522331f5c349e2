"""Delete stored sessions, with the old contents of files that only these sessions could restore."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from toolcrib.contract.store import Store
from toolcrib.contract.undo import ChangeStep
from tools.undo.keeper import UndoStore

_ALL = 1 << 31


async def delete_sessions(store: Store, keeps: UndoStore | None, session_ids: Collection[str]) -> Sequence[str]:
    """Delete sessions with all their data, and return the ids of the deleted ones.

    See toolcrib.contract.store.Store.delete. Raises StoreFailed.
    """
    began = time.time()
    theirs = {name: _digests(await store.changes.steps(name)) for name in dict.fromkeys(session_ids)}
    deleted = await store.delete(session_ids)
    digests = set[str]().union(*(theirs[name] for name in deleted))
    if keeps is not None and digests:
        for name in await store.changes.sessions(_ALL):
            digests -= _digests(await store.changes.steps(name))
        await keeps.contents.drop(digests, began)
    return deleted


def _digests(steps: Sequence[ChangeStep]) -> set[str]:
    states = (state for step in steps for change in step.changes for state in (change.before, change.after))
    return {state.digest for state in states if state is not None and state.digest}
