"""The delegates of a session, as the session sees them. Most sessions have none: what looks after them loads with the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolcrib import ToolCallContext, ToolOutput, ToolResult
from toolcrib._types import Handler

if TYPE_CHECKING:
    from agent.backends import Location
    from agent.conversation.session import Session
    from agent.conversation.state import CallState
    from agent.delegates.atwork import BackgroundDelegate
    from agent.delegates.delegates import Delegates
    from agent.workspace import Workspace

TOOL = "delegate_task"
WAITED_FOR = "delegates"
"""Name of the session's state with the delegates in the background that it waits for; see agent.delegates.waiting."""


class SessionDelegates:
    """``depth`` is how many delegates the session is below one of a person. ``handlers`` are those that the session was
    given.
    """

    def __init__(
        self,
        here: Workspace,
        location: Location,
        depth: int,
        *,
        alone: bool = False,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        self._here = here
        self._location = location
        self._depth = depth
        self._given = handlers or {}
        self.alone = alone
        """True where nobody will read a message that comes after the run: then no delegate works in the background."""
        self.asks_at_once = False
        """True where a person can be asked between runs too; else a background delegate's questions wait for the next one."""
        self.session: Session

    @cached_property
    def keeper(self) -> Delegates:
        """The keeper of those at work, made with the first one."""
        from agent.delegates.delegates import Delegates

        return Delegates(self.session, self._here, self._location, self._depth, self._given)

    @property
    def _is_made(self) -> bool:
        return "keeper" in vars(self)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handler by the tool's name."""
        return {TOOL: self.handle}

    @property
    def at_work(self) -> Sequence[BackgroundDelegate]:
        """Delegates that work in the background, the first that began first."""
        return self.keeper.at_work if self._is_made else ()

    async def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolOutput | ToolResult:
        """Have a delegate do a task; see Delegates.handle."""
        return await self.keeper.handle(args, ctx)

    async def look(self) -> None:
        """Go on with delegates that an ended process left; see Delegates.look. For who holds the session's lease."""
        if self._is_made or self.session.scope.state.get(WAITED_FOR):
            await self.keeper.look()

    async def settled(self, turn_id: str, calls: Sequence[CallState]) -> None:
        """Look after delegates whose calls come to their end without them; see Delegates.settled."""
        if any(one.call.name == TOOL for one in calls):
            await self.keeper.settled(turn_id, calls)

    async def close(self) -> None:
        """End those that still work, and return when their ends are delivered. From any event loop."""
        if self._is_made:
            await self.keeper.close()
