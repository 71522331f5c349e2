"""The parser's position in the text, and the gaps between tokens: blanks, comments, newlines, here-documents' bodies.

Everything works with offsets and compiled patterns; the rest of the text is never copied, so that parsing stays linear.
"""

from __future__ import annotations

import re
from typing import NoReturn, Self

from toolcrib.contract.regex import Regex
from tools.judge.shell.errors import ShellSyntaxError, ShellTooComplex
from tools.judge.shell.heredocs import Heredoc, read_body
from tools.judge.shell.tree import Part, Quoted, Script, Word

BLANKS = Regex(r"(?:[ \t]|\\\n)*+(?:#[^\n]*+)?")
_BEGIN_BLANKS = frozenset(" \t\\#")
ENDED = r"(?=(?:\\\n)*+(?:[ \t\n;&|()<>]|\Z))"
"""Part of a pattern: a word ends here."""
IS_ENDED = Regex(ENDED)
LATE = " (bash reports this only when it runs that part)"
AND_OR_LIMIT = 8
"""Maximum number of consecutive ``&&`` and ``||``, as a multiple of the depth budget: each makes the tree one level deeper."""


class Cursor:
    __slots__ = (
        "arithmetic_not", "depth", "doubles", "first", "heredocs", "in_substitution", "last", "late", "limit", "line",
        "line_mark", "many_lines", "opened", "pos", "reserved_next", "scale", "seen_case", "spliced", "text",
    )  # fmt: skip

    def __init__(self, text: str, limit: int, *, depth: int = 0, outer: tuple[int, int] | None = None, line: int = 0) -> None:
        self.text = text
        self.pos = 0
        self.limit = limit
        self.depth = depth
        self.heredocs: list[Heredoc] = []
        """Here-documents whose body starts after the next newline."""
        self.seen_case = False
        self.in_substitution = 0
        self.reserved_next = False
        """True if a reserved word may follow the last token without a separator, as in ``{ (a) }``."""
        self.opened = -1
        """Offset of the first command in the substitution read last."""
        self.spliced = False
        """True if a line continuation was inside the last word."""
        self.arithmetic_not: set[int] = set()
        """Offsets of ``((`` that start nested subshells. They are stored so that nesting does not double the work."""
        self.doubles: dict[int, int] = {}
        """Start and end of each pair of double quotes that is not empty."""
        self.line = line
        self.line_mark = 0
        self.many_lines = "\n" in text
        self.late = LATE if outer else ""
        # A text within a text (backquotes, a here-document) has no offsets of its own: scale 0 gives those of the outer one.
        self.scale = 0 if outer else 1
        self.first, self.last = outer or (0, 0)

    # -- errors and limits

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        at = self.pos if offset is None else offset
        raise ShellSyntaxError(message + self.late, at * self.scale + self.first)

    def unexpected(self) -> NoReturn:
        match = re.compile(r"[;&|<>]+|[^\s;&|<>()]+|.", re.DOTALL).match(self.text, self.pos)
        self.fail(f"unexpected {match.group()[:40]!r}" if match else "unexpected end of the text")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > self.limit:
            raise ShellTooComplex("depth", self.pos * self.scale + self.first)

    # -- a text within this one

    def within(self, text: str, start: int, end: int) -> Self:
        """Return a parser for text that had to be unescaped first and is therefore not a slice of this one."""
        outer = (start * self.scale + self.first, end * self.scale + self.last)
        inner = type(self)(text, self.limit, depth=self.depth, outer=outer, line=self.line_at(start))
        inner.deeper()
        return inner

    def here_document(self) -> list[Part]:
        """Return the parts of a here-document's body, which is the whole text."""
        raise NotImplementedError

    def script(self) -> Script:
        """Read commands up to a token that cannot start one. The caller handles that token."""
        raise NotImplementedError

    # -- between tokens

    def line_at(self, pos: int) -> int:
        if self.many_lines:
            if pos >= self.line_mark:
                self.line += self.text.count("\n", self.line_mark, pos)
            else:
                self.line -= self.text.count("\n", pos, self.line_mark)
            self.line_mark = pos
        return self.line

    def blanks(self) -> str:
        """Skip blanks, continuations and a comment; return the next character, "" at the end."""
        char = self.text[self.pos : self.pos + 1]
        if char not in _BEGIN_BLANKS:
            return char
        match = BLANKS.match(self.text, self.pos)
        if match:
            self.pos = match.end()
        return self.text[self.pos : self.pos + 1]

    def newlines(self) -> str:
        """Skip blanks, comments and newlines; return the next character."""
        char = self.blanks()
        while char == "\n":
            self.newline()
            char = self.blanks()
        return char

    def newline(self) -> None:
        self.pos += 1
        if self.heredocs:
            self.gather()

    def gather(self) -> None:
        """Read the bodies of the here-documents begun by the line that just ended."""
        pending, self.heredocs = self.heredocs, []
        for heredoc in pending:
            start = self.pos
            if start and self.text[start - 1] != "\n" and start < len(self.text):
                self.fail("a here-document after one that a parenthesis ended")
            body, self.pos = read_body(self.text, self.pos, heredoc, self.in_substitution > 0, self.fail)
            if heredoc.quoted or not ("$" in body or "`" in body or "\\" in body):
                parts: list[Part] = [Quoted(body)] if body else []
            else:
                parts = self.within(body, heredoc.start, self.pos).here_document()
            heredoc.redirect.target = Word(parts, start * self.scale + self.first, self.pos * self.scale + self.last)

    def operator(self, length: int) -> None:
        """Step over an operator. Refuse one that a line continuation splits: bash joins its parts, while this parser would read
        two operators.
        """
        self.pos += length
        text, pos = self.text, self.pos
        if text.startswith("\\\n", pos):
            while text.startswith("\\\n", pos):
                pos += 2
            if text[pos : pos + 1] in "&|;<>(-":
                self.fail("an operator is split by a line continuation")

    def at_word(self, word: str) -> bool:
        """Return whether the reserved word is at the position."""
        return self.text.startswith(word, self.pos) and IS_ENDED.match(self.text, self.pos + len(word)) is not None

    def expect(self, word: str) -> None:
        self.blanks()
        if not self.at_word(word):
            self.fail(f"expected {word!r}")
        self.pos += len(word)
