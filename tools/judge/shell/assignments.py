"""Assignments and arrays."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.shell import modes
from tools.judge.shell.cursor import IS_ENDED
from tools.judge.shell.expansions import Expansions
from tools.judge.shell.tree import Assignment, Compound, Part, Plain, Word
from tools.judge.shell.words import flush

START = Regex(r"([A-Za-z_][A-Za-z0-9_]*+)(\+?=|\[)")
EQUALS = Regex(r"\+?=")
ESCAPED = Regex(r"\\[;&|()<>'\"`]")
SPLIT_START = Regex(r"[A-Za-z_][A-Za-z0-9_]*(?:\+?=|\[)")
DECLARES = frozenset(["declare", "local", "export", "readonly", "typeset"])
ALSO_ASSIGN = frozenset(["eval", "let", "alias"])
"""Bash reads ``name=(...)`` after these too, but passes it on as text."""


class Assignments(Expansions):
    __slots__ = ()

    def word_or_assignment(self, *, leading: bool, arrays: bool) -> Word | Assignment:
        """Read a word, or an assignment if allowed: at the start of a command, or as an argument of ``declare``.

        ``leading``: a subscript may have blanks. ``arrays``: ``(...)`` may follow the ``=``.
        """
        text, start = self.text, self.pos
        match = START.match(text, start)
        if not match:
            word = self.word()
            self.no_split_assignment(word, start)
            return word
        self.pos = match.end()
        if match[2] != "[":
            return Assignment(match[1], self.value(arrays), append=match[2] == "+=")
        opened = self.pos
        parts = self.parts(modes.SUBSCRIPT if leading else modes.ARGUMENT_SUBSCRIPT)
        closed = text.startswith("]", self.pos)
        equals = EQUALS.match(text, self.pos + 1) if closed else None
        if not equals:
            return self.after_bracket(match.group(), parts, start)
        self.no_hidden_expansion(parts, opened)
        index = self.make(parts, opened)
        self.pos = equals.end()
        if text.startswith("(", self.pos):
            self.fail("a list as the value of an array's member")
        return Assignment(match[1], self.value(arrays=False), append=equals.group() == "+=", index=index)

    def after_bracket(self, head: str, inside: list[Part], start: int) -> Word:
        """Continue after a bracket that began no assignment: a word that begins with a pattern such as ``a[bc]d``."""
        parts: list[Part] = [Plain(head), *inside, *self.parts(modes.WORD)]
        merged: list[Part] = []
        plain: list[str] = []
        for part in parts:
            if isinstance(part, Plain):
                plain.append(part.text)
                continue
            flush(merged, plain, modes.WORD)
            merged.append(part)
        flush(merged, plain, modes.WORD)
        return self.make(merged, start)

    def no_split_assignment(self, word: Word, start: int) -> None:
        first = word.parts[0] if word.parts else None
        if self.spliced and isinstance(first, Plain) and SPLIT_START.match(first.text):
            self.fail("an assignment is split by a line continuation", start)

    def value(self, arrays: bool) -> Word:
        start = self.pos
        if self.text.startswith("(", start):
            if not arrays:
                self.unexpected()
            self.deeper()
            compound = self.compound()
            self.depth -= 1
            if not IS_ENDED.match(self.text, self.pos):
                self.fail("text after an array")
            return self.make([compound], start)
        return self.make(self.parts(modes.WORD), start)

    def compound(self) -> Compound:
        """Read ``( [index]=value ... )``."""
        text = self.text
        items: list[tuple[Word | None, Word]] = []
        opened = self.pos
        self.pos += 1
        while (char := self.newlines()) != ")":
            if not char:
                self.fail("unclosed array")
            index = None
            start = self.pos
            if char == "[":
                self.pos += 1
                parts = self.parts(modes.SUBSCRIPT)
                equals = EQUALS.match(text, self.pos + 1)
                if not equals:
                    items.append((None, self.after_bracket("[", parts, start)))
                    self.element_ended()
                    continue
                index = self.make(parts, start + 1)
                self.pos = equals.end()
                items.append((index, self.make(self.parts(modes.WORD), self.pos)))
            else:
                items.append((None, self.word()))
            self.element_ended()
        self.pos += 1
        if self.in_substitution and ESCAPED.search(text, opened, self.pos):
            # Bash 5.2 loses the backslash here, and then refuses the operator.
            self.fail("an escaped operator in an array in a command substitution", opened)
        return Compound(items)

    def element_ended(self) -> None:
        # A number right before < or > would be a file descriptor.
        if self.text[self.pos : self.pos + 1] not in (" ", "\t", "\n", ")"):
            self.unexpected()
