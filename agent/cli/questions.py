"""Questions of a chat's sessions: put one at a time on the chat's own screen, whatever runs there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from agent.cli.ask import TerminalAsker
from agent.cli.screenreader import ScreenReader
from agent.cli.signals import Ended
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.types import Answer, SuspendTicket

if TYPE_CHECKING:
    from agent.cli.liveview import LiveView
    from agent.cli.screen.frame import Board
    from agent.cli.screen.keyboard import Keyboard


class Questions:
    """Puts tickets (``ask``) and questions of yes or no (``confirm``) to the person. ``declined`` is called for a Ctrl-C that
    answers a ticket with no.
    """

    def __init__(self, board: Board, view: LiveView, keyboard: Keyboard, bell: str, declined: Callable[[], None]) -> None:
        self._board = board
        self._view = view
        self._reader = ScreenReader(board, view.screen, keyboard, bell)
        self._asker = TerminalAsker(self._reader, declined, self._turn, self._place)
        self._asking = asyncio.Lock()

    @property
    def stands(self) -> bool:
        """True while a question stands or waits for a pause in the typing."""
        return self._asking.locked()

    @property
    def settles(self) -> bool:
        """True while a question waits for the person to stop typing."""
        return self._reader.settles

    async def ask(self, ticket: SuspendTicket, ctx: ToolCallContext | None = None) -> Answer:
        """Put a ticket to the person; one at a time, and their time is not the call's."""
        call_id = _call_shown(ticket)
        self._view.asking(call_id, begins=True)
        try:
            self._board.changed()  # the one that stands says how many there are
            return await self._asker(ticket, ctx)
        finally:
            self._view.asking(call_id, begins=False)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._asking:
            self._view.end()
            self._reader.begin()
            yield

    async def confirm(self, question: str) -> bool | None:
        """Return True only for a typed ``yes`` or ``y``, None for a Ctrl-C or Escape."""
        try:
            async with self._asking:
                return (await self._reader.read_line(f"{question} Type yes or no: ")).strip().lower() in ("yes", "y")
        except Ended:
            raise
        except EOFError:
            return False
        except KeyboardInterrupt:
            return None

    def _place(self, ticket: SuspendTicket) -> str:
        """Return which call of the model's reply is asked about."""
        return self._view.place_of(_call_shown(ticket))


def _call_shown(ticket: SuspendTicket) -> str:
    """Return the id of the call on the screen that a ticket is about; "" for a delegate's, which has none there."""
    return "" if ticket.call is None or "delegate" in ticket.parameters else ticket.call.id
