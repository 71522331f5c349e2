"""Questions of a chat's sessions: asked one at a time on the chat's own screen, even during a run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from agent.cli.ask import TerminalAsker
from agent.cli.below import is_yes
from agent.cli.screenreader import ScreenReader
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.types import Answer, SuspendTicket

if TYPE_CHECKING:
    from agent.cli.liveview import LiveView
    from agent.cli.screen.frame import Board
    from agent.cli.screen.keyboard import Keyboard
    from agent.cli.screen.list_picker import ListPicker


class Questions:
    """Puts tickets (``ask``) and yes-or-no questions (``confirm``) to the user. ``declined`` is called after a Ctrl-C that denies
    a ticket.
    """

    def __init__(
        self,
        board: Board,
        view: LiveView,
        keyboard: Keyboard,
        bell: str,
        declined: Callable[[], None],
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self._board = board
        self._view = view
        self._keyboard = keyboard
        self._reader = ScreenReader(board, view.screen, keyboard, bell, notify)
        self._asker = TerminalAsker(self._reader, declined, self._turn, self._place)
        self._asking = asyncio.Lock()

    @property
    def stands(self) -> bool:
        """True while a question is open or waits for a pause in the typing."""
        return self._asking.locked()

    @property
    def settles(self) -> bool:
        """True while a question waits until the user stops typing."""
        return self._reader.settles

    async def ask(self, ticket: SuspendTicket, ctx: ToolCallContext | None = None) -> Answer:
        """Put a ticket to the user, one ticket at a time. The time that the user takes does not count towards the call's
        duration.
        """
        call_id = _call_shown(ticket)
        self._view.asking(call_id, begins=True)
        try:
            self._board.changed()  # the open question shows how many questions wait
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
        """Ask the user to type yes or no; see ``is_yes``."""
        async with self._asking:
            return await is_yes(self._reader.read_line, question)

    async def pick(self, picker: ListPicker) -> str | None:
        """Return the value that the user picks from a list, or None. Questions wait until the list is closed."""
        async with self._asking:
            return await self._keyboard.pick(picker)

    def _place(self, ticket: SuspendTicket) -> str:
        """Return which call of the model's reply the question is about."""
        return self._view.place_of(_call_shown(ticket))


def _call_shown(ticket: SuspendTicket) -> str:
    """Return the id of the call on the screen that a ticket is about, or "" for a delegate's call, which is not on the screen."""
    return "" if ticket.call is None or "delegate" in ticket.parameters else ticket.call.id
