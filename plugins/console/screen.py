"""The output of ``toolcrib console``: messages, including growing ones, calls and notices."""

from __future__ import annotations

import asyncio
import sys
import time
import unicodedata
from collections.abc import Callable

_LOOK_SECONDS = 2.0
"""Seconds that a user needs to notice a new question."""
_REST_SECONDS = 0.3
"""Seconds without new text after which an open line of a finished answer is ended."""
_OPEN_CHARS = 400
"""Characters of an open line that are shown above the prompt."""


class ConsoleScreen:
    """The terminal's output: the last message with buttons, and the messages' texts by their ids.

    ``redraw`` draws the prompt again; None without a prompt. With a prompt, an open line is part of it until the line ends.
    """

    def __init__(self) -> None:
        self.redraw: Callable[[], None] | None = None
        self.asked: tuple[str, list[list[str]]] = ("", [])
        self.is_writing = False
        self._taken_over_at = -_LOOK_SECONDS
        """Time when a question replaced another open question."""
        self._texts: dict[str, str] = {}
        self._last = ""
        """The message that was printed last, which may grow in place."""
        self._is_open = False
        """True while the cursor is at the end of printed text, on the same line."""
        self._open = ""
        self._pause: asyncio.TimerHandle | None = None

    @property
    def open_line(self) -> str:
        """The end of the open line, for the prompt."""
        return self._open[-_OPEN_CHARS:]

    def message(self, number: str, text: str, buttons: list[list[str]], files: list[str]) -> None:
        """Print a message, or only the new text of a growing one."""
        before, now = self._texts.get(number), text.rstrip()
        if before is not None and now.startswith(before) and self._last == number:
            new = now[len(before) :]
            self._put(tame(new if self._is_open else new.lstrip()))
        elif now and now != before:
            self.end_line()
            self._put(tame(now))
            self._last = number
        self._texts[number] = now
        for file in files:
            self.line(f"[file: {tame(file)}]")
        if buttons:
            if self.asked[0] not in ("", number):
                self._taken_over_at = time.monotonic()
            self.asked = number, buttons
            self.line("  ".join(f":{at} {tame(label)}" for at, (_, label) in enumerate(buttons, 1)))
        elif self.asked[0] == number:
            self.asked = "", []
        self._rest()

    @property
    def is_taken_over(self) -> bool:
        """True shortly after a question replaced another one: the typed line may be meant for the old one."""
        return time.monotonic() - self._taken_over_at < _LOOK_SECONDS

    def line(self, text: str) -> None:
        """Print text on its own line."""
        self.aside(text)
        self._last = ""

    def aside(self, text: str) -> None:
        """Print text on its own line, such as a call, after which the last message may still grow."""
        self.end_line()
        _say(text)

    def writing(self, is_on: bool) -> None:
        """Record whether an answer is being written; its end may still arrive after that."""
        self.is_writing = is_on
        self._rest()
        self._draw()

    def end_line(self) -> None:
        """End the current line, if it is open."""
        if self._is_open:
            _say(self._open)
        self._is_open, self._open = False, ""

    def entered(self, text: str) -> None:
        """Record that the user ended a line with Enter. The prompt vanishes then, so the line is printed instead."""
        if self.redraw is None:
            self._is_open = False
        else:
            _say(f"> {tame(text)}")

    def _put(self, text: str) -> None:
        if not text:
            return
        self._is_open = True
        if self.redraw is None:
            _say(text, end="")
            return
        whole, newline, self._open = (self._open + text).rpartition("\n")
        if newline:
            _say(whole)
        self._draw()

    def _draw(self) -> None:
        if self.redraw is not None:
            self.redraw()

    def _rest(self) -> None:
        """End the line when no more text arrives, so that the next typed text begins a new line."""
        if self._pause is not None:
            self._pause.cancel()
        later = asyncio.get_running_loop().call_later
        self._pause = None if self.is_writing or not self._is_open else later(_REST_SECONDS, self.end_line)


def _say(text: str, *, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def tame(text: str) -> str:
    """Return text without control characters that a terminal would act on."""
    return "".join(one if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf") else "\ufffd" for one in text)
