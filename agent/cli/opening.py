"""Options of a chat, and the sessions that it opens with them: the first one, and those of /new and /resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.cli.refusing import refuse
from agent.conversation.limits import RunLimits
from agent.desk.request import SessionRequest
from agent.model_choice.models import ModelChoice
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.process import Crib
    from tools.dispatch.scope import Asker


class BrokenOffMessage(ToolcribError):
    """Raised when the user cancels a message while asked about a file in it. No part of the message is sent."""


@dataclass(frozen=True, slots=True)
class ChatOpening:
    """Options for the sessions of a chat: the first one, and those of /new and /resume."""

    crib: Crib
    asker: Asker
    limits: RunLimits
    enabled: Sequence[str] | None = None
    disabled: Sequence[str] | None = None
    cwd: str | None = None
    trace: bool = False
    backend: str = ""
    confirm: Callable[[str], Awaitable[bool | None]] | None = None
    """Function that asks the user for yes or no, and returns None if the user cancels. The field is None if no user can be
    asked.
    """
    mode: str = ""
    """Mode of new sessions, "" for the configured mode."""
    at_prompt: bool = False
    """True if a question can be asked while the user is at the prompt: the screen shows it beside the draft."""

    async def session(
        self, choice: ModelChoice, *, resume: str = "", latest: bool = False, backend: str = "", mode: str = ""
    ) -> Session:
        """Open a session and return it. A resumed session keeps its backend and mode, unless ``backend`` and ``mode`` name
        others; a new session uses the model of ``choice``.
        """
        goes_on = bool(resume or latest)
        return await self.crib.desk.open(
            SessionRequest(
                platform="cli",
                asker=self.asker,
                cwd=self.cwd if not goes_on or backend == self.backend else None,
                backend=backend if goes_on else backend or self.backend,
                enabled=self.enabled,
                disabled=self.disabled,
                resume=resume,
                latest=latest,
                choice=choice,
                mode=mode if goes_on else mode or self.mode,
                delegates="anytime" if self.at_prompt else "background",
                leaves_open=self.asker is refuse,
                more_turns=None if self.confirm is None else self._more_turns,
            )
        )

    async def _more_turns(self, turns: int) -> int:
        """Ask whether a run that has used all its turns may continue. Return the number of further turns."""
        assert self.confirm is not None  # noqa: S101 - ``session`` passes this method only if ``confirm`` is set
        more, used = self.limits.max_turns, f"{turns} turn{'' if turns == 1 else 's'}"
        return more if await self.confirm(f"The model has used {used}. Continue for up to {more} more?") else 0
