"""Scripts generated from a grammar of bash, and damaged ones. The command names are made up; no script is ever executed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.fuzz.shell_words import NAMES, WordMaker

COMMANDS = ["cmd", "foo", "bar.sh", "./run", "x1", "if1", "done_"]
DAMAGE = [
    *"();&|<>{}[]!#$`'\"\\\n =", "((", "))", ";;", "&&", "||", "|&", "<<", "<<E", ">&", "$(", "${", "$((", "[[", "]]",
    " then ", " do ",
    " done ", " fi ", " esac ", " in ", " if ", " { ", " } ", " ! ", "time ", "x=(", "2>", " #", "\\\n", "f()", "case ",
    "function ", "coproc ",
    "\n\n", ";&", ";;&", "&>", "$'", '$"', "@(", "<(", "=~",
]  # fmt: skip


class JobOrigin(WordMaker):
    """Generator of one script."""

    # -- simple commands

    def simple(self) -> str:
        head = self.some(self.assignment, 0, 2) if self.chance(30) else ""
        if self.chance(10) and head:
            return head
        if self.chance(8):
            return self.some(lambda: self.assignment(35), 1, 1)
        words = [head, self.random.choice(COMMANDS), *(self.word() for _ in range(self.random.choice([0, 1, 1, 2, 3])))]
        if self.chance(10):
            words = [self.random.choice(["declare", "export", "local", "readonly"]), self.assignment(25), self.word()]
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            words.append(self.redirect())
        if self.chance(8):
            words.insert(0, self.redirect())
        return self.random.choice([" ", " ", " ", "  ", "\t", " \\\n "]).join(word for word in words if word)

    def assignment(self, arrays: int = 2) -> str:
        """Return an assignment. ``arrays``: the percentage of arrays. shfmt refuses them before a command, so they are rare
        there.
        """
        name = self.random.choice(NAMES) + self.random.choice(["=", "=", "+="])
        if self.chance(arrays):
            return name + "(" + self.some(self.element, 0, 3, self.line_end([" ", "\n", " #c\n"])) + ")"
        if self.chance(15):
            return (
                self.random.choice(NAMES)
                + "["
                + self.random.choice(["0", "$x", "x+1", '"a b"'])
                + "]="
                + self.random.choice(["", self.word()])
            )
        return name + self.random.choice(["", self.word(), self.word()])

    def element(self) -> str:
        word = self.word()
        return self.random.choice(["", "", "[1]=", "[$x]=", "[x+1]="]) + ("e" if self.enclosing and "\\" in word else word)

    def redirect(self) -> str:
        fd = self.random.choice(["", "", "", "2", "0", "{fd}"])
        if self.chance(20):
            return self.heredoc(fd)
        if self.chance(10):
            return self.random.choice(["&>", "&>>"]) + self.random.choice(["", " "]) + self.word()
        if self.chance(20):
            return fd + self.random.choice([">&", "<&"]) + self.random.choice(["1", "-", "2-", "$x"])
        return (
            fd
            + self.random.choice([">", ">>", "<", "<>", ">|", "<<<"])
            + " " * self.random.randrange(2)
            + self.random.choice(["f", "/d/n", '"$x"', "a\\ b"])
        )

    def heredoc(self, fd: str) -> str:
        delimiter = self.random.choice(["E", "EOF", "END-1"])
        quoted = self.chance(40)
        strip = self.chance(30)
        lines = self.random.choices(
            ["text", "", "$x", "it's", '"q', "#", "EO", "\tT", "${x:-d}", "$((1))", "a\\$b", "x\\", "`cmd`", "$(cmd 'a')", ")"],
            k=3,
        )
        if lines[-1].endswith("\\"):
            lines.append("more")
        if quoted:
            lines.append("$( ` ${")
        self.bodies.append("".join(("\t" if strip else "") + line + "\n" for line in lines) + "\t" * strip + delimiter)
        quote = self.random.choice(["'", '"', "\\"]) if quoted else ""
        return f"{fd}<<{'-' * strip}{' ' * self.random.randrange(2)}{quote}{delimiter}{quote if quote != chr(92) else ''}"

    def flush(self, after: str = "\n") -> str:
        """Return a newline and the here-documents that wait for it."""
        if not self.bodies:
            return after
        text = "\n" + "\n".join(self.bodies) + "\n"
        self.bodies = []
        return text

    # -- compound commands

    def command(self) -> str:
        if self.chance(65):
            return self.simple()
        return self.nested(self.compound, "foo") + (" " + self.redirect() if self.chance(15) else "")

    def compound(self) -> str:
        return self.pick(
            [
                self.if_,
                self.while_,
                self.for_,
                self.case,
                self.group,
                self.subshell,
                self.function,
                self.test,
                self.arith,
                self.arith_for,
                self.coproc,
            ]
        )

    def line_end(self, options: Sequence[str]) -> str:
        """Return a newline if one is allowed, unless a here-document would begin with it."""
        return " " if self.bodies else self.random.choice(options)

    def end(self) -> str:
        """Return a separator."""
        if self.bodies:
            return self.flush()
        return self.random.choice(["; ", ";", "\n", " \n\n", " & ", " # c\n", ";\n", "\t;\\\n "])

    def body(self) -> str:
        return self.random.choice([" ", "\n", " # c\n "]) + self.script(1, 2) + self.end()

    def if_(self) -> str:
        text = f"if{self.body()}then{self.body()}"
        text += "".join(f"elif{self.body()}then{self.body()}" for _ in range(self.random.choice([0, 0, 1])))
        return text + (f"else{self.body()}" if self.chance(40) else "") + "fi"

    def while_(self) -> str:
        return f"{self.random.choice(['while', 'until'])}{self.body()}do{self.body()}done"

    def do(self) -> str:
        return f"do{self.body()}done" if self.chance(85) else f"{{{self.body()}}}"

    def for_(self) -> str:
        head = self.random.choice(["for", "for", "select"]) + " " + self.random.choice(NAMES)
        if self.chance(20):
            return head + self.random.choice(["; ", "\n", " "]) + self.do()
        return (
            head
            + self.random.choice([" ", "\n"])
            + "in "
            + self.some(self.word, 0, 3)
            + self.random.choice([";", "\n", " ;\n"])
            + self.do()
        )

    def arith_for(self) -> str:
        return f"for (({self.expression()};x<3; x++)){self.random.choice(['; ', chr(10), ' '])}{self.do()}"

    def case(self) -> str:
        items = self.some(self.case_item, 0, 3, "")
        last = f"{self.random.choice(['', '('])}z) {self.simple()}{self.flush()}" if self.chance(20) else ""
        return f"case {self.word()} in{self.line_end([' ', chr(10)])}{items}{last}esac"

    def case_item(self) -> str:
        patterns = self.some(self.word, 1, 3, self.random.choice(["|", " | "]))
        body = self.script(1, 2) if self.chance(80) else ""
        body += self.flush() if self.bodies else self.random.choice(["", " ", "\n"])
        end = self.random.choice([";;", ";;", ";&", ";;&"]) + self.random.choice([" ", "\n"])
        return f"{self.random.choice(['', '', '( '])}{patterns}) {body}{end}"

    def group(self) -> str:
        return "{" + self.body() + "}"

    def subshell(self) -> str:
        return "(" + self.enclosed() + ")"

    def function(self) -> str:
        name = self.random.choice(["fn", "f-1", "g.h"])
        head = self.random.choice([f"{name}()", f"{name} ( )", f"function {name}", f"function {name} ()"])
        return (
            head + self.random.choice([" ", "\n", " "]) + self.pick([self.group, self.group, self.subshell, self.if_, self.arith])
        )

    def coproc(self) -> str:
        return "coproc " + self.pick([self.group, lambda: "NAME " + self.group(), lambda: "foo a"])

    def arith(self) -> str:
        return "((" + self.random.choice(["x++", "1 + (2*y)", "$x > 3", " x = $(cmd) ", "x && y"]) + "))"

    def test(self) -> str:
        return "[[ " + self.nested(self.condition, "x") + " ]]"

    def condition(self) -> str:
        return self.pick(
            [
                lambda: self.random.choice(["-f ", "-z ", "-n "]) + self.word(),
                lambda: self.word() + self.random.choice([" == ", " != ", " = ", " -eq ", " -nt ", " < ", " > "]) + self.word(),
                lambda: (
                    self.word() + " =~ " + self.random.choice(["^a.*$", "(a b|c)+", "[0-9]{3}", '"x y"', "$x", "a|b", "\\.x"])
                ),
                lambda: self.random.choice(["! ", "( "]) + "-n x" if self.deep < 0 else "! " + self.condition(),
                lambda: "( " + self.nested(self.condition, "x") + " )",
                lambda: (
                    self.nested(self.condition, "-n x")
                    + self.random.choice([" && ", " || ", " &&\n"])
                    + self.nested(self.condition, "-n x")
                ),
            ]
        )

    # -- lists

    def pipeline(self) -> str:
        prefix = self.random.choice([""] * 8 + ["! ", "time ", "time -p ", "! time "])
        parts = [self.command() for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        return prefix + self.random.choice([" | ", "|", " |& ", " |\\\n "]).join(parts)

    def and_or(self) -> str:
        return self.random.choice([" && ", " || ", "&&", " ||  "]).join(
            self.pipeline() for _ in range(self.random.choice([1, 1, 1, 2]))
        )

    def script(self, least: int = 1, most: int = 4) -> str:
        """Return a script without a separator at its end; ``bodies`` may wait for a newline."""
        text = ""
        for _ in range(self.random.randint(least, most)):
            text += (self.end() if text else "") + self.and_or()
        return text


def script(seed: int) -> str:
    """Return the valid script of this number (valid except for a few that bash itself refuses)."""
    maker = JobOrigin(seed, deep=seed % 4)
    text = maker.script()
    return text + maker.flush()


def damaged(seed: int) -> str:
    """Return a script with up to three changed places."""
    random = Random(seed)  # noqa: S311 -- as above
    text = script(seed // 4)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        kind = random.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + random.randint(1, 3) :]
        elif kind == 1:
            text = text[:at] + random.choice(DAMAGE) + text[at:]
        elif kind == 2:
            text = text[:at] + random.choice(DAMAGE) + text[at + 1 :]
        else:
            other = random.randrange(len(text) + 1)
            text = text[:at] + text[other : other + random.randint(1, 8)] + text[at:]
    return text


def soup(seed: int) -> str:
    """Return tokens in any order."""
    random = Random(seed)  # noqa: S311 -- as above
    return "".join(random.choice([*DAMAGE, "a", "b ", " ", "x=1 ", "1", "E\n"]) for _ in range(random.randint(1, 12)))
