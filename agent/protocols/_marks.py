"""Marks that a reader looks for in the text of a reply."""

from __future__ import annotations

import re
from collections import Counter
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
        more = (*_fences.HEADERS, _fences.STRIKE, *_fences.DROPPED, *_fences.WRAPPERS)
        self.tokens = Tokens((*self.fences, *self.thinking, *self.stray, *more))
        self.addressed = Tokens((*_fences.HEADERS, _fences.STRIKE, *_fences.TURN_ENDS, *_fences.OTHER_TURNS))


@lru_cache(maxsize=64)
def marks_of(fences: tuple[ProtocolFence, ...], *, stray: bool) -> Marks:
    """Return the same object for the same fences each time: its patterns take long to compile."""
    return Marks(fences, stray=stray)


_GOES_ON = re.compile(r"[ \t]+[^\s<\[]|[.,;:)?!]")
_GOES_ON_YET = re.compile(r"[ \t]{0,20}")


class SpokenMarks:
    """Tells marks that count from those that a reply only speaks of: in code or a quotation, or as words of a sentence."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._ends: Counter[str] = Counter()  # of calls and thinking that are only spoken of
        self._strikes = 0
        self._wrapper = ""

    def stands(self, mark: str, code: CodeState, rest: str, *, blank: bool, final: bool) -> bool | None:
        """Return whether a mark counts where the text has come to; None where that depends on text that is still to come.

        ``blank``: there is no text yet. ``rest`` is what follows the mark, as far as it is known.
        """
        fence = self._marks.fences.get(mark)
        if fence is None and not (final and not rest.strip()):
            prose = _in_prose(mark, code, rest, final=final)
            if prose is None:
                return None
            if prose:
                self._strikes -= mark == _fences.STRIKE_END and self._strikes > 0
                self._ends.update((self._marks.thinking[mark],) if mark in self._marks.thinking else ())
                return False
        ends = fence.closers if fence else ()
        if code.passes(mark, ends, call=fence is not None):
            self._ends.update(ends)
            return False
        if self._ends[mark]:
            self._ends[mark] -= 1
            return False
        if fence is None:
            return self._counts(mark, blank=blank)
        return {"": True, "start": blank, "line": code.begins_line}[fence.where]

    def _counts(self, mark: str, *, blank: bool) -> bool:
        """Return whether a mark counts that people write too."""
        if mark == _fences.STRIKE:
            self._strikes += 1
            return False
        if mark == _fences.STRIKE_END and self._strikes:
            self._strikes -= 1
            return False
        if mark in _fences.WRAPPERS:
            if blank and not self._wrapper and mark[1] != "/":
                self._wrapper = f"</{mark[1:]}"
                return True
            return mark == self._wrapper
        return True


def _in_prose(mark: str, code: CodeState, rest: str, *, final: bool) -> bool | None:
    """Return whether a mark is a word of a sentence, by the text on both sides; None where more of ``rest`` is needed."""
    if mark in _fences.HEADERS or mark == _fences.STRIKE:
        return False
    before = code.last
    if before[-1:] not in (" ", "\t", "(") or not before.strip() or before.rstrip().endswith(SENTENCE_ENDS):
        return False
    if not final and _GOES_ON_YET.fullmatch(rest):
        return None
    return _GOES_ON.match(rest) is not None
