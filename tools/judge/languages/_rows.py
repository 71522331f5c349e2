"""Rows that describe a function's effect as a command: ``rm -r 0`` removes the folder that its first argument names.

A number is the argument at that index (``=0``: not resolved as a path), ``0+`` all from there on. Besides commands:
``sh 0`` runs shell text, ``run 0+`` a program, ``> 0 1`` and ``>> 0 1`` write the second argument to a file, ``< 0`` reads one,
``code 0`` evaluates a text, and ``connect 0`` connects to a socket.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.languages._tell import Tell
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

Rows = dict[str, str]


def rows(table: str) -> Rows:
    """Return the row of each name: a line of ``table`` has names, a colon, and their row."""
    lines = (line.rpartition(": ") for line in table.strip().splitlines())
    return {name: row.strip() for names, _, row in lines for name in names.split()}


def report(tell: Tell, row: str, args: Sequence[Value], language: str) -> Value:
    """Report the effect of a function of this row with ``args``, and return its result as far as it is known."""
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
"""First words of rows whose arguments are used unchanged, and not as operands (see ``Tell.operand``)."""


def _arguments(tell: Tell, word: str, args: Sequence[Value], *, plain: bool) -> Sequence[Value]:
    if not word.strip("=+").isdigit():
        return [Value(word)]
    at = int(word.strip("=+"))
    found = list(args[at:]) if word.endswith("+") else [args[at] if at < len(args) else ANYTHING]
    return found if plain or word.startswith("=") else [tell.operand(one) for one in found or [ANYTHING]]
