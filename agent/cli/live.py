"""The one line at the bottom that is not ended yet: what is going on, and for how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

FIRST, NEXT = 2.0, 1.0
"""Seconds until the line says how long it takes, and until it says so again."""
_ROOM = 14
"""Columns for `` ... 1234 s``: a line that wraps could not be replaced."""


class LiveLine:
    """A line of the terminal that changes. Not thread-safe: it belongs to the event loop. ``console`` gives the Console."""

    def __init__(self, console: Callable[[], Any]) -> None:
        self._console = console
        self._text = ""
        self._stays = False
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, text: str, *, stays: bool) -> None:
        """Show ``text ...``. ``stays``: it is left there when something else comes, else it is gone then.

        The same text once more changes nothing.
        """
        if self._text and not stays and not self._stays and text == self._text:
            return
        self.settle()
        self._text, self._stays, self._since = text, stays, time.monotonic()
        if self._console().is_dumb_terminal:  # which can't take back what it has shown
            if stays:
                self._console().print(f"{text} ...", style="dim")
            return
        self._draw(" ...")
        self._again(FIRST)

    def settle(self) -> None:
        """End the line: the next output begins on a new one."""
        if self._stays and self._is_drawn():
            print(flush=True)
            self._end()
        else:
            self.erase()

    def erase(self) -> None:
        """The line is free, for what replaces it."""
        if self._is_drawn():
            print("\r\x1b[2K", end="", flush=True)
        self._end()

    def stop_waiting(self) -> None:
        """Settle as ``settle`` does, but leave a line open that stays."""
        if not self._stays:
            self.erase()

    def _is_drawn(self) -> bool:
        return bool(self._text) and not self._console().is_dumb_terminal

    def _end(self) -> None:
        self._text, self._stays = "", False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _draw(self, end: str) -> None:
        from rich.cells import cell_len, set_cell_size

        console = self._console()
        room = max(4, console.width - _ROOM)
        text = self._text if cell_len(self._text) <= room else set_cell_size(self._text, room)
        console.print(f"{text}{end}", style="dim", end="")

    def _again(self, seconds: float) -> None:
        try:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)
        except RuntimeError:  # nothing runs that could tell the time
            self._timer = None

    def _tick(self) -> None:
        print("\r\x1b[2K", end="")
        self._draw(f" ... {_span(time.monotonic() - self._since)}")
        self._again(NEXT)


def _span(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"
