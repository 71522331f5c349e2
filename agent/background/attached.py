"""A user at a terminal of a session that is open in this process: the user sees it, types, and gives it back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from agent.background.typed import TypedInput
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.processes.process import GONE
from tools.processes.records import recorded
from tools.terminals.terminal import SessionTerminal, TerminalView

_BETWEEN = 1 / 30
"""Seconds between two views of a program that prints all the time."""
NO_ONE, YOU, ANOTHER = "no one", "you", "another"
"""Typists of views: the model may type, this user does, or a user at another window does."""


def terminal_to_attach(scope: CallScope, name: str) -> SessionTerminal:
    """Return a terminal. Raises ToolcribError for another process."""
    table = scope.opened_processes  # ``scope.processes`` would open the environment
    terminal = None if table is None else table.terminals.get(name)
    if terminal is None:
        record = recorded(scope.state, name)
        if not record:
            raise ToolcribError(f"there is no background process {name!r}; /ps lists the processes")
        why = "is not a terminal; only what the model starts with pty: true can be attached"
        raise ToolcribError(f"{name} {GONE if record.get('pty') else why}")
    return terminal


class LocalAttached:
    """A user's connection to a terminal, for one event loop. Raises ToolcribError if the process has no terminal."""

    def __init__(self, scope: CallScope, name: str) -> None:
        self._terminal = terminal_to_attach(scope, name)
        self._typed = TypedInput(scope, name, self._terminal)
        self._size: TerminalSize | None = None
        """The model's size of the terminal while this user has it."""
        self._changed = asyncio.Event()
        self._seen_at = 0.0
        self._is_over = False
        """True once the last view was returned."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ignore: Callable[[], None] = lambda: None

    async def next(self) -> TerminalView | None:
        """Return the view when it has changed, or None at the end."""
        if self._is_over:
            return None
        if self._loop is None:
            self._loop, self._ignore = asyncio.get_running_loop(), self._terminal.listen(self._heard)
        else:
            await self._changed.wait()
        await asyncio.sleep(self._seen_at + _BETWEEN - time.monotonic())
        self._seen_at = time.monotonic()
        self._changed.clear()
        self._is_over = not self._terminal.runs  # before the view, which then has all that the program printed
        typist = YOU if self._size is not None else ANOTHER if self._terminal.is_held else NO_ONE
        return self._terminal.view()._replace(typist=typist)

    def _heard(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._changed.set)

    @property
    def end(self) -> str:
        """Why ``next`` returned None, as words after the terminal's name."""
        code = self._terminal.code
        return "has ended; its exit code is unknown" if code is None else f"has ended with exit code {code}"

    async def type(self, data: bytes, window: TerminalSize) -> None:
        """Type. The first use takes the terminal from the model, and gives it the size of the user's window."""
        if self._size is None:
            size = self._terminal.size
            if not self._terminal.hold(self):
                return
            self._size = size
            await self.resize(window)
        await self._typed.type(data)

    async def resize(self, window: TerminalSize) -> None:
        """Give the terminal the window's size, if this user has it."""
        if self._size is not None and window != self._terminal.size:
            await self._terminal.resize(window)

    async def close(self) -> None:
        """Give the terminal back to the model, in its earlier size."""
        self._ignore()
        if self._size is not None:
            try:
                await self.resize(self._size)
            finally:
                self._size = None
                self._terminal.release(self)
                await self._typed.keep()
