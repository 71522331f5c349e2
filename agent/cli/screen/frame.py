"""The board: paints final rows, live rows and the input together, at most thirty times a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias

from agent.cli.screen.cells import Row
from agent.cli.screen.draft import DraftRows
from agent.cli.screen.painter import Painter

FRAME = 1 / 30
"""Seconds between two frames. Typed keys appear without waiting for the next one."""

STILL = 0.3
"""Seconds without a change of size before a resized screen is painted. Terminals report a new size up to 0.25 s after they
wrapped the rows to it; a frame for the previous size would appear in the wrong place.
"""


Speaker: TypeAlias = Literal["", "said", "text", "calls", "question", "note"]
"""The source of rows: the user, the model's text, its calls, toolcrib's questions or its notes; "" above the first row."""


class Parts(Protocol):
    """Provides the live rows of the screen when a frame is painted."""

    def above(self, columns: int) -> Sequence[Row]:
        """Return the rows above the input, and pass rows that became final to ``Board.add``."""
        ...

    def typed(self, columns: int) -> DraftRows:
        """Return the input's rows."""
        ...

    def below(self, columns: int) -> Sequence[Row]:
        """Return the rows below the input."""
        ...


class Board:
    """Paints the screen. Not thread-safe: only the event loop may use it."""

    def __init__(self, painter: Painter, parts: Parts, clock: Callable[[], float] = time.monotonic) -> None:
        self.painter = painter
        self._parts = parts
        self._clock = clock
        self._final: list[Row] = []
        self._speaker: Speaker = ""
        self._above: Sequence[Row] = ()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = True
        self._size = painter.size
        self._still_at = 0.0

    @property
    def columns(self) -> int:
        """Return the number of columns of a row."""
        return self.painter.columns

    @property
    def is_painting(self) -> bool:
        """True while the board paints the screen."""
        return not self._paused

    @property
    def rows(self) -> int:
        """Return the number of rows of the screen."""
        return self.painter.size[1]

    def begin(self) -> None:
        """Start painting, with the rows that were added before."""
        self._paused = False
        self.frame()

    def end(self) -> None:
        """Show final rows, remove live rows, and stop painting."""
        if self._paused:
            return
        self._above = self._parts.above(self.columns)
        final, self._final = self._final, []
        while not self.painter.paint(final, ()):
            continue
        self._stop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the screen to another program; rows added meanwhile are shown afterwards."""
        was = self._paused
        self.end()
        try:
            yield
        finally:
            if not was:
                self.begin()

    def add(self, rows: Sequence[Row], speaker: Speaker = "note") -> None:
        """Add final rows, below an empty row if ``gap`` returns one."""
        if rows:
            self._final += [*self.gap(speaker), *rows]
            self._speaker = speaker
        self.changed()

    def gap(self, speaker: Speaker, above: Speaker = "") -> list[Row]:
        """Return the empty row, if any, that separates rows of ``speaker`` from the rows above them. Those are live rows of the
        speaker ``above``, or the last final rows if ``above`` is "".
        """
        last = above or self._speaker
        if speaker == "note":
            return [()] if last == "text" else []
        return [()] if speaker == "said" or last not in ("", speaker) else []

    def changed(self) -> None:
        """Schedule the next frame."""
        if self._timer is not None or self._paused:
            return
        delay = max(0.0, self._last + FRAME - self._clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self.frame)

    def keyed(self) -> None:
        """Show typed keys at once; everything else stays as in the last frame."""
        if self._final:  # final rows need new live rows
            self.frame()
        elif not self._paused and not self._is_resized():
            self._paint()

    def frame(self) -> None:
        """Paint the whole frame."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._paused or self._is_resized():
            return
        self._last = self._clock()
        self._above = self._parts.above(self.columns)
        self._paint()

    def clear(self) -> None:
        """Empty the screen."""
        if not self._paused:
            self.painter.clear()
            self._speaker = ""
            self.frame()

    def _paint(self) -> None:
        columns = self.columns
        typed = self._parts.typed(columns)
        live = [*self._above, *typed.rows, *self._parts.below(columns)]
        if self._is_resized():
            return
        if self.painter.paint(self._final, live, (len(self._above) + typed.cursor[0], typed.cursor[1])):
            self._final = []
        else:
            self.frame()

    def _is_resized(self) -> bool:
        """Return True while the screen's size changes; schedule a frame for the moment when it is stable."""
        now = self._clock()
        if self.painter.size != self._size:
            self._size, self._still_at = self.painter.size, now + STILL
        if now >= self._still_at:
            return False
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._still_at - now, self.frame)
        return True

    def _stop(self) -> None:
        self._paused = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
