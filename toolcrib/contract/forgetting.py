"""Protocol of what a store can be told to forget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from toolcrib.contract.types import Json


class Forgetting(Protocol):
    """Ways to forget. What was forgotten is in no index, free page, log or copy of the store's own either, as far as it can."""

    async def old(self, before: float) -> int:
        """Return the number of sessions that ``prune`` would delete."""
        ...

    async def prune(self, before: float) -> int:
        """Forget the sessions that were last used before that time (Unix seconds) and have no call under way and no run that has
        not ended, with their messages, calls, audit, grants but permanent ones, and what chats were shown of them. How many they
        were. Chats that have no session left and were not used since then are forgotten too.
        """
        ...

    async def delete(self, session_ids: Collection[str]) -> Sequence[str]:
        """Forget these sessions as ``prune`` does, and return the ids of those that were. One that is at work or that something
        waits for, mail of its chat too, stays as it is, and one that is not there is none. Their chats stay, without a session.
        """
        ...

    async def saying(self, says: Callable[[str], bool]) -> Sequence[str]:
        """Return the ids of the sessions of which a kept text, as it was said or as JSON, is one that ``says`` finds: messages
        whole, with what they hold of a provider's, calls with their results, questions, what chats were shown, and what waits,
        mail of the session's chat too. Prompts and artifacts apart. It reads all of the store.
        """
        ...

    async def free(self) -> bool:
        """Overwrite what was deleted. False where that can't be yet, since another process reads the store as it was before."""
        ...

    async def rewrite_prompts(self, text: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Sequence[str]:
        """Replace every prompt (SessionStore.prompt) in whose strings the text stands by what ``rewrite`` returns for it. Return
        the ids of the sessions whose prompts became others; nothing else of them changes. ``rewrite`` may be called again.
        """
        ...
