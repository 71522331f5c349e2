"""The syntax tree of a shell script: the parser makes it, the interpreter walks it.

Terms are those of the POSIX Shell Command Language (chapter 2) and the bash manual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass

# -- words ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Plain:
    """Unquoted text: subject to brace and tilde expansion and patterns, and, if it came from an expansion, to field splitting.

    A backslash-quoted character is a ``Quoted`` of its own.
    """

    text: str


@dataclass(slots=True)
class Quoted:
    """Text in '...', $'...' (decoded), after a backslash, or the constant text inside "...": taken literally."""

    text: str


@dataclass(slots=True)
class Double:
    """Text in "..." or $"...": its parts are Quoted and expansions, and their results are not split."""

    parts: Sequence[Part]


@dataclass(slots=True)
class Parameter:
    """``$name``, ``${...}``.

    ``name`` is a variable's name, a digit string or one of ``@*#?-$!``. ``op`` is "" for the plain value, else one of
    ``:- - := = :? ? :+ + # ## % %% / // /# /% ^ ^^ , ,, : @``, ``length`` (``${#x}``), ``indirect`` (``${!x}``) or
    ``names`` (``${!x*}``). ``argument`` is the word after the operator (for ``/``: the pattern; ``replacement`` then holds the
    rest; for ``:`` the whole of ``offset:length``). ``index`` is the content of ``[...]``: a word, with "@" and "*" as Plain.
    ``bare``: written without braces, so that in ``$x{a,b}`` the name continues after brace expansion.
    """

    name: str
    op: str = ""
    argument: Word | None = None
    replacement: Word | None = None
    index: Word | None = None
    bare: bool = field(default=False, compare=False)


@dataclass(slots=True)
class CommandSub:
    """``$(...)`` and backquotes."""

    body: Script


@dataclass(slots=True)
class ProcessSub:
    """``<(...)`` (direction "<") and ``>(...)``."""

    direction: Literal["<", ">"]
    body: Script


@dataclass(slots=True)
class Arithmetic:
    """``$((...))`` and ``$[...]``. ``text`` is a word, because it may contain expansions, even of commands."""

    text: Word


@dataclass(slots=True)
class ExtGlob:
    """``?(...)``, ``*(...)``, ``+(...)``, ``@(...)``, ``!(...)``: a pattern; ``words`` are its alternatives."""

    kind: Literal["?", "*", "+", "@", "!"]
    words: Sequence[Word]


@dataclass(slots=True)
class Compound:
    """``(...)`` as the value of an assignment: an array. Each element may have an index: ``([2]=x y)``."""

    items: Sequence[tuple[Word | None, Word]]


Part: TypeAlias = Plain | Quoted | Double | Parameter | CommandSub | ProcessSub | Arithmetic | ExtGlob | Compound


@dataclass(slots=True)
class Word:
    """A word. ``start`` and ``end`` are offsets in the script's text (for a heredoc body or backquotes: of the outer
    construct).
    """

    parts: Sequence[Part]
    start: int = 0
    end: int = 0


# -- commands ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Redirect:
    """A redirect. ``op`` is ``< > >> >| <> <& >& &> &>> << <<- <<<``. ``fd`` is a number or ``{name}`` before it, or None.

    For ``<<`` and ``<<-``, ``target`` is the body (one Quoted if the delimiter was quoted), for ``<<-`` without leading tabs.
    """

    op: str
    target: Word
    fd: int | str | None = None


@dataclass(slots=True)
class Assignment:
    """``name=value``, ``name+=value``, ``name[index]=value``; ``value`` may hold one Compound."""

    name: str
    value: Word
    append: bool = False
    index: Word | None = None


@dataclass(slots=True)
class Simple:
    assignments: Sequence[Assignment]
    words: Sequence[Word | Assignment]
    """An Assignment among the words is an argument of ``declare``, ``local``, ``export``, ``readonly`` or ``typeset``."""
    redirects: Sequence[Redirect]
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Pipeline:
    """A pipeline. ``negated``: ``!``. ``stderr_too[i]``: command i is followed by ``|&``. ``timed``: the word ``time`` is before
    it.
    """

    commands: Sequence[Command]
    negated: bool = False
    timed: bool = False
    stderr_too: Sequence[bool] = ()


@dataclass(slots=True)
class AndOr:
    left: Command
    op: Literal["&&", "||"]
    right: Command


@dataclass(slots=True)
class Group:
    """``{ ...; }``."""

    body: Script


@dataclass(slots=True)
class Subshell:
    body: Script


@dataclass(slots=True)
class If:
    """An ``if``. ``branches``: (condition, body) of ``if`` and each ``elif``."""

    branches: Sequence[tuple[Script, Script]]
    otherwise: Script | None = None


@dataclass(slots=True)
class Loop:
    condition: Script
    body: Script
    until: bool = False


@dataclass(slots=True)
class For:
    """A ``for``. ``words`` None: over ``"$@"``. ``select``: the ``select`` command."""

    name: str
    words: Sequence[Word] | None
    body: Script
    select: bool = False


@dataclass(slots=True)
class ArithmeticFor:
    """``for ((init; test; step))``."""

    parts: tuple[Word, Word, Word]
    body: Script


@dataclass(slots=True)
class CaseItem:
    """An item of ``case``. ``ends`` is ``;;``, ``;&`` or ``;;&``."""

    patterns: Sequence[Word]
    body: Script
    ends: str = ";;"


@dataclass(slots=True)
class Case:
    subject: Word
    items: Sequence[CaseItem]


@dataclass(slots=True)
class Function:
    name: str
    body: Command


@dataclass(slots=True)
class ArithmeticCommand:
    """``((...))``."""

    text: Word


@dataclass(slots=True)
class Conditional:
    """``[[ ... ]]``. ``words`` are in order, operators as Plain words. Bash runs command substitutions in them."""

    words: Sequence[Word]


@dataclass(slots=True)
class Coproc:
    name: str
    body: Command


@dataclass(slots=True)
class Redirected:
    """A compound command (or function body) with redirects after it."""

    command: Command
    redirects: Sequence[Redirect]


Command: TypeAlias = (
    Simple
    | Pipeline
    | AndOr
    | Group
    | Subshell
    | If
    | Loop
    | For
    | ArithmeticFor
    | Case
    | Function
    | ArithmeticCommand
    | Conditional
    | Coproc
    | Redirected
)


@dataclass(slots=True)
class ScriptItem:
    """A command. ``background``: ended by ``&``."""

    command: Command
    background: bool = False


@dataclass(slots=True)
class Script:
    """Commands in sequence. ``lines[i]`` is the 0-based line of item i: an alias is valid from the line after its definition."""

    items: Sequence[ScriptItem]
    lines: Sequence[int] = ()
