"""Answers by a single key, distinguished from typed text: letters of a text answer nothing, and all of them are kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

QUIET = 0.7
"""Seconds without a key before a question accepts keys: keys typed before it was seen do not answer it."""
ALONE = 0.3
"""Seconds after an answering letter within which no other character may follow."""
SERIES = 2.0
"""Seconds after an answer within which a single letter counts as an early answer to the next question."""
_SOON = 0.05
_NAMED = ("enter", "left", "right", "up", "down")


class OneKey:
    """Distinguishes choices from text. ``letters`` choose if no other key follows. In ``at_once``, a sign such as ``?`` chooses
    immediately, and a letter when it is pressed twice. ``answered`` is called with the key that chose: a letter as pressed, or
    ``enter``, ``left``, ``right``, ``up``, ``down``. ``typed`` is called with other text, and with "" for a key that has no
    effect now.
    """

    def __init__(self, letters: str, at_once: str, answered: Callable[[str], None], typed: Callable[[str], None]) -> None:
        self.letters = letters
        self._at_once = at_once
        self._answered = answered
        self._typed = typed
        self._held = ""
        self._timer: asyncio.TimerHandle | None = None
        self._typing_until = 0.0
        self._has_answered = False

    @property
    def is_typing(self) -> bool:
        """True while keys count as text."""
        return time.monotonic() < self._typing_until

    def pressed(self, key: str) -> None:
        """Handle a character or a named key."""
        if key in _NAMED:
            if (held := self._release()) or not self.is_typing:
                self._answer(held or key)
            else:
                self._typed("")
        elif self._has_answered or self.is_typing or key.lower() not in self.letters.lower() or self._held not in ("", key):
            self.text(key)
        elif key.lower() in self._at_once and (self._held or not key.isalpha()):
            self._release()
            self._answer(key)
        elif self._held:
            self.text(key)
        else:
            self._held = key
            self._timer = asyncio.get_running_loop().call_later(ALONE, self._alone)

    def text(self, text: str) -> None:
        """Handle text; for a moment all further characters are text too."""
        self._typing_until = time.monotonic() + QUIET
        self._typed(self._release() + text)

    def end(self) -> None:
        """Stop. A letter that waits becomes text."""
        if held := self._release():
            self._typed(held)

    def _alone(self) -> None:
        self._answer(self._release())

    def _answer(self, key: str) -> None:
        if not self._has_answered:
            self._has_answered = True
            self._answered(key)

    def _release(self) -> str:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, ""
        return held


class EarlyKey(OneKey):
    """Handles keys that are pressed before the next question of a series accepts keys. A single letter is an early answer: it
    does not count, and is not text either; ``early`` is called with it. ``typed`` is called with other text.
    """

    def __init__(self, letters: str, early: Callable[[str], None], typed: Callable[[str], None]) -> None:
        super().__init__(letters, "", early, typed)

    @property
    def settled_in(self) -> float:
        """Return the seconds until it is known whether the pressed keys are text or an early answer; 0 if it is known."""
        return max(self._typing_until - time.monotonic(), _SOON if self._held else 0.0)

    def _answer(self, key: str) -> None:
        if key not in _NAMED:
            self._answered(key)


def onekey_bindings(
    choosing: Callable[[], OneKey | None], collapse: Callable[[str], str], rub_out: Callable[[], None]
) -> KeyBindings:
    """Return the bindings that have priority over all others while ``choosing`` returns a receiver of keys. ``collapse`` shortens
    a paste; ``rub_out`` handles Backspace.
    """
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()
    is_choosing = Condition(lambda: choosing() is not None)

    def add(key: Any, act: Callable[[OneKey, str], None]) -> None:
        @bindings.add(key, filter=is_choosing)
        def _pressed(event: KeyPressEvent) -> None:
            if (one := choosing()) is not None:
                act(one, event.data)

    for name in _NAMED:
        add(name, lambda one, _, name=name: one.pressed(name))  # type: ignore[misc]  # a default that binds the name
    add(Keys.Any, lambda one, data: one.pressed(data))
    add(Keys.BracketedPaste, lambda one, data: one.text(collapse(data)))
    add("backspace", lambda one, _: rub_out())
    return bindings
