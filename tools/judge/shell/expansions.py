"""Parsing of everything that a dollar sign starts: parameters, command substitutions, arithmetic."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.shell import modes
from tools.judge.shell.cursor import LATE
from tools.judge.shell.modes import Mode
from tools.judge.shell.tree import Arithmetic, Double, Parameter, Part, Plain, Quoted, Word
from tools.judge.shell.words import ANSI, Words

SIMPLE = Regex(r"\$([A-Za-z_][A-Za-z0-9_]*+|[0-9@*#?$!-])")
NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*+|[0-9]++|[@*#?$!-])"
BRACED_PLAIN = Regex(r"\$\{([A-Za-z_][A-Za-z0-9_]*+|[0-9]++|[@*#?$!-])\}")
LENGTH = Regex(rf"#({NAME})(?=[\[}}])")
INDIRECT = Regex(r"!([A-Za-z_][A-Za-z0-9_]*+|[0-9]++|[@*#](?=\})|[?!$-](?=\}))")
PARAMETER = Regex(rf"({NAME})")
NAMES = Regex(r"[*@]\}")
OPERATOR = Regex(r":[-=?+]|[-=?+]|:|##|#|%%|%|//|/#|/%|/|\^\^|\^|,,|,|@")
TRANSFORM = Regex(r"[QEPAKakuUL]\}")
DEFAULTS = frozenset([":-", "-", ":=", "=", ":?", "?", ":+", "+"])
NAME_CHARACTER = Regex(r"(?:\\\n)+[A-Za-z0-9_]")


class Expansions(Words):
    __slots__ = ()

    def dollar(self, mode: Mode) -> Part | str:
        text, pos = self.text, self.pos
        match = SIMPLE.match(text, pos)
        if match:
            self.pos = match.end()
            if self.many_lines and NAME_CHARACTER.match(text, self.pos) and (match[1].isidentifier() and match[1].isascii()):
                self.fail("a variable's name is split by a line continuation")
            if match[1] == "$" and mode is not modes.WORD and text[self.pos : self.pos + 1] in ("(", "{", "[", "'"):
                self.fail("a bracket after $$")  # when bash looks for the end, it reads the second $ with the bracket
            return Parameter(match[1], bare=True)
        match text[pos + 1 : pos + 2]:
            case "(":
                self.pos += 1
                if text.startswith("(", pos + 2):
                    arithmetic = self.arithmetic(pos)
                    return arithmetic if arithmetic is not None else self.not_arithmetic()
                return self.substitution()
            case "{":
                return self.braced(mode)
            case "[":
                self.pos += 2
                parts = self.arithmetic_parts(modes.BRACKET_ARITHMETIC)
                self.counted(pos + 2, self.pos, "[]")
                self.pos += 1
                return Arithmetic(self.make(parts, pos))
            case "'" if not mode.quoted or mode is modes.DOUBLE_ARGUMENT:
                # (inside of "${x:-...}" it is decoded, unlike in plain double quotes)
                return self.ansi(mode)
            case '"' if not mode.quoted:
                self.pos += 1
                return self.double(mode)
            case "\\" if text.startswith("\n", pos + 2):
                if mode is modes.WORD and not self.in_substitution and self.scale and ANSI.match(text, pos):
                    self.spliced = True
                    return self.ansi(mode)
                self.fail("an expansion is split by a line continuation")
        self.pos += 1
        return "$"

    # -- ${...}

    def braced(self, mode: Mode) -> Part:
        match = BRACED_PLAIN.match(self.text, self.pos)
        if match:
            self.pos = match.end()
            return Parameter(match[1])
        self.deeper()
        start = self.pos
        self.pos += 2
        parameter = self.length() or self.indirect(mode) or self.parameter(mode)
        if not self.text.startswith("}", self.pos):
            self.fail("unclosed ${" if self.pos >= len(self.text) else "bad substitution", start)
        self.pos += 1
        self.depth -= 1
        return parameter

    def length(self) -> Parameter | None:
        match = LENGTH.match(self.text, self.pos)
        if not match:
            return None
        self.pos = match.end()
        return Parameter(match[1], "length", index=self.index())

    def indirect(self, mode: Mode) -> Parameter | None:
        match = INDIRECT.match(self.text, self.pos)
        if not match:
            return None
        self.pos = match.end()
        if NAMES.match(self.text, self.pos):
            self.pos += 1
            return Parameter(match[1], "names")
        index = self.index()
        if index is not None and _is_all(index) and self.text.startswith("}", self.pos):
            return Parameter(match[1], "names", index=index)
        start = self.pos
        operator = OPERATOR.match(self.text, start)
        if not operator:
            return Parameter(match[1], "indirect", index=index)
        inner = self.operation(match[1], index, mode)
        words = [word for word in (inner.argument, inner.replacement) if word is not None]
        parts: list[Part] = [Plain(operator.group()), *(part for word in words for part in word.parts)]
        return Parameter(match[1], "indirect", self.make(parts, start), index=index)

    def parameter(self, mode: Mode) -> Parameter:
        match = PARAMETER.match(self.text, self.pos)
        if not match:
            self.fail("bad substitution")
        self.pos = match.end()
        return self.operation(match[1], self.index(), mode)

    def operation(self, name: str, index: Word | None, mode: Mode) -> Parameter:
        """Read the rest of ``${...}`` after the name, up to the closing brace."""
        match = OPERATOR.match(self.text, self.pos)
        if not match:
            return Parameter(name, index=index)
        op = match.group()
        start = self.pos = match.end()
        if op == "@" and not TRANSFORM.match(self.text, start):
            self.fail("bad substitution")
        if op[0] == "/":
            return self.replacement(name, op, index, mode)
        argument = modes.ARGUMENT
        if mode.quoted:
            in_heredoc = mode is modes.HEREDOC or mode is modes.HEREDOC_ARGUMENT
            argument = modes.HEREDOC_ARGUMENT if in_heredoc else modes.DOUBLE_ARGUMENT
            argument = argument if op in DEFAULTS else modes.QUOTED_ARGUMENT
        return Parameter(name, op, self.make(self.parts(argument), start), index=index)

    def replacement(self, name: str, op: str, index: Word | None, mode: Mode) -> Parameter:
        start = self.pos
        parts: list[Part] = []
        if self.text.startswith("/", start):  # as the first character it belongs to the pattern
            parts.append(Plain("/"))
            self.pos += 1
        parts += self.parts(modes.QUOTED_PATTERN if mode.quoted else modes.PATTERN)
        pattern = self.make(parts, start)
        if not self.text.startswith("/", self.pos):
            return Parameter(name, op, pattern, index=index)
        self.pos += 1
        start = self.pos
        replacement = self.parts(modes.QUOTED_ARGUMENT if mode.quoted else modes.ARGUMENT)
        return Parameter(name, op, pattern, self.make(replacement, start), index)

    def index(self) -> Word | None:
        if not self.text.startswith("[", self.pos):
            return None
        self.pos += 1
        start = self.pos
        parts = self.arithmetic_parts(modes.BRACE_SUBSCRIPT)
        if self.text.startswith("}", self.pos) or any(isinstance(part, Plain) and "}" in part.text for part in parts):
            self.fail("bad substitution", start)  # bash ends the expansion at the first brace, even inside brackets
        index = self.make(parts, start)
        self.pos += 1
        return index

    # -- arithmetic

    def arithmetic_parts(self, mode: Mode) -> list[Part]:
        self.deeper()
        start = self.pos
        parts = self.parts(mode)
        self.depth -= 1
        self.no_hidden_expansion(parts, start)
        return parts

    def no_hidden_expansion(self, parts: list[Part], start: int) -> None:
        """Refuse a quoted ``$`` or backquote in arithmetic: bash expands it there in spite of the quotes."""
        for part in parts:
            if isinstance(part, Quoted) and ("$" in part.text or "`" in part.text):
                self.fail("a quoted expansion in arithmetic", start)
            if isinstance(part, Double):
                self.no_hidden_expansion(list(part.parts), start)

    def arithmetic(self, start: int) -> Arithmetic | None:
        """Read from ``((`` to ``))``. Return None, with nothing read, if the two are not closed together: then they are nested
        subshells.
        """
        opened = self.pos
        if opened in self.arithmetic_not:
            return None
        self.deeper()
        self.pos += 2
        parts = self.parts(modes.ARITHMETIC)
        self.depth -= 1
        self.counted(opened + 2, self.pos)
        if not self.text.startswith("))", self.pos):
            if self.text.startswith(")\\\n", self.pos):
                self.fail("an operator is split by a line continuation")
            if self.text.startswith(")\n", self.pos):
                self.fail("(( that is two subshells, and a newline after the inner one")
            self.arithmetic_not.add(opened)
            self.pos = opened
            return None
        self.no_hidden_expansion(parts, opened)
        self.pos += 2
        return Arithmetic(self.make(parts, start))

    def not_arithmetic(self) -> Part:
        """Read ``$((...) ...)``. Bash finds its end by counting parentheses, unlike the end of other substitutions."""
        opened = self.pos
        late, self.late = self.late, LATE
        substitution = self.substitution()
        self.late = late
        self.counted(opened + 1, self.pos - 1, script=True)
        return substitution


def _is_all(index: Word) -> bool:
    return len(index.parts) == 1 and isinstance(index.parts[0], Plain) and index.parts[0].text in ("@", "*")
