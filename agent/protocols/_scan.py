"""Finds the end of a block of call text in one pass over pieces of any size; closing tags inside strings don't count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import StringIO
from typing import Protocol

from toolcrib.contract.namedtuple import NamedTuple

_PAIRS = {"}": "{", "]": "[", ")": "("}
_AFTER_STRING = ",:}])"
_BEFORE_SINGLE = "{[,:(="
_BEFORE_STRING = ("", *"{[,:(=>")
_BLANKS = 64
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


class Cut(NamedTuple):
    """A block: its text, the text after it, whether its closing tag was found, whether its JSON is complete, and the tag."""

    body: str
    rest: str
    closed: bool
    complete: bool
    mark: str = ""


class Scanner(Protocol):
    def feed(self, text: str, *, final: bool = False) -> Cut | None:
        """Return the cut once it is found. With ``final``, no text follows, so that there always is a cut."""
        ...


def _tree(marks: Sequence[str]) -> str:
    """Return a pattern for any of the marks, grouped by first characters: plain alternatives take ten times as long."""
    groups: dict[str, list[str]] = {}
    for mark in marks:
        groups.setdefault(mark[:1], []).append(mark[1:])
    ends = groups.pop("", None) is not None
    parts = [re.escape(first) + (re.escape(rest[0]) if len(rest) == 1 else _tree(rest)) for first, rest in groups.items()]
    if not parts:
        return ""
    return f"(?:{'|'.join(parts)}){'?' if ends else ''}" if len(parts) > 1 or ends else parts[0]


_SUFFIX = r"[\w-]{1,24}>"
_SUFFIX_SIZE = 25
_SUFFIX_YET = re.compile(r"[\w-]{0,24}")


class Tokens:
    """Literal strings: a pattern for any of them, which finds the longest one, and a check for a partial one.

    ``stems`` begin tags that a model ends with a suffix of its own: ``<tool_call:`` begins ``<tool_call:ab12>``.
    """

    def __init__(self, tokens: Iterable[str], more: str = "", stems: tuple[str, ...] = ()) -> None:
        self.all = tuple(dict.fromkeys(tokens))
        self._stems = stems
        parts = [_tree(self.all)] if self.all else []
        parts += [_tree(stems) + _SUFFIX] if stems else []
        self.pattern = re.compile("|".join([*parts, *([more] if more else [])]) or r"(?!)")
        self._prefixes = {mark[:size] for mark in (*self.all, *stems) for size in range(1, len(mark))}
        sizes = [len(mark) for mark in self.all] + [len(stem) + _SUFFIX_SIZE for stem in stems]
        self._longest = max(sizes, default=1) - 1
        firsts = "".join({re.escape(mark[0]) for mark in (*self.all, *stems)})
        self._first = re.compile(f"[{firsts}]" if firsts else r"(?!)")

    def held(self, text: str) -> int:
        """Return how many characters at the end of ``text`` may begin a mark."""
        if not self._longest:
            return 0
        size = len(text)
        at = size - self._longest
        while match := self._first.search(text, max(at, 0)):
            at = match.start()
            if text[at:] in self._prefixes or any(
                text.startswith(stem, at) and _SUFFIX_YET.fullmatch(text, at + len(stem)) for stem in self._stems
            ):
                return size - at
            at += 1
        return 0


@lru_cache(maxsize=256)
def tokens_of(tokens: tuple[str, ...], more: str = "", stems: tuple[str, ...] = ()) -> Tokens:
    """Return the tokens, cached: a reply may have thousands of blocks."""
    return Tokens(tokens, more, stems)


class _Pieces:
    """The text that was scanned already, and its size."""

    def __init__(self) -> None:
        self.text = StringIO()
        self.size = 0
        self.buffer = ""

    def take(self, count: int) -> None:
        self.text.write(self.buffer[:count])
        self.size += count
        self.buffer = self.buffer[count:]

    def cut(self, start: int, end: int, *, closed: bool, complete: bool) -> Cut:
        """Return the final cut. Offsets are from the beginning of the block."""
        buffer, end = self.buffer, end - self.size
        if start < self.size:
            self.text.write(buffer)
            whole = self._all()
            return Cut(whole[:start], whole[self.size + end :], closed, complete, whole[start : self.size + end])
        self.text.write(buffer[: start - self.size])
        return Cut(self._all(), buffer[end:], closed, complete, buffer[start - self.size : end])

    def _all(self) -> str:
        whole = self.text.getvalue()
        self.text.close()  # frees its copy before the call is read
        return whole


class JsonScanner:
    """Scanner of a block that contains JSON, or calls in Python syntax.

    A closing tag inside a string is part of the string, unless the text turns out not to be JSON: then the tag was the block's
    end. ``peek`` are closing tags that remain in the rest. ``at_value``: the block ends with its first value. ``first``:
    characters that may begin a value.
    """

    def __init__(self, closers: Sequence[str], *, peek: Sequence[str] = (), at_value: bool = False, first: str = "{[") -> None:
        self._closers = (*closers, *peek)
        self._peek = frozenset(peek)
        self._outer = tokens_of(self._closers, "[" + re.escape(first) + "]")
        self._middle = tokens_of(self._closers, r"[\"'{}\[\]()]")
        self._inner = {quote: tokens_of(self._closers, rf"\\|{quote}") for quote in "\"'"}
        self._plain = tokens_of(self._closers)
        self._at_value = at_value
        self._text = _Pieces()
        self._stack: list[str] = []
        self._quote = ""
        self._after = False  # a string has just ended
        self._last = ""  # the last non-blank character outside of strings
        self._candidate: tuple[int, int] | None = None  # the first closing tag inside the current value's strings
        self._broken = False
        self._complete = False

    def feed(self, text: str, *, final: bool = False) -> Cut | None:
        self._text.buffer += text
        at = 0
        while True:
            tokens = self._tokens()
            buffer = self._text.buffer
            match = tokens.pattern.search(buffer, at)
            end = match.start() if match else len(buffer) - (0 if final else tokens.held(buffer[at:]))
            if not self._between(buffer[at:end]):
                if self._candidate is not None:
                    return self._end(*self._candidate, closed=True)
                at = end
                continue
            if match is None:
                break
            cut, at = self._token(match, final=final)
            if cut is not None:
                return cut
            if at < 0:
                end = match.start()
                break
        self._text.take(end)
        return self._rest() if final else None

    def _tokens(self) -> Tokens:
        if self._broken:
            return self._plain
        if self._quote:
            return self._inner[self._quote]
        return self._middle if self._stack else self._outer

    def _between(self, text: str) -> bool:
        """Handle text without tokens; return False if the text is invalid there, so that the block is not JSON."""
        if self._quote or self._broken or not self._stack:
            return True
        text = text.strip()
        if not text:
            return True
        self._last = text[-1]
        if self._after and text[0] not in _AFTER_STRING:
            self._broken = True
            return False
        self._after = False
        return True

    def _token(self, match: re.Match[str], *, final: bool) -> tuple[Cut | None, int]:
        """Return the cut, and the position to continue at; -1 if more text is needed."""
        mark, start, end = match[0], match.start(), match.end()
        place = self._text.size + start
        if mark == "\\" and self._quote:
            if end < len(self._text.buffer):
                return None, end + 1
            return (None, end) if final else (None, -1)
        if mark in self._closers:
            if self._quote:
                self._candidate = self._candidate or (place, place if mark in self._peek else place + len(mark))
                return None, end
            return self._end(place, place if mark in self._peek else place + len(mark), closed=True), end
        if self._quote:
            self._quote, self._after, self._last = "", True, mark
            return None, end
        return self._structure(mark, place), end

    def _structure(self, mark: str, place: int) -> Cut | None:
        if self._after and mark not in _PAIRS:
            return self._break()
        if mark in "\"'":
            if mark == '"' or self._last in _BEFORE_SINGLE:
                self._quote = mark
        elif mark in _PAIRS:
            if self._stack.pop() != _PAIRS[mark]:
                return self._break()
            if not self._stack:
                self._complete, self._candidate = True, None
                if self._at_value:
                    return self._end(place + 1, place + 1, closed=True)
        else:
            self._stack.append(mark)
            self._complete = False
        self._after, self._last = False, mark
        return None

    def _break(self) -> Cut | None:
        self._broken = True
        return None if self._candidate is None else self._end(*self._candidate, closed=True)

    def _end(self, start: int, end: int, *, closed: bool) -> Cut:
        return self._text.cut(start, end, closed=closed, complete=self._complete and not self._broken)

    def _rest(self) -> Cut:
        size = self._text.size + len(self._text.buffer)
        return self._end(size, size, closed=False)

    @property
    def open_list(self) -> bool:
        """True if only the list of calls is not closed: each call in it is complete."""
        return not self._broken and not self._quote and self._stack == ["["] and self._last == "}"


class TagScanner:
    """Scanner of a block whose arguments have tags of their own: a closing tag in an argument's text is part of the argument.

    ``shields`` are (opening, closing) tags of arguments; ``peek`` are marks that also end the block, and remain in the rest.
    CDATA is text.
    """

    def __init__(self, closers: Sequence[str], shields: Sequence[tuple[str, str]] = (), *, peek: Sequence[str] = ()) -> None:
        self._closers = tuple(closers)
        self._shields = dict(shields)
        self._peek = tuple(peek)
        self._outer = tokens_of((*closers, *peek, *self._shields))
        self._text = _Pieces()
        self._until = ""
        self._in_cdata = False
        self._candidate: tuple[int, int] | None = None
        self._again = False  # another argument began after the candidate: the current one lacks its end
        self._before = ""  # the last character of the text that was scanned

    def feed(self, text: str, *, final: bool = False) -> Cut | None:
        self._text.buffer += text
        at = 0
        while True:
            tokens, buffer = self._tokens(), self._text.buffer
            match = tokens.pattern.search(buffer, at)
            if match is None:
                break
            at = match.end()
            cut = self._token(match[0], self._text.size + match.start())
            if cut is not None:
                return cut
        size = max(at, len(buffer) - (0 if final else tokens.held(buffer[at:])))
        self._before = buffer[max(0, size - _BLANKS) : size].rstrip()[-1:] or self._before
        self._text.take(size)
        if not final:
            return None
        return self._text.cut(self._text.size, self._text.size, closed=False, complete=False)

    def _tokens(self) -> Tokens:
        if self._in_cdata:
            return tokens_of((_CDATA_END,))
        if not self._until:
            return self._outer
        return tokens_of((self._until, *self._closers, *self._shields, _CDATA))

    def _token(self, mark: str, place: int) -> Cut | None:
        if mark in (_CDATA, _CDATA_END):
            self._in_cdata = mark == _CDATA
        elif self._until and mark == self._until:
            if self._candidate is not None and self._again:
                return self._text.cut(*self._candidate, closed=True, complete=False)
            self._until, self._candidate, self._again = "", None, False
        elif mark in self._closers:
            if not self._until:
                return self._text.cut(place, place + len(mark), closed=True, complete=False)
            self._candidate = self._candidate or (place, place + len(mark))
        elif self._until:
            self._again = self._again or self._candidate is not None
        elif mark in self._peek:
            return self._text.cut(place, place, closed=True, complete=False)
        elif self._shields[mark] != mark or self._opens(place):
            self._until = self._shields[mark]
        return None

    def _opens(self, place: int) -> bool:
        """Return whether the quoting mark at ``place`` begins a string: after text, it ends a string that lacks its beginning."""
        at = place - self._text.size
        before = self._text.buffer[max(0, at - _BLANKS) : at].rstrip()[-1:] or self._before
        return before in _BEFORE_STRING
