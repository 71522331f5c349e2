"""Types for the reader of the script languages: the languages' descriptions, and the values that an expression may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.languages._script_tokens import Lexicon, Token
from tools.judge.languages._tell import Tell, join
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

Thing: TypeAlias = Any
"""A Value, a number, a list, a dict of str to things, a Ref or an Opened."""

MAX_DEPTH = 60
MAX_STEPS = 60_000
MAX_TEXT = 200_000


class Ref(NamedTuple):
    """A named object: ``fs``, ``fs.promises``, ``File``."""

    path: str


class Opened(NamedTuple):
    """A connection, an open file, a response: what is read from it is ``content``."""

    kind: str
    content: Value
    number: int = 0


class SourceReader(Protocol):
    """The reader, as the functions know it that stand for a language's own."""

    tell: Tell
    args: list[Value]
    at: int
    names: dict[str, Thing]
    connected: tuple[Value, Value] | None

    def peek(self, ahead: int = 0) -> Token: ...

    def start(self, command: Value) -> None: ...

    def tell_shell(self, command: Value) -> Value: ...

    def evaluate(self, source: Value, language: str) -> None: ...


Call: TypeAlias = Callable[[SourceReader, list[Thing], Thing], Thing]


@dataclass(frozen=True)
class Language:
    """Description of a language for the reader. ``calls``: by full name, or ``*.name`` for any owner's method."""

    lexicon: Lexicon
    calls: Mapping[str, Call]
    concat: frozenset[str]
    bare: bool = False
    """True where a call may go without parentheses."""
    interpolation: Regex[str] | None = None
    modules: frozenset[str] = frozenset()
    """Names that stand for themselves where nothing was assigned to them."""
    separators: frozenset[str] = frozenset({".", "?.", "->", "::", ":"})
    indirect: frozenset[str] = frozenset()
    """Calls before whose arguments a block may stand that gives the program: ``exec {"/bin/rm"} "ls", "-r"``."""
    reading: str = ""
    """The call that ``<>`` stands for."""
    in_patterns: Regex[str] | None = None
    """Code within a regular expression."""
    aliases: Mapping[str, str] = field(default_factory=dict)


def text(thing: Thing) -> Value:
    if isinstance(thing, Value):
        return thing
    if isinstance(thing, bool) or thing is None:
        return ANYTHING
    if isinstance(thing, int | float):
        return Value(str(thing))
    if isinstance(thing, Opened):
        return thing.content
    if isinstance(thing, list):
        return join([text(one) for one in thing[:100]], ",")
    return ANYTHING


def value(shown: str, hidden: bool) -> Value:
    taint = Taint.DECODED if hidden else Taint.NONE
    return Value(shown, taint | (Taint.UNKNOWN if HOLE in shown else Taint.NONE))


def number(raw: str) -> int | float:
    raw = raw.replace("_", "").lower()
    try:
        if raw[:2] in ("0x", "0b", "0o"):
            return int(raw, 0)
        if raw.isdigit():
            return int(raw, 8 if raw[0] == "0" and len(raw) > 1 else 10) if len(raw) < 30 else 0
        return float(raw)
    except ValueError:
        return 0


def formatted(template: Value, given: list[Thing]) -> Value:
    """``sprintf`` with %s and %d only."""
    values = iter(given)
    taint = template.taint

    def replace(match: re.Match[str]) -> str:
        nonlocal taint
        if match[0] == "%%":
            return "%"
        thing = next(values, ANYTHING)
        shown = text(thing)
        taint |= shown.taint
        if match[1] == "c" and isinstance(thing, int):
            return chr(thing) if 0 <= thing < 0x110000 else HOLE
        return shown.text

    return Value(_PERCENT.sub(replace, template.text)[:MAX_TEXT], taint)


_PERCENT = Regex(r"%%|%[-+0 ]*\d*(?:\.\d+)?([sdicxu])")
