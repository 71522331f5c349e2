"""``[[ ... ]]``."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.shell import modes
from tools.judge.shell.assignments import Assignments
from tools.judge.shell.tree import Conditional, Plain, Word

UNARY = Regex(r"-[a-hknoprstuvwxzGLNORS]\Z")
BINARY = frozenset(["=", "==", "!=", "-nt", "-ot", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
PATTERN = frozenset(["=", "==", "!="])


class Conditionals(Assignments):
    __slots__ = ()

    def conditional(self) -> Conditional:
        """Read from ``[[`` to ``]]``. Nested parentheses are counted, without recursion; the result is a flat list."""
        words: list[Word] = []
        self.pos += 2
        nest = 0
        operand = True
        """True if the next token must be an operand, and not ``&&``, ``||``, ``)`` or ``]]``."""
        self.newlines()
        if self.at_word("]]"):
            self.fail("an empty [[")
        while True:
            char = self.newlines()
            if operand:
                if char == "(":
                    nest += 1
                    words.append(self.mark("("))
                elif self.at_word("!"):
                    words.append(self.mark("!"))
                else:
                    self.term(words)
                    operand = False
            elif self.text.startswith(("&&", "||"), self.pos):
                words.append(self.mark(self.text[self.pos : self.pos + 2]))
                operand = True
            elif char == ")" and nest:
                nest -= 1
                words.append(self.mark(")"))
            else:
                break
        if nest or not self.at_word("]]"):
            self.unexpected()
        self.pos += 2
        self.reserved_next = True
        return Conditional(words)

    def mark(self, operator: str) -> Word:
        start = self.pos
        self.pos += len(operator)
        return self.make([Plain(operator)], start)

    def term(self, words: list[Word]) -> None:
        """Read ``-f word``, ``word``, or ``word op word``."""
        first = self.operand()
        words.append(first)
        if UNARY.match(plain(first)):
            self.blanks()
            words.append(self.operand())
            return
        char = self.blanks()
        if char in ("<", ">") and not self.substitutes(char):
            words.append(self.mark(char))
            self.blanks()
            words.append(self.operand())
            return
        if char in ("&", "|", ")") or self.at_word("]]"):
            return
        operator = self.operand()
        words.append(operator)
        op = plain(operator)
        self.blanks()
        if op == "=~":
            start = self.pos
            words.append(self.make(self.parts(modes.REGEX), start))
            if self.pos == start:
                self.unexpected()
        elif op in BINARY:
            words.append(self.operand())
        else:
            self.fail("a conditional operator was expected")

    def operand(self) -> Word:
        if self.at_word("]]"):
            self.unexpected()
        word = self.word()
        text = plain(word)
        if text == "]]" or (text and self.text[self.pos : self.pos + 1] in ("<", ">") and (text.isdigit() or text[0] == "{")):
            self.unexpected()
        return word


def plain(word: Word) -> str:
    """Return the word's text if it is only unquoted text, otherwise ""."""
    part = word.parts[0]
    return part.text if len(word.parts) == 1 and isinstance(part, Plain) else ""
