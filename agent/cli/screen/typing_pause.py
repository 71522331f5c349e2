"""The pause in the typing before a question: keys that were typed before the user saw the question do not answer it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.cli.screen.onekey import QUIET, SERIES, EarlyKey

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer


class TypingPause:
    """Waits for a pause in the typing. ``typed`` is called with text typed meanwhile, ``came_early`` with a letter that was typed
    too early to answer.
    """

    def __init__(self, draft: Buffer, typed: Callable[[str], None], came_early: Callable[[str], None]) -> None:
        self._draft = draft
        self._typed = typed
        self._came_early = came_early
        self._key_at = 0.0
        self._answered_at = float("-inf")
        self._before = ""
        """The draft at the time of the last answer."""
        self.early: EarlyKey | None = None
        """The receiver of keys until the next question of a series accepts keys; None at other times."""

    def pressed(self) -> None:
        """Record that a key was pressed."""
        self._key_at = time.monotonic()

    def answered(self) -> None:
        """Record that a question was answered."""
        self._answered_at, self._before = time.monotonic(), self._draft.text

    @property
    def idle(self) -> float:
        """Seconds since the last key."""
        return time.monotonic() - self._key_at

    @property
    def is_typing(self) -> bool:
        """True if the question waits until the user stops typing; False if it waits only to give the user time to read."""
        return self.early is None or self.early.is_typing

    async def wait(self, letters: str) -> None:
        """Wait for a pause in the typing. In a series of questions, a letter that answers the next question is not counted as
        typing: see EarlyKey.
        """
        begin, early = time.monotonic(), self._early_key(letters)
        try:
            while (left := self._left(begin, early)) > 0:  # noqa: ASYNC110 - each key extends the wait
                await asyncio.sleep(left)
        finally:
            if early is not None:
                early.end()
            self.early = None

    def _early_key(self, letters: str) -> EarlyKey | None:
        """Return the receiver of early keys; None if no question was answered just before, or text was typed since then."""
        before, now = self._before, self._draft.text
        if time.monotonic() - self._answered_at >= SERIES or not now.startswith(before):
            return None
        stray = now.removeprefix(before)
        if stray and (len(stray) > 1 or stray.lower() not in letters):
            return None
        early = self.early = EarlyKey(letters, self._came_early, self._typed)
        if stray:
            self._draft.text = before
            self._draft.cursor_position = len(before)
            early.pressed(stray)
        return early

    def _left(self, begin: float, early: EarlyKey | None) -> float:
        last = begin if early is not None else max(begin, self._key_at)
        return max(last + QUIET - time.monotonic(), 0.0 if early is None else early.settled_in)
