"""Quotations, comments and elements that contain code, tracked in streamed prose: text in an open one is quoted."""

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
"""Opening quotation marks, and the characters that end each."""
_LOOKED_AT = 120
"""Number of characters kept of a line's beginning: enough to show whether the line is a tag."""
_APOSTROPHES = "'\u2019"
_OF_PARAGRAPH, _OF_LINE = '"', "'\u2018"
_SHOWS = r"(?:pre|code|samp|kbd|tt|xmp|textarea|listing|blockquote)"
_SIGN = re.compile(
    rf"[{''.join(_CLOSERS)}\u2019\u300d\u300f]|<!--|-->|/\*|\*/|<{_SHOWS}\b[^<>\n]*>|</[A-Za-z][\w:-]*>|\\end\{{\w+\*?\}}"
)
_ELEMENT = re.compile(r"<(?P<tag>[A-Za-z][\w:-]*)(?:\s[^<>]*)?(?<!/)>|\\begin\{(?P<environment>\w+\*?)\}(?:\[[^\]]*\])?")
"""A line that begins an element: text before the element's end is shown, not meant."""
_RESULT = r"\w*(?:response|result|output)s?>"
_MARKS = re.compile(rf"</(?:(?!{_RESULT})[\w:-]*(?:tool|call|function|invoke|param)[\w:-]*|think)>", re.IGNORECASE)
"""Ends of elements that wrap real calls."""
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "p", "li"))
_SILENT = re.compile(rf"</{_SHOWS}>|\\end\{{(?:verbatim|lstlisting|minted)\*?\}}")
"""Ends of elements that only show text; in any other element a call may be meant, and the model gets a fault."""
NEVER = re.compile(r"(?!)")
AFTER = frozenset("\"'\u201d\u201c\u2019\u00bb\u00ab\u300d\u300f`")
"""Marks that, right after a call, show that it was quoted."""
_AFTER = re.compile(r"[)}\]]|-->|\*/|\\end\{|[-=*_]{3}|</[A-Za-z][\w:-]*>")
_WRAPPERS = ("</response>", "</answer>", "</assistant>")
_AFTER_YET = re.compile(r"[-=*_]{1,2}|\\(?:e|en|end)?|<(?:/[\w:-]{0,40})?")
SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")


@lru_cache(maxsize=64)
def _pattern(closer: str) -> re.Pattern[str]:
    return re.compile(closer)


def ends_example(text: str) -> bool | None:
    """Return whether the text right after a call ends a quotation or element around it; None if more text is needed."""
    if text[0] in AFTER:
        return True
    if match := _AFTER.match(text):
        return not (_MARKS.fullmatch(match[0]) or match[0] in _WRAPPERS)
    return None if _AFTER_YET.fullmatch(text) else False


class Quotes:
    """State of quotations. ``begins_here``: the last character opened the quotation."""

    def __init__(self) -> None:
        self._open = ""
        self._comment = ""  # the end of the comment
        self._elements: list[str] = []  # their ends
        self._line = ""
        self._last = "\n"
        self.begins_here = False

    def feed(self, text: str) -> None:
        """Add prose of one line, without its line end."""
        for match in _SIGN.finditer(text):
            sign, at = match[0], match.start()
            before = text[at - 1] if at else self._last
            if len(sign) > 1:
                self._tag(sign, begins_line=not (self._line + text[:at]).strip())
            else:
                self._quote(sign, before, text[match.end() : match.end() + 1])
            self.begins_here = match.end() == len(text) and self._open == sign
        if text:
            self.begins_here = self.begins_here and text[-1] == self._open
            self._last = text[-1]
            self._line += text[: _LOOKED_AT - len(self._line)]

    def end_line(self, *, blank: bool) -> None:
        """Handle the end of a line: straight double quotation marks end with their paragraph, single ones with their line."""
        if self._open and (self._open in _OF_LINE or (blank and self._open in _OF_PARAGRAPH)):
            self._open = ""
        if not self._comment and (element := _ELEMENT.fullmatch(self._line.strip())):
            tag = element["tag"]
            end = f"</{tag}>" if tag else f"\\end{{{element['environment']}}}"
            if not tag or not (tag in _VOID or _MARKS.fullmatch(end) or _SILENT.fullmatch(end)):
                self._elements.append(end)
        self._line, self._last, self.begins_here = "", "\n", False

    def closing(self) -> re.Pattern[str] | None:
        """Return a pattern for the end of the innermost open quotation, comment or element; None if nothing is open."""
        if self._comment:
            return _pattern(re.escape(self._comment))
        if self._elements:
            end = self._elements[-1]
            return _pattern(re.escape(end)) if _SILENT.fullmatch(end) else NEVER
        return _pattern(f"[{_CLOSERS[self._open]}]") if self._open else None

    def _tag(self, sign: str, *, begins_line: bool) -> None:
        if self._comment:
            self._comment = "" if sign == self._comment else self._comment
        elif sign == "<!--":
            self._comment = "-->"
        elif sign == "/*":
            self._comment = "*/" if begins_line else ""
        elif sign in self._elements:
            del self._elements[self._elements.index(sign) :]
        elif sign[0] == "<" and sign[1] != "/":
            self._elements.append(f"</{sign[1:-1].split()[0]}>")

    def _quote(self, sign: str, before: str, after: str) -> None:
        if self._open:
            inside_word = sign in _APOSTROPHES and after.isalnum()
            if sign in _CLOSERS[self._open] and not inside_word:
                self._open = ""
        elif sign in _CLOSERS and not (sign in "\"'" and (before.isalnum() or before in ")]}>")):
            self._open = sign
