"""Words: quoting, continuations, patterns, process substitutions, and backquotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from toolcrib.contract.regex import Regex
from tools.judge.shell import modes
from tools.judge.shell.ansi import decode
from tools.judge.shell.cursor import Cursor
from tools.judge.shell.modes import Mode
from tools.judge.shell.tree import CommandSub, Double, ExtGlob, Part, ProcessSub, Quoted, Word

SINGLE = Regex(r"'([^']*)'")
CONSTANT_DOUBLE = Regex(r'"([^"\\$`]*+)"')
ANSI = Regex(r"\$(?:\\\n)*'((?:[^'\\]|\\.)*+)'", re.DOTALL)
UNCOUNTED = Regex(r"""[^\\'"`$()\[\]]++|\\.|\$'(?:[^'\\]|\\.)*+'|'[^']*'|`(?:[^`\\]|\\.)*+`|\$""", re.DOTALL)
BACKQUOTED = Regex(r"`((?:[^`\\]|\\.)*+)`", re.DOTALL)
BACKQUOTE_ESCAPE = Regex(r"\\([`\\$])")
BACKQUOTE_ESCAPE_IN_DOUBLE = Regex(r'\\([`\\$"])')
LITERAL_QUOTES = Regex(r"""'[^'"\\`$}]*'|"[^'"\\`$}]*\"""")
GLOB = frozenset("?*+@!")


class Words(Cursor):
    __slots__ = ()

    readers: ClassVar[Mapping[str, Callable[[Any, Mode], Part | str]]]
    """Readers of special constructs, by first character. A reader returns a part, or literal text."""

    def word(self) -> Word:
        """Return the word that starts here; it must not be empty."""
        start = self.pos
        self.spliced = False
        parts = self.parts(modes.WORD)
        if self.pos == start:
            self.unexpected()
        return self.make(parts, start)

    def make(self, parts: list[Part], start: int) -> Word:
        return Word(parts, start * self.scale + self.first, self.pos * self.scale + self.last)

    def parts(self, mode: Mode) -> list[Part]:
        """Read the parts of a word up to one of the mode's ends. The caller handles the end."""
        text, run, ends, readers = self.text, mode.run.match, mode.ends, self.readers
        out: list[Part] = []
        plain: list[str] = []
        nest = outermost = 0
        while True:
            match = run(text, self.pos)
            if match:
                plain.append(match.group())
                self.pos = match.end()
            char = text[self.pos : self.pos + 1]
            glob = char == "(" and mode.globs and plain and plain[-1][-1:] in GLOB
            if char in ends and not nest and not (glob or self.substitutes(char)):
                break
            if not char:
                self.fail(f"unclosed {mode.name}")
            if glob:
                kind, plain[-1] = plain[-1][-1], plain[-1][:-1]
                got: Part | str = self.extended_glob(kind)
            elif char in readers:
                got = readers[char](self, mode)
            else:
                if char == mode.opens:
                    outermost = outermost if nest else self.pos
                    nest += 1
                elif char == mode.closes:
                    nest -= 1
                    if not nest and mode is modes.REGEX:
                        self.counted(outermost + 1, self.pos)
                self.pos += 1
                got = char
            if isinstance(got, str):
                plain.append(got)
                continue
            flush(out, plain, mode)
            out.append(got)
        flush(out, plain, mode)
        return out

    def substitutes(self, char: str) -> bool:
        """Return whether a process substitution starts here, which may be inside of a word too."""
        return (char == "<" or char == ">") and self.text.startswith("(", self.pos + 1)

    # -- readers

    def single(self, mode: Mode) -> Part | str:
        if not mode.single:
            return self.literal_quotes(mode)
        match = SINGLE.match(self.text, self.pos)
        if not match:
            self.fail("unclosed single quote")
        self.pos = match.end()
        return Quoted(match[1])

    def literal_quotes(self, mode: Mode) -> str:
        """Read quotes that are literal but must be paired: single in ``"${x:-'...'}"``, in a here-document also double."""
        match = LITERAL_QUOTES.match(self.text, self.pos)
        if not match:
            self.fail(f"quotes inside {mode.name}")
        self.pos = match.end()
        return match.group()

    def double(self, mode: Mode) -> Part | str:
        if mode is modes.HEREDOC_ARGUMENT:
            return self.literal_quotes(mode)
        match = CONSTANT_DOUBLE.match(self.text, self.pos)
        if match:
            self.pos = match.end()
            return Double([Quoted(match[1])] if match[1] else [])
        self.deeper()
        start = self.pos
        self.pos += 1
        parts = self.parts(modes.DOUBLE)
        self.pos += 1
        self.doubles[start] = self.pos
        self.depth -= 1
        return Double(parts)

    def ansi(self, mode: Mode) -> Part | str:
        """Read ``$'...'``."""
        match = ANSI.match(self.text, self.pos)
        if not match:
            self.fail("unclosed $'...'")
        decoded = decode(match[1])
        if mode.quoted and not decoded.isspace() and not decoded.isalnum():
            # Bash inserts the decoded text as if it had been written there, and parses it again.
            self.fail("$'...' inside ${...} inside double quotes")
        self.pos = match.end()
        return Quoted(decoded)

    def backslash(self, mode: Mode) -> Part | str:
        char = self.text[self.pos + 1 : self.pos + 2]
        if not char:
            self.fail("a backslash at the end of the text")  # would escape bash's next input
        self.pos += 2
        if char == "\n":
            self.spliced = True
            return ""
        if not mode.quoted:
            return Quoted(char)
        return char if char in mode.escapes else "\\" + char

    def backquote(self, mode: Mode) -> Part | str:
        """Read backquotes. Bash finds their end and removes backslashes first. It parses the text inside, and finds syntax errors
        there, only when it runs that text.
        """
        match = BACKQUOTED.match(self.text, self.pos)
        if not match:
            self.fail("unclosed backquote")
        source = match[1]
        if mode in (modes.DOUBLE_ARGUMENT, modes.HEREDOC_ARGUMENT) and '\\"' in source:
            self.fail("an escaped quote in backquotes inside ${...}")
        if "\\" in source:
            escape = BACKQUOTE_ESCAPE_IN_DOUBLE if mode is modes.DOUBLE else BACKQUOTE_ESCAPE
            source = escape.sub(r"\1", source)
        inner = self.within(source, self.pos, match.end())
        body = inner.script()
        if inner.pos < len(source):
            inner.unexpected()
        self.pos = match.end()
        return CommandSub(body)

    def process(self, mode: Mode) -> Part | str:
        char = self.text[self.pos]
        if not self.substitutes(char):
            self.pos += 1
            return char
        if not mode.processes:
            self.fail(f"a process substitution in {mode.name}")
        self.pos += 1
        return ProcessSub("<" if char == "<" else ">", self.substitution().body)

    def substitution(self) -> CommandSub:
        """Read from the ``(`` of ``$(``, ``<(`` or ``>(`` to its ``)``."""
        start = self.pos
        pending, self.heredocs = self.heredocs, []
        self.in_substitution += 1
        self.pos += 1
        self.blanks()
        self.opened = self.pos
        body = self.script()
        if not self.text.startswith(")", self.pos):
            if self.pos < len(self.text):
                self.unexpected()
            self.fail("unclosed command substitution", start)
        if self.heredocs:
            self.fail("a here-document starts in a command substitution and its body after it")
        self.in_substitution -= 1
        self.heredocs = pending
        self.pos += 1
        return CommandSub(body)

    def extended_glob(self, kind: str) -> Part:
        self.deeper()
        opened = self.pos + 1
        words: list[Word] = []
        while True:
            self.pos += 1
            start = self.pos
            words.append(self.make(self.parts(modes.ALTERNATIVE), start))
            if self.text[self.pos] == ")":
                break
        self.counted(opened, self.pos)
        self.pos += 1
        self.depth -= 1
        return ExtGlob(kind, words)  # type: ignore[arg-type]  # one of GLOB

    def counted(self, start: int, end: int, brackets: str = "()", *, script: bool = False) -> None:
        """Fail unless bash finds the same end: it counts the brackets before the end, also in expansions outside of quotes."""
        text = self.text
        if not script and text.find("$(", start, end) < 0 and text.find("${", start, end) < 0 and text.find("$[", start, end) < 0:
            return
        nest, pos = 0, start
        while pos < end:
            match = UNCOUNTED.match(text, pos, end)
            if match:
                pos = match.end()
                continue
            char = text[pos]
            if char == '"':
                constant = CONSTANT_DOUBLE.match(text, pos)
                pos = constant.end() if constant else self.doubles.get(pos, end + 1)
                continue
            nest += (char == brackets[0]) - (char == brackets[1])
            if nest < 0:
                break
            pos += 1
        if nest or pos != end:
            self.fail("brackets in an expansion that bash would count", start)


def flush(out: list[Part], plain: list[str], mode: Mode) -> None:
    if plain:
        text = "".join(plain) if len(plain) > 1 else plain[0]
        if text:
            out.append(mode.text(text))
        plain.clear()
