"""Compound commands, functions and coprocesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from toolcrib.contract.regex import Regex
from tools.judge.shell import modes
from tools.judge.shell.commands import FIRST, PARENTHESES, Commands, static
from tools.judge.shell.cursor import ENDED
from tools.judge.shell.modes import Mode
from tools.judge.shell.tree import (
    ArithmeticCommand,
    ArithmeticFor,
    Case,
    CaseItem,
    Command,
    Coproc,
    For,
    Function,
    Group,
    If,
    Loop,
    Part,
    Script,
    Simple,
    Subshell,
    Word,
)

ESAC = Regex(r"esac" + ENDED)
CASE_END = Regex(r";;&|;;|;&")
COMPOUND_AHEAD = Regex(r"\(|(?:\{|\[\[|if|for|while|until|case|select)" + ENDED)
IDENTIFIER = Regex(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Parser(Commands):
    """The whole parser. ``script`` reads a script; its caller checks that no text remains."""

    __slots__ = ()

    def here_document(self) -> list[Part]:
        return self.parts(modes.HEREDOC)

    def compound_only(self) -> Command:
        """Read the compound command that must be here, such as the body of a function."""
        match = FIRST.match(self.text, self.pos)
        read = self.compounds.get(match.group()) if match else None
        if read is None and self.text.startswith("(", self.pos):
            read = self.compounds["("]
        elif match and read is not None:
            self.pos = match.end()
        if read is None or read in (Parser.coprocess, Parser.function_word):
            self.unexpected()
        return self.compound_command(read)

    def other_reserved(self, name: str) -> Command:
        self.unexpected()

    # -- groups

    def group(self) -> Command:
        body = self.body()
        self.expect("}")
        self.reserved_next = True
        return Group(body)

    def parenthesis(self) -> Command:
        start = self.pos
        if self.text.startswith("((", start):
            arithmetic = self.arithmetic(start)
            if arithmetic is not None:
                self.reserved_next = True
                return ArithmeticCommand(arithmetic.text)
        self.operator(1)
        body = self.body()
        if not self.text.startswith(")", self.pos):
            self.unexpected()
        self.pos += 1
        self.reserved_next = True
        return Subshell(body)

    def conditional_command(self) -> Command:
        self.pos -= 2
        return self.conditional()

    # -- if, while, for, case

    def if_command(self) -> Command:
        branches: list[tuple[Script, Script]] = []
        otherwise = None
        while True:
            condition = self.body()
            self.expect("then")
            branches.append((condition, self.body()))
            if not self.at_word("elif"):
                break
            self.pos += 4
        if self.at_word("else"):
            self.pos += 4
            otherwise = self.body()
        self.expect("fi")
        self.reserved_next = True
        return If(branches, otherwise)

    def while_command(self) -> Command:
        return self.loop(until=False)

    def until_command(self) -> Command:
        return self.loop(until=True)

    def loop(self, *, until: bool) -> Command:
        condition = self.body()
        self.expect("do")
        return Loop(condition, self.closed_by("done"), until)

    def closed_by(self, word: str) -> Script:
        body = self.body()
        self.expect(word)
        self.reserved_next = True
        return body

    def loop_body(self) -> Script:
        """Read ``do ... done``, or the undocumented ``{ ... }``."""
        self.newlines()
        if self.at_word("{"):
            self.pos += 1
            return self.closed_by("}")
        self.expect("do")
        return self.closed_by("done")

    def for_command(self) -> Command:
        if self.blanks() == "(":
            return self.arithmetic_for()
        return self.for_words(select=False)

    def select_command(self) -> Command:
        self.blanks()
        return self.for_words(select=True)

    def for_words(self, *, select: bool) -> Command:
        name = static(self.word())
        if not name or not IDENTIFIER.match(name):
            self.fail("a variable's name was expected")
        words: list[Word] | None = None
        char = self.blanks()
        if char == ";":
            self.operator(1)
        elif char == "{":
            self.unexpected()
        else:
            self.newlines()
            if self.at_word("in"):
                if char == "\n" and self.seen_case:
                    self.fail("a newline before in, in a loop after case")  # bash 5.2 misparses such a loop
                self.pos += 2
                words = self.for_list()
        return For(name, words, self.loop_body(), select)

    def for_list(self) -> list[Word]:
        words: list[Word] = []
        while (char := self.blanks()) not in (";", "\n", ""):
            words.append(self.word())
            self.no_descriptor()
        if char == ";":
            self.operator(1)
        return words

    def no_descriptor(self) -> None:
        """Refuse a redirect here, as bash does. Bash reads the 2 of ``2>`` as a descriptor, not as a word."""
        if self.text[self.pos : self.pos + 1] in ("<", ">"):
            self.unexpected()

    def arithmetic_for(self) -> Command:
        if not self.text.startswith("((", self.pos):
            self.unexpected()
        self.pos += 2
        first = self.arithmetic_part()
        second = self.arithmetic_part()
        third = self.arithmetic_part(")")
        if not self.text.startswith(")", self.pos):
            self.fail("malformed for ((")
        self.pos += 1
        if self.blanks() == ";":
            self.operator(1)
        return ArithmeticFor((first, second, third), self.loop_body())

    def arithmetic_part(self, ended_by: str = ";") -> Word:
        start = self.pos
        word = self.make(self.arithmetic_parts(modes.ARITHMETIC_PART), start)
        if not self.text.startswith(ended_by, self.pos):
            self.fail("malformed for ((")
        self.counted(start, self.pos)
        self.pos += 1
        return word

    def case_command(self) -> Command:
        self.seen_case = True
        self.blanks()
        subject = self.word()
        self.no_descriptor()
        self.newlines()
        self.expect("in")
        items: list[CaseItem] = []
        self.newlines()
        while not ESAC.match(self.text, self.pos):
            patterns = self.case_patterns()
            body = self.script()
            end = CASE_END.match(self.text, self.pos)
            if end:
                self.operator(len(end.group()))
            items.append(CaseItem(patterns, body, end.group() if end else ";;"))
            self.newlines()
            if not end:
                break
        self.expect("esac")
        self.reserved_next = True
        return Case(subject, items)

    def case_patterns(self) -> list[Word]:
        if self.text.startswith("(", self.pos):
            self.pos += 1
        patterns: list[Word] = []
        while True:
            self.blanks()
            patterns.append(self.word())
            self.no_descriptor()
            char = self.blanks()
            if char == ")":
                self.pos += 1
                return patterns
            if char != "|":
                self.unexpected()
            self.operator(1)

    # -- functions and coprocesses

    def function_word(self) -> Command:
        """Read ``function name [()] body``."""
        self.blanks()
        name = static(self.word())
        if not name:
            self.fail("a function's name with quotes or expansions")
        if self.blanks() == "(" and PARENTHESES.match(self.text, self.pos):
            self.pos = self.text.index(")", self.pos) + 1
        self.newlines()
        return Function(name, self.compound_only())

    def coprocess(self) -> Command:
        self.blanks()
        if COMPOUND_AHEAD.match(self.text, self.pos):
            return Coproc("COPROC", self.compound_only())
        start = self.pos
        match = FIRST.match(self.text, start)
        if match and match.group() not in self.no_compound and match.group() not in self.compounds:
            self.pos = match.end()
            if self.blanks() and COMPOUND_AHEAD.match(self.text, self.pos):
                return Coproc(match.group(), self.compound_only())
            self.pos = start
        if self.at_word("time"):
            self.fail("time after coproc")
        command = self.command()
        if not isinstance(command, Simple):
            self.unexpected()
        if not command.assignments and len(command.words) > 1 and isinstance(second := command.words[1], Word):
            # The first word may be the coprocess's name, and bash recognises a reserved word after a name.
            text = static(second)
            if text in self.no_compound or text in self.compounds:
                self.fail("a reserved word after coproc and a word", start)
        return Coproc("COPROC", command)

    readers: ClassVar[Mapping[str, Callable[[Any, Mode], Any]]] = {
        "'": Commands.single,
        '"': Commands.double,
        "\\": Commands.backslash,
        "$": Commands.dollar,
        "`": Commands.backquote,
        "<": Commands.process,
        ">": Commands.process,
    }
    compounds: ClassVar[Mapping[str, Callable[[Any], Command]]] = {
        "{": group,
        "(": parenthesis,
        "[[": conditional_command,
        "if": if_command,
        "while": while_command,
        "until": until_command,
        "for": for_command,
        "select": select_command,
        "case": case_command,
        "function": function_word,
        "coproc": coprocess,
    }
    no_compound: ClassVar[frozenset[str]] = frozenset(
        ["then", "else", "elif", "fi", "do", "done", "esac", "in", "}", "!", "time", "]]"]
    )
