"""Questions of a chat on a terminal that can't redraw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agent.cli.signals import Ended

if TYPE_CHECKING:
    from agent.cli.render import Screen
    from agent.cli.terminal import Terminal


async def is_yes(read_line: Callable[[str], Awaitable[str]], question: str) -> bool | None:
    """Return True for a typed ``yes`` or ``y``, False for other text or the end of input, and None for Ctrl-C or Escape."""
    try:
        return (await read_line(f"{question} Type yes or no: ")).strip().lower() in ("yes", "y")
    except Ended:
        raise
    except EOFError:
        return False
    except KeyboardInterrupt:
        return None


class TerminalBelow:
    """A terminal that can't redraw, for approval requests: they appear below the chat's output."""

    def __init__(self, screen: Screen, terminal: Terminal) -> None:
        self._screen = screen
        self._terminal = terminal

    @property
    def size(self) -> tuple[int, int]:
        return self._terminal.size

    def show(self, text: str) -> None:
        self._terminal.show(text)

    async def read_line(self, prompt: str) -> str:
        return await self._terminal.read_line(prompt)

    async def confirm(self, question: str) -> bool | None:
        """Ask the user to type yes or no; see ``is_yes``."""
        return await is_yes(self.read_line, question)
