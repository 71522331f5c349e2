"""Stops a reply that repeats itself for ever: small models do, in their text, their thinking and the arguments of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.providers._faults import OversizedReply
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.providers._events import EventReader

_EVERY = 256 * 1024
"""Bytes of a body between two checks."""
_WINDOW = 64 * 1024
"""Characters at the end of a text that are checked."""
_OF_WORDS, _OF_OTHERS = 20_000, 50_000
"""Characters that must repeat, in prose and in other text: a table or a binary dump may have many zeros."""
_TIMES, _PIECES = 4, 128
"""Fewest repetitions, and fewest pieces that they arrived in: a text in a few pieces was written before it was sent."""
_PROBE, _PLACES = 256, 16
_WORD = Regex(r"[^\W\d_]{3,}")


class RepetitionWatch:
    """Watches the reply that ``reader`` reads. Call ``record`` with the size of each piece of the body once it was read."""

    def __init__(self, reader: EventReader, server: str) -> None:
        self._reader = reader
        self._server = server
        self._left = _EVERY

    def record(self, size: int) -> None:
        """Raise OversizedReply if the reply repeats itself."""
        self._left -= size
        if self._left > 0:
            return
        self._left = _EVERY
        for name, parts in self._reader.growing():
            if found := repetition(parts):
                period, size = found
                words = f"the {name} of the reply repeats itself: its last {size:,} characters are {period:,} again and again"
                raise OversizedReply(f"the reply of {self._server} was stopped: {words}. Use other words, or another model")


def repetition(parts: Sequence[str]) -> tuple[int, int] | None:
    """Return the period of the repetition at the end of a text, and the length that was compared; None if there is none."""
    tail, least = _tail(parts)
    at = last = len(tail) - _PROBE
    if at <= 0:
        return None
    probe = tail[last:]
    for _ in range(_PLACES):
        at = tail.rfind(probe, 0, at + _PROBE - 1)
        if at < 0:
            return None
        period = last - at
        size = max(_OF_WORDS if _is_prose(tail[-period:]) else _OF_OTHERS, _TIMES * period, least)
        if size <= len(tail) and tail[-size:-period] == tail[period - size :]:
            return period, size
    return None


def _tail(parts: Sequence[str]) -> tuple[str, int]:
    """Return the end of a text, and the length of its last ``_PIECES`` pieces; "" if it is too short to repeat itself."""
    size = least = 0
    for number in range(1, len(parts) + 1):
        size += len(parts[-number])
        if number == _PIECES:
            least = size
        if size >= _WINDOW and number >= _PIECES:
            return "".join(parts[-number:]), least
    return ("".join(parts), least) if len(parts) >= _PIECES and size >= _OF_WORDS else ("", 0)


def _is_prose(unit: str) -> bool:
    if len(set(_WORD.findall(unit))) >= 3:
        return True
    return sum(one > "\x7f" and one.isalpha() for one in set(unit)) >= 6
