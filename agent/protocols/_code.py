"""Markdown code and quotations in a reply: a mark that stands in them is only spoken of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.protocols._quotes import AFTER as QUOTED_ENDS
from agent.protocols._quotes import NEVER, SENTENCE_ENDS, Quotes

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LAST = 4
_LOOKED_AT = 40
"""Characters of a line that decide whether a code block begins or ends with it."""
FENCED = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_SPAN = re.compile(r"(`+)[^`\n]+\1")
_BLOCK_QUOTE = re.compile(r"^[ \t]*>(?!>>)[^\n]*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"[ \t>]*(?![ \t>]|#|`{3}|~{3}|\Z)")
"""Beginning of a block quote's line whose paragraph the next line may continue without a ``>``."""


ANYTHING = re.compile("")
_IN_QUOTE, _LAZY = re.compile("(?:)"), re.compile(r"\n(?![ \t]*>)")
_TICK = re.compile("`")
_TICKS = re.compile("(`+)")
_CELL_END = re.compile(r"\|[ \t]*(?:\n|\Z)")
_DIFF = re.compile(r"[ \t]*(?:\+|-(?![\s-]))")
_DIFF_GOES_ON = re.compile(r"^(?:[+-]|@@)", re.MULTILINE)
_INDENTED = re.compile(r" {4}| {0,3}\t")
_UNINDENTED = re.compile(r"^ {0,3}[^\s]", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*(?://+|#+|--|;+|%+|/\*+|REM\b)[ \t]*")
_TEXT = re.compile(r"\S")
_ITEM = re.compile(r"[ \t]*(?:[-*+\u2022\u2023\u2013]|\(?(?:\d{1,3}|[A-Za-z])[.)])[ \t]+")
_COMMENTED = re.compile(r"[ \t]*(?://|#(?!#)|;;|/\*).*")
_SHOWN = re.compile(
    rf"{_ITEM.pattern}|[ \t]*(?:[$%>]+[ \t]+|[\w.]+[ \t]*(?:[:+]?=|<-)[ \t]*|(?:return|yield|await|assert|print)[ \t]+"
    r"|\[[^\]]*\]:[ \t]+)"
)
"""Beginnings of a line, up to a call, that show the call in a list, at a prompt, in an expression or in a note."""
_LISTED = re.compile(rf"{_ITEM.pattern}.*|[ \t]*\[?(?:\d{{4}}-\d\d-\d\d|\d\d:\d\d:\d\d).*")
"""Beginnings of a line of a list or a log, in which words may stand before a call."""
_ROLE = re.compile(r"[ \t]*[*_]*(?:user|human|assistant|model|ai|system|tool|q|a)[*_]*[ \t]*:[*_]*[ \t]*", re.IGNORECASE)
_TITLE, _BOLD = re.compile(r"[ \t]*#{1,6}[ \t]"), re.compile(r"[ \t]*\*\*")
_GOES_ON = re.compile(r"[ \t]+[^\s<\[{]|[.,;:)?!]")


class CodeState:
    """Follows text as it comes: code blocks, and code spans, quotations and block quotes of the current line.

    Text is looked at only once somebody asks what stands there: most replies have no marks.
    """

    def __init__(self) -> None:
        self._text: list[str] = []  # not looked at yet
        self._start = ""
        self._span = 0  # backticks that opened the code span of this line
        self._wide = 0  # backticks that opened a code span in this paragraph
        self._lazy = False  # the line before is in a block quote's paragraph, so that this one is too
        self._spanned = False  # the quoted mark stands in the code span of this line
        self._fence = ""
        self._quoted: tuple[str, ...] | None = None  # the marks that end a quotation of call text; none: the line does
        self._quotes = Quotes()
        self._begun = False
        self._after_blank = False  # the line before is blank, or code by its indentation
        self._marked = 0  # characters of the quoted mark that are still to come
        self._last = ""
        self._in_shown = False  # the line's beginning shows all that stands in it
        self._titled = False
        self.feed = self._text.append

    def interrupt(self) -> None:
        """Take note of a call or an end of a turn: what comes after it begins a line."""
        self._look()
        if self._closes_fence():
            self._fence = ""
        self._start, self._span, self._wide, self._last, self._after_blank = "", 0, 0, "", False

    @property
    def begins_line(self) -> bool:
        self._look()
        return not self._start.strip()

    @property
    def last(self) -> str:
        """The last few characters of the line so far; "" at its beginning."""
        self._look()
        return self._last

    @property
    def titled(self) -> bool:
        """Return whether a line's beginning has been come to, and the last line that is not blank is a title."""
        return self.begins_line and self._titled

    @property
    def may_be_code(self) -> bool:
        """Return whether a code span of this paragraph is open, if an end of it follows."""
        self._look()
        return self._wide > 0

    @property
    def in_lazy_quote(self) -> bool:
        """Return whether this line continues the paragraph of a block quote without a ``>``."""
        self._look()
        return self._lazy

    @property
    def in_item(self) -> bool:
        """Return whether nothing but the sign of a list's item stands before, on this line."""
        self._look()
        return _ITEM.fullmatch(self._start) is not None

    @property
    def in_sentence(self) -> bool:
        """Return whether a sentence that was begun on this line has come to a blank."""
        before = self.last
        if before[-1:] not in (" ", "\t", "(") or not before.strip():
            return False
        return not before.rstrip().endswith(SENTENCE_ENDS)

    @property
    def spoken(self) -> bool:
        """Return whether any mark that stands here is quoted, not meant: in code, or right behind an opening quotation mark."""
        self._look()
        return self._code() is not None or self._quotes.begins_here

    def quotation(self) -> re.Pattern[str] | None:
        """Return what must follow a call here for it to be quoted; None where nothing suggests that it is."""
        self._look()
        if (code := self._code()) is not None:
            return code
        if self._fence:
            return None  # the call stands right behind the end of the block
        if self._start.lstrip().startswith("|"):
            return _CELL_END
        if self._begun and self._after_blank and _INDENTED.match(self._start):
            return _UNINDENTED
        return self._quotes.closing() or self._sign()

    def _sign(self) -> re.Pattern[str] | None:
        """Return what must follow where the beginning of the line shows what stands in it; None where it does not."""
        if _COMMENT.fullmatch(self._start):
            return _TEXT
        if _SHOWN.fullmatch(self._start) or _COMMENTED.fullmatch(self._start) or self._in_shown:
            return NEVER
        if self._begun and _ROLE.fullmatch(self._start):
            return NEVER
        if _LISTED.fullmatch(self._start) and not self._last.rstrip().endswith(SENTENCE_ENDS):
            return NEVER
        return _DIFF_GOES_ON if _DIFF.match(self._start) else None

    def passes(self, mark: str, ends: tuple[str, ...], *, call: bool) -> bool:
        """Return whether ``mark``, which comes next, is only spoken of.

        ``ends`` are the marks that end a call it begins. What may be a quotation is enough for a ``call``.
        """
        self._look()
        if self._quoted is not None:
            if mark in self._quoted:
                self._quoted = None
            return True
        if not (self.spoken or (call and self.quotation() is not None)):
            return False
        code = self._code()
        if code is not ANYTHING:
            self._quoted, self._marked, self._spanned = ends, len(mark), code is _TICK
            self._in_shown = code is None and self._sign() is not None
        return True

    def _code(self) -> re.Pattern[str] | None:
        """Return what must follow for this to be Markdown's code or block quote; None where it is neither."""
        if self._fence:
            return None if self._closes_fence() else ANYTHING
        match = _FENCE.match(self._start)
        if match is not None and self._span == len(match[1]):
            return ANYTHING
        if self._span:
            return _TICK
        if self._start.lstrip().startswith("~~~"):
            return ANYTHING
        return _IN_QUOTE if self._is_quote() else None

    def _is_quote(self) -> bool:
        start = self._start.lstrip()
        return start[:1] == ">" and not start.startswith(">>>")

    def _closes_fence(self) -> bool:
        match = _FENCE.match(self._start)
        return bool(self._fence and match and match[1].startswith(self._fence) and not self._start[match.end() :].strip())

    def _look(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if not text:
            return
        if self._marked:
            after = text[self._marked :]
            if after[:1] in QUOTED_ENDS or (self._is_quote() and goes_on(after)):  # the quotation is of the mark alone
                self._quoted = None
            elif len(text) <= self._marked:
                self._text.append(text)
                return
            self._marked = 0
        if self._quoted and any(end in text for end in self._quoted):
            self._quoted = None  # not all ends are marks that text is searched for
        first, *lines = text.split("\n")
        self._add(first)
        for line in lines:
            self._end_line()
            self._add(line)

    def _add(self, piece: str) -> None:
        if not piece:
            return
        for part in _TICKS.split(piece):
            if part[:1] == "`":
                if self._spanned and self._span == len(part):
                    self._quoted, self._spanned = None, False
                self._span = len(part) if not self._span else 0 if self._span == len(part) else self._span
                if not self._fence:
                    self._wide = len(part) if not self._wide else 0 if self._wide == len(part) else self._wide
            elif not (self._fence or self._span):
                self._quotes.feed(part)
        self._last = (self._last + piece[-_LAST:])[-_LAST:]
        if len(self._start) < _LOOKED_AT:
            self._start += piece[: _LOOKED_AT - len(self._start)]

    def _end_line(self) -> None:
        if self._quoted == ():
            self._quoted = None
        blank = not self._start.strip()
        match = _FENCE.match(self._start)
        if self._closes_fence():
            self._fence = ""
        elif match is not None and not self._fence and (match[1][0] == "~" or self._span == len(match[1])):
            self._fence = match[1]
        self._after_blank = blank or (self._after_blank and _INDENTED.match(self._start) is not None)
        self._begun = self._begun or not blank
        self._in_shown = False
        if not blank:
            bold = _BOLD.match(self._start) is not None and self._last.endswith("**")
            self._titled = bold or _TITLE.match(self._start) is not None
        self._quotes.end_line(blank=blank)
        if blank or self._fence or match is not None:
            self._wide = 0
        self._lazy = not (blank or self._fence or match) and (
            _PARAGRAPH.match(self._start) is not None if self._is_quote() else self._lazy
        )
        self._start, self._span, self._last, self._spanned = "", 0, "", False


def goes_on(text: str) -> bool:
    """Return whether ``text`` goes on with a sentence that has come to a mark, and does not begin a call."""
    return _GOES_ON.match(text) is not None


def without_code(text: str) -> str:
    """``text`` with its code and quotations left out."""
    if "`" in text or "~~~" in text:
        text = _SPAN.sub("", FENCED.sub("\n", text))
    return _BLOCK_QUOTE.sub("", text) if ">" in text else text


def end_of_quoted(text: str, end: int, ends: Iterable[str], closing: re.Pattern[str]) -> int:
    """Return where quoted call text ends whose mark ends at ``end``; -1 where ``closing`` does not end the quotation.

    ``ends`` are the marks that end a call which the mark begins; where there is none, it ends with the line. It may be the mark
    alone that is quoted.
    """
    line = text.find("\n", end)
    line = line if line >= 0 else len(text)
    if text[end : end + 1] in QUOTED_ENDS or "`" in text[end:line]:
        return end
    if closing is ANYTHING:
        return line
    found = [place + len(one) for one in ends or ("\n",) if (place := text.find(one, end)) >= 0]
    stop = min(found, default=line)
    if closing is _IN_QUOTE and _LAZY.search(text, end, stop - 1):
        return -1  # the quote may have ended before the call
    return stop if not found or closing.search(text, stop) else -1
