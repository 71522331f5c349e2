"""A session's delegates, as the session and its interfaces see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.conversation.state import CallState
    from agent.delegates.background_delegate import BackgroundDelegate


class SessionDelegates:
    """The delegates of a session that begins none; see Delegates for one that does."""

    def __init__(self, *, alone: bool = False) -> None:
        self.alone = alone
        """True where nobody will read a message that comes after the run: then no delegate works in the background."""
        self.asks_at_once = False
        """True where a person can be asked between runs too; else a background delegate's questions wait for the next one."""

    @property
    def at_work(self) -> Sequence[BackgroundDelegate]:
        """Delegates that work in the background, the first that began first."""
        return ()

    async def resume_background(self) -> None:
        """Go on with delegates in the background that an ended process left, and wait for them where that is done for others too.

        For who holds the session's lease.
        """

    async def settled(self, turn_id: str, calls: Iterable[CallState]) -> None:
        """Look after delegates whose calls come to their end without them. Before the calls' results are kept.

        One is ended whose call was given up, interrupted or told lost; one in the background, of which the model is told that it
        works, goes on where the process that said so has ended.
        """

    async def close(self) -> None:
        """End those that still work, and return when their ends are delivered. From any event loop."""
