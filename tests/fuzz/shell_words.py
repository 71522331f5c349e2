"""Words of generated shell scripts: quoting, expansions, patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

LETTERS = [
    "a",
    "foo",
    "bar-1",
    "x.y",
    "/q/w",
    "--opt",
    "-n",
    "é",
    "k=v",
    "a[1]",
    "b]",
    "{a,b}",
    "~/x",
    "*.c",
    "?",
    "50%",
    "u@h",
    "#x"[1:],
    "a#b",
]
NAMES = ["x", "FOO", "_v1"]
PARAMETERS = [*NAMES, "1", "@", "*", "#", "?", "-", "$", "!"]
OPERATORS = [":-", "-", ":=", "=", ":?", "?", ":+", "+", "#", "##", "%", "%%", "^", "^^", ",", ",,"]


class WordMaker:
    """Generator of one script's words. ``deep`` limits the nesting."""

    def __init__(self, seed: int, deep: int = 3) -> None:
        self.random = Random(seed)  # noqa: S311 -- tests need the same scripts again
        self.deep = deep
        self.enclosing = 0
        self.bodies: list[str] = []
        """Here-documents that wait for the end of the line."""

    def pick(self, options: Sequence[Callable[[], str]]) -> str:
        return self.random.choice(options)()

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def some(self, make: Callable[[], str], least: int, most: int, between: str = " ") -> str:
        return between.join(make() for _ in range(self.random.randint(least, most)))

    def nested(self, make: Callable[[], str], otherwise: str) -> str:
        if self.deep <= 0:
            return otherwise
        self.deep -= 1
        try:
            return make()
        finally:
            self.deep += 1

    # -- words

    def word(self) -> str:
        return "".join(self.pick(self.pieces()) for _ in range(self.random.choice([1, 1, 1, 2, 3])))

    def pieces(self) -> list[Callable[[], str]]:
        return [
            self.literal, self.literal, self.literal, self.single, self.double, self.double, self.ansi, self.escape,
            self.parameter,
            self.parameter, self.substitution, self.substitution, self.backquotes, self.arithmetic, self.process, self.glob,
        ]  # fmt: skip

    def literal(self) -> str:
        return self.random.choice(LETTERS)

    def single(self) -> str:
        return "'" + self.random.choice(["", "a b", "$x `", "\\", '"', "#", "\n", "&& rm"]) + "'"

    def double(self) -> str:
        inner = self.some(
            lambda: self.pick([self.in_double, self.parameter, self.substitution, self.arithmetic, self.backquotes]), 0, 3, ""
        )
        return self.random.choice(["", "", "", "$"]) + '"' + inner + '"'

    def in_double(self) -> str:
        return self.random.choice(
            ["a b", "it's ", "\\$", '\\"', "\\\\", "\\q", "#", "$ ", "(", ")", "}", "\n", "\\\n", "<E", ";"]
        )

    def ansi(self) -> str:
        return "$'" + self.random.choice(["", "\\n", "a\\'b", "\\x41", "\\101", "\\u20ac", "\\\\", "é", "\\q", "$x", '"']) + "'"

    def escape(self) -> str:
        return "\\" + self.random.choice([" ", "$", "'", '"', "\\", "(", ";", "a", "#", "&", "|", "<", "`", "\n"])

    def parameter(self) -> str:
        name = self.random.choice(PARAMETERS)
        if self.chance(40):
            return "$" + name
        return self.nested(lambda: self.braced(name), "${" + name + "}")

    def braced(self, name: str) -> str:
        variable = self.random.choice(NAMES)
        index = self.random.choice(["", "", "[1]", "[@]", "[$x]", "[x+1]"])
        return self.pick(
            [
                lambda: "${" + variable + index + "}",
                lambda: "${" + variable + index + self.random.choice(OPERATORS) + self.argument() + "}",
                lambda: "${#" + variable + index + "}",
                lambda: "${!" + variable + self.random.choice(["", "*", "@", "[@]"]) + "}",
                lambda: (
                    "${"
                    + variable
                    + index
                    + self.random.choice(["/", "//", "/#", "/%"])
                    + self.pattern()
                    + "/"
                    + self.argument()
                    + "}"
                ),
                lambda: "${" + variable + ":" + self.random.choice(["1", " -1", "$x", "x:2", "$((1)):3"]) + "}",
                lambda: "${" + variable + index + "@" + self.random.choice("QEPAUuL") + "}",
                lambda: "${" + name + "}",
            ]
        )

    def argument(self) -> str:
        return self.some(
            lambda: self.pick([self.simple_argument, self.parameter, self.substitution, self.quoted_argument]), 0, 2, ""
        )

    def simple_argument(self) -> str:
        return self.random.choice(["a", "a b", "*", "{", "(", ")", "\\}", "#", ";", "x=1", "é", "|"])

    def quoted_argument(self) -> str:
        return self.random.choice(['"a b"', '"$x"', '"}"', "\\$"])

    def pattern(self) -> str:
        return self.random.choice(["a", "*", "[ab]", '"/"', "\\/", "$x", "a b", "#", "%"])

    def substitution(self) -> str:
        return self.nested(lambda: "$(" + self.enclosed() + ")", "$(cmd)")

    def enclosed(self) -> str:
        """Return a script for use inside parentheses."""
        outer, self.bodies = self.bodies, []
        self.enclosing += 1
        text = self.script(1, 2)
        self.enclosing -= 1
        if text.startswith("time"):
            text = "cmd; " + text
        text += self.flush("\n") if self.bodies else self.random.choice(["", "", "\n", " ", " # )\n"])
        self.bodies = outer
        return self.random.choice(["", " ", "\n"]) + (" " if text.startswith("(") else "") + text

    def backquotes(self) -> str:
        return (
            "`"
            + self.random.choice(
                ["cmd", "cmd a | b", "cmd \\$x", "cmd 'a b'", "", "cmd \\`foo\\`", "cmd # x", "if a; then b; fi"]
            )
            + "`"
        )

    def arithmetic(self) -> str:
        return self.random.choice(["$((", "$(( "]) + self.expression() + self.random.choice(["))", " ))"])

    def expression(self) -> str:
        return self.random.choice(
            [
                "1 + 2",
                "x",
                "$x*(y+1)",
                "(1)",
                "x<<2",
                "a?b:c",
                "x[1]",
                '"1"',
                "1\n+2",
                "$(cmd)",
                "16#ff",
                "x=1,y",
                "x++",
                "${x:-1}",
            ]
        )

    def process(self) -> str:
        return self.nested(lambda: self.random.choice("<>") + "(" + self.enclosed() + ")", "<(cmd)")

    def glob(self) -> str:
        return (
            self.random.choice("?*+@!")
            + "("
            + self.some(lambda: self.random.choice(["a", "*.x", "$x", "'a b'", "a b", "", "@(q|w)"]), 1, 3, "|")
            + ")"
        )

    # -- building blocks of commands

    def script(self, least: int = 1, most: int = 4) -> str:
        raise NotImplementedError

    def flush(self, after: str = "\n") -> str:
        raise NotImplementedError
