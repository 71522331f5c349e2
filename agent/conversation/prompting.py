"""A session's system prompt: built once and stored with the session, so that the server's cache of it stays valid."""

from __future__ import annotations

import logging
from collections.abc import Callable

from agent.backends import Backend
from agent.context.prompt import Surroundings, system_prompt
from agent.conversation.transcript import Transcript
from toolcrib.contract.dataclass import replace
from toolcrib.contract.store import Store
from tools.dispatch.scope import CallScope

_log = logging.getLogger(__name__)


class SessionPrompt:
    """Builds a session's prompt. ``find_surroundings`` reads the session's surroundings, whose inputs ``basis`` identifies.

    ``recall`` returns the memory of the session's owner; None if memory is off, even for a session that had it before. ``whose``
    returns the key of the owner.
    """

    def __init__(
        self, scope: CallScope, store: Store, transcript: Transcript, backend: Backend, whose: Callable[[], str]
    ) -> None:
        self._scope = scope
        self._store = store
        self._transcript = transcript
        self._backend = backend
        self._whose = whose
        self._settled: Surroundings | None = None
        self._cwd = ""
        self.find_surroundings: Callable[[], Surroundings] = Surroundings
        self.recall: Callable[[], str] | None = None
        self.basis = ""

    @property
    def surroundings(self) -> Surroundings:
        """The surroundings as they were when the session began; read now if ``fix_surroundings`` was not awaited yet."""
        return self._look() if self._settled is None else self._settled

    async def fix_surroundings(self) -> Surroundings:
        """Load the surroundings that the session began with, or read and store them. Raises StoreFailed and LeaseLost."""
        if self._settled is None:
            self._settled = await self._kept() or await self._looked_up()
        return self._settled

    async def _kept(self) -> Surroundings | None:
        if not self._transcript.count:  # no message yet, so the model has read no prompt
            return None
        try:
            kept = Surroundings.from_json(await self._store.sessions.prompt(self._transcript.session_id))
        except (KeyError, TypeError, ValueError):
            return None
        return kept if kept.basis == self.basis else None

    async def _looked_up(self) -> Surroundings:
        found = self._look()
        await self._store.sessions.update(self._transcript.session_id, prompt=found.to_json())
        return found

    def _look(self) -> Surroundings:
        return replace(self.find_surroundings(), memory=self._recall(), whose=self._whose())

    def _recall(self) -> str:
        return "" if self.recall is None else self.recall()

    async def recall_anew(self) -> None:
        """Read the memory again and use it from now on, for a prompt that begins anew after a compression.

        Raises StoreFailed and LeaseLost.
        """
        settled = await self.fix_surroundings()
        memory = self._recall()
        if memory != settled.memory:
            settled = replace(settled, memory=memory)
            await self._store.sessions.update(self._transcript.session_id, prompt=settled.to_json())
            self._settled = settled

    def text(self, instructions: str = "") -> str:
        """Return the system prompt. Raises EnvironmentFailed if the folder of the session's commands is unknown.

        A run for another principal, as in a room with several users, does not see the owner's memory.
        """
        self._cwd = self._cwd or self._scope.cwd
        known = self.surroundings
        theirs = self.recall is not None and known.whose == self._scope.identity.principal.key
        memory = known.memory if theirs else ""
        return system_prompt(self._cwd, instructions, self._backend.model_description, known.text + memory)
