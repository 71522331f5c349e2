"""Record what a user types into a session's terminals, line by line, but no passwords."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.contract.errors import StoreFailed, ToolcribError
from toolcrib.contract.regex import Regex
from toolcrib.contract.state import StateKey, StateUpdate
from toolcrib.contract.types import Json
from tools.dispatch.scope import CallScope
from tools.judge.findings import visible
from tools.processes.records import record
from tools.terminals.modes import asks_password
from tools.terminals.terminal import SessionTerminal

TYPED = StateKey("typed_by_user", list)
"""The last lines that users typed into the session's terminals: ``name``, ``at`` (Unix seconds), and ``line``, or ``hidden``
for a line that the terminal did not show.
"""
_log = logging.getLogger(__name__)
_MOST, _LONGEST, _EACH = 32_768, 2_000, 100
"""Characters of all recorded lines, of one line, and of each line besides its text."""
_PIECES = Regex(rb"[^\r\n\x03\x04\x1a]*[\r\n\x03\x04\x1a]|[^\r\n\x03\x04\x1a]+")
"""Typed text up to a key that ends a line: Enter, or a key that the terminal takes for itself."""
_ENDS = (b"\r", b"\n", b"\x03", b"\x04", b"\x1a")
_AGAIN, _PATIENCE = 0.25, 0.5
"""Seconds after which a terminal is examined again within a line, and seconds that this may take."""
_PASTED = 3
"""Lines that a user types at once at most. More are a paste."""
_SHOWN = 0.2
"""Seconds that a program may take to show what was typed, before the line counts as hidden."""


class TypedInput:
    """Text that a user types into a terminal.

    A line is recorded only if the terminal showed it: it is examined when the line begins,
    while it is typed, and before the program gets its end, when its text must be on the screen.
    """

    def __init__(self, scope: CallScope, name: str, terminal: SessionTerminal) -> None:
        self._scope, self._name, self._terminal = scope, name, terminal
        self._line = b""
        self._is_hidden = False
        self._examined = 0.0
        self._asking: asyncio.Task[bool] | None = None

    async def type(self, data: bytes) -> None:
        """Type, and record finished lines."""
        pieces = _PIECES.findall(data)
        if len(pieces) > _PASTED:
            await self._paste(data)
            return
        for piece in pieces:
            ends = piece.endswith(_ENDS)
            if not self._line or ends or time.monotonic() - self._examined >= _AGAIN:
                hides = await self._hides()
                self._is_hidden = hides or (self._is_hidden and bool(self._line))
            text, end = (piece[:-1], piece[-1:]) if ends else (piece, b"")
            self._line += text
            if text:
                await self._terminal.type_bytes(text)
            if ends or len(self._line) > _LONGEST:
                await self.keep(end)

    async def _paste(self, data: bytes) -> None:
        """Type pasted lines. Only that they were typed is recorded: each would have to be compared with the screen."""
        self._is_hidden = True
        await self._terminal.type_bytes(data)
        self._line += data
        await self.keep()

    async def keep(self, end: bytes = b"") -> None:
        """Type ``end``, which ends the line, and record the line. Without an end, record an unfinished line."""
        self._is_hidden = self._is_hidden or not await self._is_shown()
        self._line += end
        if end:
            await self._terminal.type_bytes(end)
        if not self._line:
            return
        text = visible(_edited(self._line.rstrip(b"\r\n")), _LONGEST)
        what: Mapping[str, Json] = {"hidden": True} if self._is_hidden else {"line": self._scope.redact(text)}
        line = {"name": self._name, "at": time.time(), **what}
        self._line, self._is_hidden = b"", False
        try:
            await record(self._scope, (TYPED, StateUpdate(lambda known: _last([*(known or ()), line]))))
        except StoreFailed as error:
            _log.error("a line that was typed into %s could not be recorded: %s", self._name, error)

    async def _hides(self) -> bool:
        """Return whether the terminal hides what is typed, or that is unknown."""
        if self._asking is not None and not self._asking.done():
            return True
        self._asking = asyncio.ensure_future(asks_password(self._scope.processes.terminals, self._terminal))
        try:
            async with asyncio.timeout(_PATIENCE):
                return await asyncio.shield(self._asking)  # if it were cancelled, the table's helper would end
        except (TimeoutError, ToolcribError):
            return True
        finally:
            self._examined = time.monotonic()

    async def _is_shown(self) -> bool:
        """Return whether the text of the line is on the screen, before the cursor. Waits a moment for it."""
        give_up, text = time.monotonic() + _SHOWN, _edited(self._line)
        while text:
            row = self._terminal.row()
            if row and (row.endswith(text) or text.endswith(row)):
                return True
            if time.monotonic() >= give_up:
                return False
            await asyncio.sleep(0.01)
        return True


def _edited(line: bytes) -> str:
    """Return a line without the characters that the Backspace key deleted from it."""
    text = ""
    for char in line.decode("utf-8", "replace"):
        text = text[:-1] if char in "\x7f\b" else text + char
    return text


def _last(lines: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the last lines that may be kept."""
    room, begin = _MOST, len(lines)
    while begin and (room := room - _EACH - len(lines[begin - 1].get("line", ""))) >= 0:
        begin -= 1
    return lines[begin:]
