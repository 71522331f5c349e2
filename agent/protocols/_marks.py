"""Marks that a reader looks for in the text of a reply."""

from __future__ import annotations

import re
from functools import lru_cache

from agent.protocols import _fences
from agent.protocols._code import CodeState
from agent.protocols._fences import ProtocolFence
from agent.protocols._quotes import SENTENCE_ENDS
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


_GOES_ON = re.compile(r"[ \t]+[^\s<\[]|[.,;:)?!]")
_GOES_ON_YET = re.compile(r"[ \t]{0,20}")


def spoken_in_prose(mark: str, code: CodeState, rest: str, *, final: bool) -> bool | None:
    """Return whether a mark is a word of a sentence, by the text on both sides; None where more of ``rest`` is needed."""
    if mark in _fences.HEADERS or mark == _fences.STRIKE:
        return False
    before = code.last
    if before[-1:] not in (" ", "\t", "(") or not before.strip() or before.rstrip().endswith(SENTENCE_ENDS):
        return False
    if not final and _GOES_ON_YET.fullmatch(rest):
        return None
    return _GOES_ON.match(rest) is not None
