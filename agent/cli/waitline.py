"""A line on stderr while a run prints nothing: what it waits for, and for how long."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from agent.cli.escape import one_line
from agent.events import Event, ThinkingDelta, ToolActivity, ToolCallDelta, ToolProgressed, ToolStarted, TurnStarted

_PATIENCE = 1.0
"""Seconds without events before the line appears, and between updates of it."""
_ERASE = "\r\x1b[K"


class WaitLine:
    """A listener for events; call it before all listeners that print. ``model`` returns the model's name. ``thinking``: the
    model's thinking is printed.
    """

    def __init__(self, model: Callable[[], str], *, thinking: bool = False, patience: float = _PATIENCE) -> None:
        self._model = model
        self._shows_thinking = thinking
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._stands = False
        self._is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._begin(f"waiting for {one_line(self._model(), 60) or 'the model'}")
            case ToolStarted(call=call) if call.fault is None:
                self._begin(f"{one_line(call.name, 40)} is running")
            case ThinkingDelta() if self._shows_thinking:
                self.end()
            case ThinkingDelta() | ToolCallDelta() | ToolProgressed() | ToolActivity():
                self._erase()  # so that other output can be printed now; the line appears again
            case _:
                self.end()

    def end(self) -> None:
        """Remove the line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._erase()

    def _erase(self) -> None:
        if self._stands:
            print(_ERASE, end="", file=sys.stderr, flush=True)
        self._stands = False

    def _begin(self, what: str) -> None:
        self.end()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience, self._show, loop, what, loop.time())

    def _show(self, loop: asyncio.AbstractEventLoop, what: str, begun: float) -> None:
        if self._is_dumb:
            print(f"toolcrib: {what} ...", file=sys.stderr, flush=True)
            return
        line = f"{what} ... {int(loop.time() - begun)} s; Ctrl-C interrupts"
        columns = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 80
        print(f"{_ERASE}{line[: max(columns - 1, 1)]}", end="", file=sys.stderr, flush=True)
        self._stands = True
        self._timer = loop.call_later(self._patience, self._show, loop, what, begun)
