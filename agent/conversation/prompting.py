"""A session's system prompt: looked up once, and kept with the session, so that a server's cache of it holds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.prompt import Surroundings, system_prompt

if TYPE_CHECKING:
    from agent.conversation.session import Session

_log = logging.getLogger(__name__)


class SessionPrompt:
    """``look`` looks the surroundings up, for ``basis``; without it there are none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settled: Surroundings | None = None
        self._cwd = ""
        self.look: Callable[[], Surroundings] = Surroundings
        self.basis = ""

    @property
    def surroundings(self) -> Surroundings:
        """The surroundings as they were when the session began; looked up now where ``settle`` was not awaited yet."""
        return self.look() if self._settled is None else self._settled

    async def settle(self) -> Surroundings:
        """Take what the session was told when it began, or look it up and keep it. Raises StoreFailed and LeaseLost."""
        if self._settled is None:
            self._settled = await self._kept() or await self._looked_up()
        return self._settled

    async def _kept(self) -> Surroundings | None:
        session = self._session
        if not session.transcript.count:  # nothing was said yet, so that nothing was told
            return None
        try:
            kept = Surroundings.from_json(await session.store.sessions.prompt(session.id))
        except (KeyError, TypeError, ValueError):
            return None
        return kept if kept.basis == self.basis else None

    async def _looked_up(self) -> Surroundings:
        found = self.look()
        await self._session.store.sessions.update(self._session.id, prompt=found.to_json())
        return found

    def text(self, instructions: str = "") -> str:
        """Return what a model is told first. Raises EnvironmentFailed where the folder of its commands can't be known."""
        self._cwd = self._cwd or self._session.scope.cwd
        return system_prompt(self._cwd, instructions, self._session.backend.told, self.surroundings.text)
