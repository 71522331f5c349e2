"""User actions during a run: messages that steer it, and commands that need not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Any

from agent.cli.escape import one_line
from agent.protocols.command import parse_command
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.cli.liveview import LiveView
    from agent.cli.screen.keyboard import Keyboard


def has_its_turn(text: str, names: Collection[str]) -> bool:
    """Return whether a draft is a command, or a call by hand of a tool in ``names``. Such a draft can't steer the run: it
    waits for its turn.
    """
    text = text.lstrip()
    is_call = text.startswith("@") and parse_command(text, names) is not None
    return is_call or text.startswith(("/", "!"))


class Steering:
    """Tasks that the user starts during the chat's run. ``end`` waits for them."""

    def __init__(self, view: LiveView, keyboard: Keyboard) -> None:
        self._view = view
        self._keyboard = keyboard
        self._tasks: set[asyncio.Task[object]] = set()

    def beside(self, work: Coroutine[Any, Any, object]) -> None:
        """Start the user's action while the model continues."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def steer(self, conversation: Conversation, text: str) -> None:
        """Deliver a draft to the run. If that fails, the text becomes a draft again."""
        try:
            await conversation.steer(self._keyboard.pastes.expand(text), text)
        except ToolcribError as error:
            self._view.screen.fault(f"✗ {one_line(str(error))}")
            self._keyboard.put_back(text)
            return
        self._view.said(text, "» ")

    async def end(self, conversation: Conversation, *, interrupted: bool) -> None:
        """Answer messages that were not delivered before their run ended; after an interrupt they become drafts again."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not interrupted:
            await conversation.answer_waiting()
            return
        for text in await conversation.take_back():
            self._keyboard.put_back(text)
