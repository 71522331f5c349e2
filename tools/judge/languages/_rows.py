"""Rows that say in the shell's words what a function does: ``rm -r 0`` for one that removes the folder its first argument names.

A number is the argument at that place; ``0+`` all from there on, each by itself where the row is ``each``. Besides commands:
``sh 0`` runs shell text, ``run 0+`` a program, ``> 0 1`` and ``>> 0 1`` write the second argument to a file, ``< 0`` reads one,
``code 0`` evaluates a text, and ``connect 0`` connects to a socket.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.languages._tell import Tell
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

Rows = dict[str, str]


def rows(table: str) -> Rows:
    """Return the row of each name: a line of ``table`` is names, a colon, and the row for all of them."""
    lines = (line.rpartition(": ") for line in table.strip().splitlines())
    return {name: row.strip() for names, _, row in lines for name in names.split()}


def report(tell: Tell, row: str, args: Sequence[Value], language: str) -> Value:
    """Report what a function of this row does with ``args``, and return what it returns as far as that is known."""
    words = row.split()
    given = [one for word in words[1:] for one in _arguments(tell, word, args, plain=words[0] in _PLAIN)]
    first = given[0] if given else ANYTHING
    match words[0]:
        case "sh":
            tell.shell(first)
        case "run":
            tell.run(given or [ANYTHING])
        case ">" | ">>":
            tell.write(first, given[1] if len(given) > 1 else None, append=words[0] == ">>")
        case "<":
            return tell.read(first)
        case "code":
            tell.code(language, first)
        case "kill":
            tell.kill(first.text, [*given, ANYTHING][1])
        case "connect":
            tell.connect(first)
        case command:
            tell.say([Value(command), *given])
            return Value(HOLE, Taint.UNKNOWN | (Taint.REMOTE if command == "curl" else Taint.NONE))
    return Value(HOLE, Taint.UNKNOWN)


_PLAIN = frozenset({"sh", "run", ">", ">>", "<", "code", "connect", "curl", "kill"})
"""Rows whose arguments are no operands of a command, or have their own form."""


def _arguments(tell: Tell, word: str, args: Sequence[Value], *, plain: bool) -> Sequence[Value]:
    if not word.strip("=+").isdigit():
        return [Value(word)]
    at = int(word.strip("=+"))
    found = list(args[at:]) if word.endswith("+") else [args[at] if at < len(args) else ANYTHING]
    return found if plain or word.startswith("=") else [tell.operand(one) for one in found or [ANYTHING]]
