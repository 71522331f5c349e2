"""A user at a terminal of a session that is open in this process: the user sees it, types, and gives it back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Protocol

from agent.background.typed import TypedInput
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ExecutionFailed
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.screen.terminal import ScreenCursor

_BETWEEN = 1 / 30
"""Seconds between two views of a program that prints all the time."""
NO_ONE, YOU, ANOTHER = "no one", "you", "another"
"""Who types in the terminal: the model may, this user does, or a user at another window does."""


@dataclass(frozen=True, slots=True)
class AttachedView:
    """A terminal as its user sees it. ``rows`` contain printable text and SGR sequences alone.

    ``application_cursor`` and ``paste``: modes that change what keys send. ``typist``: NO_ONE, YOU or ANOTHER.
    """

    rows: tuple[str, ...]
    columns: int
    cursor: ScreenCursor
    title: str
    application_cursor: bool
    paste: bool
    typist: str


class Attached(Protocol):
    """A user's connection to a terminal. Only its owner's event loop may use it."""

    async def next(self) -> AttachedView | None:
        """Return the view when it has changed, or None at the end."""
        ...

    @property
    def end(self) -> str:
        """Why ``next`` returned None, as words after the terminal's name."""
        ...

    async def type(self, data: bytes, window: TerminalSize) -> None:
        """Type. The first use takes the terminal from the model, and gives it the size of the user's window."""
        ...

    async def resize(self, window: TerminalSize) -> None:
        """Give the terminal the window's size, if this user has it."""
        ...

    async def close(self) -> None:
        """Give the terminal back to the model, in its earlier size."""
        ...


class LocalAttached:
    """See Attached. Raises ExecutionFailed if the process has no terminal."""

    def __init__(self, scope: CallScope, name: str) -> None:
        terminal = scope.processes.terminals.get(name)
        if terminal is None:
            raise ExecutionFailed(f"{name} is not a terminal; only what the model starts with pty: true can be attached")
        self._terminal = terminal
        self._typed = TypedInput(scope, name, terminal)
        self._size: TerminalSize | None = None
        """The model's size of the terminal while this user has it."""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._changed.set()
        self._seen_at = 0.0
        self._ignore = terminal.listen(self._heard)

    def _heard(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._changed.set)

    async def next(self) -> AttachedView | None:
        await self._changed.wait()
        await asyncio.sleep(self._seen_at + _BETWEEN - time.monotonic())
        self._seen_at = time.monotonic()
        self._changed.clear()
        terminal = self._terminal
        if not terminal.runs:
            return None
        rows, columns, cursor, title, modes = terminal.view()
        typist = YOU if self._size is not None else ANOTHER if terminal.is_held else NO_ONE
        return AttachedView(rows, columns, cursor, title, modes.application_cursor, modes.bracketed_paste, typist)

    @property
    def end(self) -> str:
        code = self._terminal.code
        return "has ended; its exit code is unknown" if code is None else f"has ended with exit code {code}"

    async def type(self, data: bytes, window: TerminalSize) -> None:
        if self._size is None:
            size = self._terminal.size
            if not self._terminal.hold(self):
                return
            self._size = size
            await self.resize(window)
        await self._typed.type(data)

    async def resize(self, window: TerminalSize) -> None:
        if self._size is not None and window != self._terminal.size:
            await self._terminal.resize(window)

    async def close(self) -> None:
        self._ignore()
        if self._size is not None:
            try:
                await self.resize(self._size)
            finally:
                self._size = None
                self._terminal.release(self)
                await self._typed.keep()
