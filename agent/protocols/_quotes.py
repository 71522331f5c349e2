"""Quotations, comments and elements that hold code, followed in prose as it comes: what stands in an open one is quoted."""

from __future__ import annotations

import re
from functools import lru_cache

_CLOSERS = {
    '"': '"',
    "\u201c": '\u201d"',
    "\u201d": "\u201d",
    "\u201e": '\u201c\u201d"',
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
    "'": "'",
    "\u2018": "\u2019",
}
"""Opening quotation marks, and what ends each."""
_APOSTROPHES = "'\u2019"
_OF_PARAGRAPH, _OF_LINE = '"', "'\u2018"
_SIGN = re.compile(rf"[{''.join(_CLOSERS)}\u2019\u300d\u300f]|<!--|-->|</?(?:pre|code)\b[^<>\n]*>")
AFTER = frozenset("\"'\u201d\u201c\u2019\u00bb\u00ab\u300d\u300f`")
"""Marks that, right behind a call, show that it was quoted."""
AFTER_TAGS = ("-->", "</pre", "</code")
SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")


@lru_cache(maxsize=64)
def _pattern(closer: str) -> re.Pattern[str]:
    return re.compile(closer)


class Quotes:
    """``begins_here``: the quotation was opened by the last character."""

    def __init__(self) -> None:
        self._open = ""
        self._comment = False
        self._elements: list[str] = []
        self._last = "\n"
        self.begins_here = False

    def feed(self, text: str) -> None:
        """Take prose of one line, without its end."""
        for match in _SIGN.finditer(text):
            sign, at = match[0], match.start()
            before = text[at - 1] if at else self._last
            if len(sign) > 1:
                self._tag(sign)
            else:
                self._quote(sign, before, text[match.end() : match.end() + 1])
            self.begins_here = match.end() == len(text) and self._open == sign
        if text:
            self.begins_here = self.begins_here and text[-1] == self._open
            self._last = text[-1]

    def end_line(self, *, blank: bool) -> None:
        """Take note of a line's end: straight quotation marks reach no further than their paragraph, single ones the line."""
        if self._open and (self._open in _OF_LINE or (blank and self._open in _OF_PARAGRAPH)):
            self._open = ""
        self._last, self.begins_here = "\n", False

    def closing(self) -> re.Pattern[str] | None:
        """Return what ends the innermost that is open; None where nothing is."""
        if self._comment:
            return _pattern("-->")
        if self._elements:
            return _pattern(f"</{self._elements[-1]}>")
        return _pattern(f"[{_CLOSERS[self._open]}]") if self._open else None

    def _tag(self, sign: str) -> None:
        if sign in ("<!--", "-->"):
            self._comment = sign == "<!--"
        elif not self._comment:
            name = "pre" if "pre" in sign[:5] else "code"
            if sign[1] != "/":
                self._elements.append(name)
            elif name in self._elements:
                self._elements.remove(name)

    def _quote(self, sign: str, before: str, after: str) -> None:
        if self._open:
            inside_word = sign in _APOSTROPHES and after.isalnum()
            if sign in _CLOSERS[self._open] and not inside_word:
                self._open = ""
        elif sign in _CLOSERS and not (sign in "\"'" and (before.isalnum() or before in ")]}>")):
            self._open = sign
