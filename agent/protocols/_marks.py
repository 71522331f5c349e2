"""Marks that a reader looks for in the text of a reply."""

from __future__ import annotations

from functools import lru_cache

from agent.protocols import _fences
from agent.protocols._fences import ProtocolFence
from agent.protocols._scan import Tokens


class Marks:
    """Marks in text, and in text that is addressed to a person. ``stray``: also ends of thinking that was not begun."""

    def __init__(self, fences: tuple[ProtocolFence, ...], *, stray: bool) -> None:
        self.fences = {fence.opener: fence for fence in fences}
        self.thinking = dict(_fences.THINKING)
        self.stray = frozenset(self.thinking.values()) - {"<channel|>"} if stray else frozenset()
        more = (*_fences.HEADERS, _fences.STRIKE, *_fences.DROPPED)
        self.tokens = Tokens((*self.fences, *self.thinking, *self.stray, *more))
        self.addressed = Tokens((*_fences.HEADERS, _fences.STRIKE, *_fences.TURN_ENDS, *_fences.OTHER_TURNS))


@lru_cache(maxsize=64)
def marks_of(fences: tuple[ProtocolFence, ...], *, stray: bool) -> Marks:
    """Return the same object for the same fences each time: its patterns take long to compile."""
    return Marks(fences, stray=stray)
