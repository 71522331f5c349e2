"""Marks that a reader searches for in the text of a reply."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from agent.protocols import _fences
from agent.protocols._code import CodeState, goes_on
from agent.protocols._fences import ProtocolFence
from agent.protocols._quotes import SENTENCE_ENDS
from agent.protocols._scan import Tokens


class Marks:
    """The marks to search for: in text, and (``addressed``) in text that is addressed to a user.

    ``stray``: also ends of thinking that was not begun. ``native``: only beginnings of calls, as the server reads the rest.
    """

    def __init__(self, fences: tuple[ProtocolFence, ...], *, stray: bool, native: bool) -> None:
        self.fences = {fence.opener: fence for fence in fences}
        self.thinking = {} if native else dict(_fences.THINKING)
        self._stray = (
            frozenset((*self.thinking.values(), *_fences.THINKING_ENDS)) - {*_fences.NOT_STRAY} if stray else frozenset()
        )
        more = () if native else (_fences.STRIKE, *_fences.DROPPED, *_fences.WRAPPERS)
        more = (*_fences.HEADERS, _fences.MODEL_TURN, *more)
        stems = (_fences.THINK_SUFFIXED, *_fences.WRAPPERS_SUFFIXED, *((_fences.THINK_ENDS_SUFFIXED,) if stray else ()))
        stems = () if native else stems
        if "<tool_calls>" in self.fences:
            stems = (*stems, *_fences.SUFFIXED)
        self.tokens = Tokens((*self.fences, *self.thinking, *self._stray, *more), stems=stems)
        self.parts = Tokens((*self.tokens.all, _fences.PART), stems=stems)
        ends = (*_fences.TURN_ENDS, *_fences.OTHER_TURNS, *_fences.ANSWERS.values())
        self.addressed = Tokens((*_fences.HEADERS, _fences.STRIKE, *ends))

    def fence(self, mark: str) -> ProtocolFence | None:
        """Return the row of an opening; None for any other mark."""
        return _fences.suffixed(mark) if mark.startswith(_fences.SUFFIXED) else self.fences.get(mark)

    def may_begin_call(self, mark: str) -> bool:
        """Return whether a partial mark may be the beginning of a call."""
        openers = (*self.fences, *_fences.SUFFIXED)
        return mark.startswith(_fences.SUFFIXED) or any(opener.startswith(mark) for opener in openers)

    def end_of_thinking(self, mark: str) -> str:
        """Return the mark that ends the thinking that ``mark`` begins; "" for any other mark."""
        return f"</{mark[1:]}" if mark.startswith(_fences.THINK_SUFFIXED) else self.thinking.get(mark, "")

    def is_stray(self, mark: str) -> bool:
        """Return whether a mark ends thinking that the reply did not begin."""
        return mark in self._stray or mark.startswith(_fences.THINK_ENDS_SUFFIXED)


@lru_cache(maxsize=64)
def marks_of(fences: tuple[ProtocolFence, ...], *, stray: bool, native: bool = False) -> Marks:
    """Return the marks of fences, cached: their patterns take a long time to compile."""
    return Marks(fences, stray=stray, native=native)


_YET = re.compile(r"[ \t]{0,20}")
_NAMED = re.compile(r"[a-z<]")
_HALF_HEADERS = frozenset(mark[:size] for mark in _fences.HEADERS for size in range(1, len(mark)))


class SpokenMarks:
    """Distinguishes marks that count from marks that a reply only mentions: in code, in a quotation, or in a sentence."""

    def __init__(self, marks: Marks, *, harmony: bool) -> None:
        self._marks = marks
        self.harmony = harmony
        """True if the reply is in harmony's format: then a message may begin on any line."""
        self._ends: Counter[str] = Counter()  # ends of calls and thinking that are only mentioned
        self.in_message = False
        """True after the beginning of a harmony message that is only mentioned."""
        self._strikes = 0
        self._wrapper = ""

    def stands(self, mark: str, code: CodeState, rest: str, *, blank: bool, final: bool) -> bool | None:
        """Return whether a mark counts at the current position; None if that depends on text still to come.

        ``blank``: there is no text yet. ``rest``: the known text after the mark.
        """
        if mark == _fences.PART:
            return code.begins_line and not code.passes(mark, (), call=True)
        if mark == _fences.MODEL_TURN:
            return not code.passes(mark, _fences.MESSAGE_ENDS, call=True)
        if mark in _fences.HEADERS:
            before = "" if blank or code.begins_line else code.last
            if code.passes(mark, _fences.BODY_ENDS, call=True):
                return False
            return self.begins_message(before, rest, anywhere=blank, final=final)
        if self.in_message and mark in _fences.BODY_ENDS:
            return self.ends_message(rest, final=final)
        fence = self._marks.fence(mark)
        if fence is not None and fence.where and not code.begins_line:
            return False
        if fence is None and not (final and not rest.strip()):
            prose = _in_prose(mark, code, rest, final=final)
            if prose is None:
                return None
            if prose:
                self._strikes -= mark == _fences.STRIKE_END and self._strikes > 0
                self._ends.update(filter(None, (self._marks.end_of_thinking(mark),)))
                return False
        ends = fence.closers if fence else ()
        if code.passes(mark, ends, call=fence is not None):
            self._ends.update(ends)
            return False
        if self._ends[mark]:
            self._ends[mark] -= 1
            return False
        return fence is not None or self._counts(mark, blank=blank)

    def begins_message(self, before: str, rest: str, *, anywhere: bool, final: bool) -> bool | None:
        """Return whether one of harmony's headers begins a message.

        A header begins a message at the beginning of the reply (``anywhere``) and, in harmony's own format, on any line or after
        a complete sentence. ``before`` is the end of the text before the header on its line.
        """
        if not rest and not final:
            return None
        ended = not before.strip() or before.rstrip().endswith(SENTENCE_ENDS)
        stands = _NAMED.match(rest) is not None and (anywhere or (self.harmony and ended))
        self.in_message = not stands
        return stands

    def ends_message(self, rest: str, *, final: bool) -> bool | None:
        """Return whether the mark of a message's end counts after a header that was only mentioned."""
        follows = rest.strip()
        if not final and (not follows or follows in _HALF_HEADERS):
            return None
        if follows and not follows.startswith(_fences.HEADERS):
            self.in_message = False
            return False
        return True

    def _counts(self, mark: str, *, blank: bool) -> bool:
        """Return whether a mark counts: marks that people also write, such as ``<s>`` and ``<answer>``, often do not."""
        if mark == _fences.STRIKE:
            self._strikes += 1
            return False
        if mark == _fences.STRIKE_END and self._strikes:
            self._strikes -= 1
            return False
        if mark in _fences.WRAPPERS or mark.startswith(_fences.WRAPPERS_SUFFIXED):
            if blank and not self._wrapper and mark[1] != "/":
                self._wrapper = f"</{mark[1:]}"
                return True
            return mark == self._wrapper
        return True


def _in_prose(mark: str, code: CodeState, rest: str, *, final: bool) -> bool | None:
    """Return whether the text on both sides makes a mark a word of a sentence, or a list item; None if more text is needed."""
    if mark == _fences.STRIKE:
        return False
    if code.in_item:
        return True if rest.strip() else None if not final else False
    if not code.in_sentence:
        return False
    if not final and _YET.fullmatch(rest):
        return None
    if mark in _fences.OTHER_TURNS and code.last.rstrip()[-1:] in (":", ","):
        return True if rest.strip() else None if not final else False
    return goes_on(rest)
