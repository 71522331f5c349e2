"""Options of a chat, and the sessions that it opens with them: its first one and those after /new and /resume."""

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
    """A message that its person broke off while they were asked about a file of it: nothing of it is sent."""


@dataclass(frozen=True, slots=True)
class ChatOpening:
    """Options with which this chat opens sessions: its first one and those after /new and /resume."""

    crib: Crib
    asker: Asker
    limits: RunLimits
    enabled: Sequence[str] | None = None
    disabled: Sequence[str] | None = None
    cwd: str | None = None
    trace: bool = False
    backend: str = ""
    confirm: Callable[[str], Awaitable[bool | None]] | None = None
    """Asks the person yes or no, and answers None where they broke off instead; None where nobody can be asked."""
    mode: str = ""
    """Mode of new sessions, "" for the configured one."""
    at_prompt: bool = False
    """True where a question can be put while the person is at the prompt: their screen shows it beside the draft."""

    async def session(
        self, choice: ModelChoice, *, resume: str = "", latest: bool = False, backend: str = "", mode: str = ""
    ) -> Session:
        """Open a session. One that is resumed runs where and in the mode that it had before, unless ``backend`` and ``mode`` name
        others for it; a new one will ask the model of ``choice``.
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
        """Ask whether a run that has used its turns shall go on with as many again."""
        assert self.confirm is not None  # noqa: S101 - else nobody asks this
        more, used = self.limits.max_turns, f"{turns} turn{'' if turns == 1 else 's'}"
        return more if await self.confirm(f"The model has used {used}. Go on for up to {more} more?") else 0
