"""A session's delegates, as the session and its interfaces see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.conversation.state import CallState
    from agent.delegates.background_delegate import BackgroundDelegate


class SessionDelegates:
    """The delegates of a session that can't begin any; see Delegates for one that can."""

    def __init__(self, *, alone: bool = False) -> None:
        self.alone = alone
        """True if no user reads messages after the run: then no delegate runs in the background."""
        self.asks_at_once = False
        """True if a user can be asked between runs too; else a background delegate's questions wait for the next run."""

    @property
    def at_work(self) -> Sequence[BackgroundDelegate]:
        """Delegates that run in the background, in the order of their start."""
        return ()

    async def resume_background(self) -> None:
        """Resume background delegates that an ended process left, and wait for them if this session waits for delegates.

        The caller holds the session's lease.
        """

    async def settled(self, turn_id: str, calls: Iterable[CallState]) -> None:
        """End or resume the delegates of settled calls. Called before the results are stored.

        A delegate is ended if its call was cancelled, interrupted or lost. A background delegate whose process ended after its
        call succeeded is resumed.
        """

    async def close(self) -> None:
        """End running delegates, and return when their ends are delivered. May be called from any event loop."""
