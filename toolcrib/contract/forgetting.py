"""Protocol of deletion from a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from toolcrib.contract.types import Json


class Forgetting(Protocol):
    """Ways to delete. Deleted data also disappears from the store's indexes, free pages, logs and copies, as completely as the
    store can ensure.
    """

    async def old(self, before: float) -> int:
        """Return the number of sessions that ``prune`` would delete."""
        ...

    async def prune(self, before: float) -> int:
        """Delete the sessions that were last used before that time (Unix seconds) and have no running call and no unfinished run,
        and return their number. Their messages, calls, audit, grants (except permanent ones) and posts in chats are deleted
        too. So are chats that have no session left and were not used since then.
        """
        ...

    async def delete(self, session_ids: Collection[str]) -> Sequence[str]:
        """Delete these sessions as ``prune`` does, and return the ids of the deleted ones. A session that is running, or that
        something waits for (mail of its chat included), is kept; unknown ids are ignored. The sessions' chats stay, without a
        session.
        """
        ...

    async def saying(self, says: Callable[[str], bool]) -> Sequence[str]:
        """Return the ids of the sessions with a stored text that ``says`` accepts. The whole store is read. ``says`` is called
        with each text and JSON of messages (with the provider's data), calls and results, questions, posts in chats, and
        waiting items, including mail of the session's chat. It is not called with prompts and artifacts.
        """
        ...

    async def free(self) -> bool:
        """Overwrite deleted data. Return False if that is not possible yet, because another process reads an older state of the
        store.
        """
        ...

    async def rewrite_prompts(self, text: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Sequence[str]:
        """Replace every prompt (SessionStore.prompt) that contains the text in its strings with the result of ``rewrite``.
        Return the ids of the sessions whose prompts changed; nothing else of them changes. ``rewrite`` may be called several
        times.
        """
        ...
