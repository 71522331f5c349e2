"""Questions of a chat's sessions: put one at a time on the chat's own screen, whatever runs there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from agent.cli.ask import TerminalAsker
from agent.cli.screenreader import ScreenReader
from agent.cli.signals import Ended
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.types import Answer, SuspendTicket

if TYPE_CHECKING:
    from agent.cli.interactive import InteractiveChat


class Questions:
    """Puts tickets (``ask``) and questions of yes or no (``confirm``) to the person."""

    def __init__(self, chat: InteractiveChat, bell: str) -> None:
        self._chat = chat
        self._reader = ScreenReader(chat, bell)
        self._asker = TerminalAsker(self._reader, self._declined, self._turn, self._place)
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
        view = self._chat.view
        view.asking(call_id, begins=True)
        try:
            self._chat.board.changed()  # the one that stands says how many there are
            return await self._asker(ticket, ctx)
        finally:
            view.asking(call_id, begins=False)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._asking:
            self._chat.view.end()
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
        return self._chat.view.place_of(_call_shown(ticket))

    def _declined(self) -> None:
        """A Ctrl-C that says no to a question interrupts what runs too; at the prompt the draft stays."""
        self._chat.broken_off()
        if not self._chat.is_working:
            self._chat.view.screen.note("  denied")


def _call_shown(ticket: SuspendTicket) -> str:
    """Return the id of the call on the screen that a ticket is about; "" for a delegate's, which has none there."""
    return "" if ticket.call is None or "delegate" in ticket.parameters else ticket.call.id
