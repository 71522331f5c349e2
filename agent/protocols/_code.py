"""Markdown code and quotations in a reply: a mark inside them is only mentioned."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.protocols._quotes import AFTER as QUOTED_ENDS
from agent.protocols._quotes import NEVER, SENTENCE_ENDS, Quotes

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LAST = 4
_LOOKED_AT = 40
"""Number of characters kept of a line's beginning: enough to show whether a code block begins or ends there."""
FENCED = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
EMPTY_ELEMENT = re.compile(r"""<\w+ name\s*=\s*(?:"[^"<>]*"|'[^'<>]*')(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*/>""")
"""An empty element with a ``name`` attribute: markup, not a call."""
_SPAN = re.compile(r"(`+)[^`\n]+\1")
_BLOCK_QUOTE = re.compile(r"^[ \t]*>(?!>>)[^\n]*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"[ \t>]*(?![ \t>]|#|`{3}|~{3}|\Z)")
"""Beginning of a line in a block quote whose paragraph the next line may continue without a ``>``."""


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
"""Beginnings of a line, up to a call, that make the call a part of a list, a prompt, an expression or a note."""
_LISTED = re.compile(rf"{_ITEM.pattern}.*|[ \t]*\[?(?:\d{{4}}-\d\d-\d\d|\d\d:\d\d:\d\d).*")
"""Beginnings of a line of a list or a log, which may have words before a call."""
_ROLE = re.compile(r"[ \t]*[*_]*(?:user|human|assistant|model|ai|system|tool|q|a)[*_]*[ \t]*:[*_]*[ \t]*", re.IGNORECASE)
_TITLE, _BOLD = re.compile(r"[ \t]*#{1,6}[ \t]"), re.compile(r"[ \t]*\*\*")
_GOES_ON = re.compile(r"[ \t]+[^\s<\[{]|[.,;:)?!]")


class CodeState:
    """Tracks streamed text: code blocks, and code spans, quotations and block quotes of the current line.

    Text is analysed only when its state is needed: most replies have no marks.
    """

    def __init__(self) -> None:
        self._text: list[str] = []  # not analysed yet
        self._start = ""
        self._span = 0  # backticks that opened the code span of this line
        self._wide = 0  # backticks that opened a code span in this paragraph
        self._lazy = False  # the previous line is in a block quote's paragraph, so this one is too
        self._spanned = False  # the quoted mark is in the code span of this line
        self._fence = ""
        self._quoted: tuple[str, ...] | None = None  # the marks that end a quotation of call text; an empty tuple: the line's end
        self._quotes = Quotes()
        self._begun = False
        self._after_blank = False  # the previous line is blank, or indented code
        self._marked = 0  # characters of the quoted mark that are still to come
        self._last = ""
        self._in_shown = False  # the line's beginning marks the whole line as shown
        self._titled = False
        self.feed = self._text.append

    def interrupt(self) -> None:
        """Handle a call or an end of a turn: the text after it begins a line."""
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
        """Return whether this is the beginning of a line, and the last non-blank line is a title."""
        return self.begins_line and self._titled

    @property
    def may_be_code(self) -> bool:
        """Return whether backticks in this paragraph opened a code span, which holds only if its end follows."""
        self._look()
        return self._wide > 0

    @property
    def in_lazy_quote(self) -> bool:
        """Return whether this line continues the paragraph of a block quote without a ``>``."""
        self._look()
        return self._lazy

    @property
    def in_item(self) -> bool:
        """Return whether this line has only a list item's bullet so far."""
        self._look()
        return _ITEM.fullmatch(self._start) is not None

    @property
    def in_sentence(self) -> bool:
        """Return whether this place is within a sentence on its line, after a blank or an opening parenthesis."""
        before = self.last
        if before[-1:] not in (" ", "\t", "(") or not before.strip():
            return False
        return not before.rstrip().endswith(SENTENCE_ENDS)

    @property
    def spoken(self) -> bool:
        """Return whether any mark here is quoted: in code, or right after an opening quotation mark."""
        self._look()
        return self._code() is not None or self._quotes.begins_here

    def quotation(self) -> re.Pattern[str] | None:
        """Return a pattern that must follow a call here if it is quoted; None if nothing suggests that it is."""
        self._look()
        if (code := self._code()) is not None:
            return code
        if self._fence:
            return None  # the call is right after the end of the block
        if self._start.lstrip().startswith("|"):
            return _CELL_END
        if self._begun and self._after_blank and _INDENTED.match(self._start):
            return _UNINDENTED
        return self._quotes.closing() or self._sign()

    def _sign(self) -> re.Pattern[str] | None:
        """Return a pattern that must follow if the line's beginning marks its content as shown; None if it does not."""
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
        """Return whether ``mark``, which comes next, is only mentioned.

        ``ends`` are the marks that end a call which ``mark`` begins. If a ``call`` begins there, a possible quotation is enough.
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
        """Return a pattern that must follow if this is Markdown's code or block quote; None if it is neither."""
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
            if after[:1] in QUOTED_ENDS or (self._is_quote() and goes_on(after)):  # only the mark itself is quoted
                self._quoted = None
            elif len(text) <= self._marked:
                self._text.append(text)
                return
            self._marked = 0
        if self._quoted and any(end in text for end in self._quoted):
            self._quoted = None  # the reader calls ``passes`` only for some ends
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
    """Return whether ``text`` continues a sentence that contains a mark, and does not begin a call."""
    return _GOES_ON.match(text) is not None


def without_code(text: str) -> str:
    """Return ``text`` without its code and block quotes."""
    if "`" in text or "~~~" in text:
        text = _SPAN.sub("", FENCED.sub("\n", text))
    return _BLOCK_QUOTE.sub("", text) if ">" in text else text


def end_of_quoted(text: str, end: int, ends: Iterable[str], closing: re.Pattern[str]) -> int:
    """Return the end of quoted call text whose mark ends at ``end``; -1 if ``closing`` does not end the quotation.

    ``ends`` are the marks that end a call which the mark begins; without any, the call ends with the line. If only the mark
    is quoted, the result is ``end``.
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
        return -1  # the block quote may have ended within the call
    return stop if not found or closing.search(text, stop) else -1
