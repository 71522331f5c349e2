"""Stops a reply that repeats itself endlessly, as small models do in their text, their thinking and the arguments of a call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.providers._faults import OversizedReply
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.providers._events import EventReader

_EVERY = 8 * 1024
"""Bytes of a body between two checks of the reply's texts."""
_GROWN, _GROWN_PIECES = 1_000, 64
"""Characters and pieces that a text must grow by before the next check for a short period.

The checks are this frequent because a loop may drift into another loop.
"""
_GROWN_FAR = 16 * 1024
"""Characters between two checks for a period of any length, and for a repeated numbered list."""
_NEAR, _WINDOW = 4 * 1024, 64 * 1024
"""Characters at the end of a text that are checked, for a short period and for a period of any length."""
_OF_WORDS, _OF_LIST, _OF_OTHERS = 20_000, 40_000, 50_000
"""Characters that must repeat in prose, in a numbered list of prose, and in other text: a table or a dump may have many zeros."""
_TIMES, _PIECES = 4, 128
"""Minimum number of repetitions, and of the pieces that they arrive in.

A text that arrives in a few pieces was complete before it was sent.
"""
_PROBE, _PLACES = 256, 16
_WORD = Regex(r"[^\W\d_]{3,}")
_NUMBER = Regex(r"\b\d{1,9}[.)](?=\s)")
"""The number of a list item. A loop may count: ``1. Sorry. 2. Sorry. 3. Sorry.``"""


class RepetitionWatch:
    """Watches the reply that ``reader`` reads. Call ``record`` with the size of each piece of the body after it was read."""

    def __init__(self, reader: EventReader, server: str) -> None:
        self._reader = reader
        self._server = server
        self._left = _EVERY
        self._ends: dict[str, TextEnd] = {}

    def record(self, size: int) -> None:
        """Raise OversizedReply if the reply repeats itself."""
        self._left -= size
        if self._left > 0:
            return
        self._left = _EVERY
        for name, parts in self._reader.growing():
            if parts and (found := self._ends.setdefault(name, TextEnd()).repetition(parts)):
                period, size = found
                words = f"the {name} of the reply repeats itself: its last {size:,} characters repeat a piece of {period:,}"
                raise OversizedReply(f"the reply of {self._server} was stopped: {words}. Use other words, or another model")


class TextEnd:
    """The end of a text that grows piece by piece."""

    def __init__(self) -> None:
        self._begin(())

    def _begin(self, parts: Sequence[str]) -> None:
        self._parts = parts
        self._read = 0  # number of pieces whose text is in ``_blocks``
        self._blocks: deque[str] = deque()
        self._size = self._grown = 0
        self._near = ""

    def repetition(self, parts: Sequence[str]) -> tuple[int, int] | None:
        """Return the period of the repetition at the end of ``parts``, and the length that was compared; None if there is none.

        Call it with the same list each time. It checks nothing until the list has grown enough.
        """
        if parts is not self._parts or len(parts) < self._read:
            self._begin(parts)
        if len(parts) - self._read < _GROWN_PIECES:
            return None
        new = "".join(parts[self._read :])
        if len(new) < _GROWN:
            return None
        self._read = len(parts)
        self._add(new)
        far = self._grown >= _GROWN_FAR
        if len(parts) < _PIECES or self._size < _OF_WORDS or not (far or _has_probe(self._near)):
            return None
        text, least = "".join(self._blocks)[-_WINDOW:], sum(map(len, parts[-_PIECES:]))
        found = _period(text, _OF_WORDS, _OF_OTHERS, least)
        if far:
            self._grown = 0
            if found is None and _has_probe(_NUMBER.sub("0.", self._near)):
                found = _period(_NUMBER.sub("0.", text), _OF_LIST, _WINDOW, least)
        return found

    def _add(self, new: str) -> None:
        self._blocks.append(new)
        self._size += len(new)
        self._grown += len(new)
        while self._size - len(self._blocks[0]) >= _WINDOW:
            self._size -= len(self._blocks.popleft())
        self._near = (self._near + new)[-_NEAR:]


def _has_probe(text: str) -> bool:
    """Return whether the last characters of a text also occur earlier in it."""
    return text.find(text[-_PROBE:]) < len(text) - _PROBE


def _period(text: str, of_words: int, of_others: int, least: int) -> tuple[int, int] | None:
    """Return the period of the repetition at the end of ``text``, and the length that was compared; None if there is none."""
    last = at = len(text) - _PROBE
    probe = text[last:]
    for _ in range(_PLACES):
        at = text.rfind(probe, 0, at + _PROBE - 1)
        if at < 0:
            return None
        period = last - at
        size = max(of_words if _is_prose(text[-period:]) else of_others, _TIMES * period, least)
        if size <= len(text) and text[-size:-period] == text[period - size :]:
            return period, size
    return None


def _is_prose(unit: str) -> bool:
    if len(set(_WORD.findall(unit))) >= 3:
        return True
    return sum(one > "\x7f" and one.isalpha() for one in set(unit)) >= 6
