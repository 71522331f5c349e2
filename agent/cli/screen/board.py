"""The board: what is final, what is live, what is typed, painted together at most thirty times a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from agent.cli.screen.cells import Row
from agent.cli.screen.draft import DraftRows
from agent.cli.screen.painter import Painter

FRAME = 1 / 30
"""Seconds between two frames. What a person types does not wait for it."""


class Parts(Protocol):
    """Live rows of the screen, asked for when a frame is painted."""

    def above(self, columns: int) -> Sequence[Row]:
        """Return the rows above the input, and settle what became final meanwhile by ``Board.add``."""
        ...

    def typed(self, columns: int) -> DraftRows:
        """Return the input's rows."""
        ...

    def below(self, columns: int) -> Sequence[Row]:
        """Return the rows below the input."""
        ...


class Board:
    """Not thread-safe: it belongs to the event loop."""

    def __init__(self, painter: Painter, parts: Parts, clock: Callable[[], float] = time.monotonic) -> None:
        self.painter = painter
        self._parts = parts
        self._clock = clock
        self._final: list[Row] = []
        self._above: Sequence[Row] = ()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = True

    @property
    def columns(self) -> int:
        """Columns that a row may have."""
        return self.painter.columns

    @property
    def is_painting(self) -> bool:
        """True while the screen is the board's."""
        return not self._paused

    def begin(self) -> None:
        """Begin to paint. What was added before is shown first."""
        self._paused = False
        self.frame()

    def end(self) -> None:
        """Show what is final, take the live rows away, and paint no more."""
        if self._paused:
            return
        self._above = self._parts.above(self.columns)
        final, self._final = self._final, []
        self.painter.paint(final, ())
        self._stop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the screen to another program; what comes meanwhile is shown afterwards."""
        was = self._paused
        self.end()
        try:
            yield
        finally:
            if not was:
                self.begin()

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows that stay."""
        self._final += rows
        self.changed()

    def changed(self) -> None:
        """Have the next frame painted, when it is due."""
        if self._timer is not None or self._paused:
            return
        delay = max(0.0, self._last + FRAME - self._clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self.frame)

    def keyed(self) -> None:
        """Show at once what was typed; all else as it was in the last frame."""
        if self._final:  # which goes with other live rows
            self.frame()
        elif not self._paused:
            self._paint()

    def frame(self) -> None:
        """Paint all of it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._paused:
            return
        self._last = self._clock()
        self._above = self._parts.above(self.columns)
        self._paint()

    def clear(self) -> None:
        """Empty the screen."""
        if not self._paused:
            self.painter.clear()
            self.frame()

    def _paint(self) -> None:
        columns = self.columns
        typed = self._parts.typed(columns)
        live = [*self._above, *typed.rows, *self._parts.below(columns)]
        final, self._final = self._final, []
        self.painter.paint(final, live, (len(self._above) + typed.cursor[0], typed.cursor[1]))

    def _stop(self) -> None:
        self._paused = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
