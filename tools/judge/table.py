"""Builders for a row of the rules table: a command's name, a test on its resolved arguments, and the reason to ask.

    rule("fs.recursive-delete", "ask", "rm", opt("-r -R --recursive"), "deletes a folder with all that is in it",
         yes="rm -rf build", no="rm -f a.log", paths=operands, roots=True)

Tests are built with ``opt``, ``word``, ``sub``, ``operand``, ``text``, ``reads``, ``env``; ``&``, ``|`` and ``~`` join them.
They see words as the program would get them, without quoting, variables and wrappers. Every row must flag its ``yes`` commands,
and no row may flag a ``no`` command; the tests check this for the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from tools.judge.effects import Effect
from tools.judge.file_view import Looks
from tools.judge.findings import Level
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Value
from tools.judge.options import CUSTOM, GivenOption, Reading, grammar, path_of, read

_NONE: frozenset[str] = frozenset()
_SAYS = Regex(r"--help|--version|--dry-?run|--simulate|--just-print|--whatif|--noop")
_REALLY = Regex(r"none|false|server")


class ActView:
    """An act's arguments, read once as its program reads them, for many rules."""

    __slots__ = ("_below", "_joined", "_operands", "_readings", "_said", "act", "assigned", "name", "path", "sockets", "words")

    def __init__(self, act: Act, path: str | None = None) -> None:
        self.act = act
        self.name = act.name
        self.path = path_of(act.name) if path is None else path
        """The program and subcommand of these options, as named in tools/judge/options.py."""
        self.assigned: list[tuple[str, Value]] | None = None
        """Variables that the command sets; filled by the first rule about them."""
        self.sockets: dict[str, str] | None = None
        """Kinds of sockets that the command names, with their paths; filled by the first rule about them."""
        self._joined: str | None = None
        self._said: list[str] | None = None
        self._readings: dict[frozenset[str], Reading] = {}
        self._operands: dict[frozenset[str], list[Value]] = {}
        self._below: dict[tuple[int, str], ActView] = {}
        self.words: list[str] = [value.text for value in act.argv[1:]]
        """argv[1:] as texts, with abbreviated options in full."""
        if self.path:
            self._spell()

    def _spell(self) -> None:
        words = self.words
        for given in self.read().options:
            before = words[given.at - 1]
            if given.name[:2] == "--" and not before.startswith(given.name):
                words[given.at - 1] = given.name + before[len(before.partition("=")[0]) :]

    @property
    def said(self) -> list[str]:
        """The words, without separate values of options if the program's grammar is known."""
        if self._said is None:
            apart = {given.value_at - 1 for given in self.read().options if given.value_at > given.at} if self.path else None
            self._said = [text for at, text in enumerate(self.words) if at not in apart] if apart else self.words
        return self._said

    @property
    def joined(self) -> str:
        """The arguments with a blank between them, for tests on whole texts (SQL, option values)."""
        if self._joined is None:
            self._joined = " ".join(self.words)
        return self._joined

    def read(self, valued: frozenset[str] = _NONE) -> Reading:
        """Return the options and operands. ``valued``: options with a value, for a program without a grammar."""
        found = self._readings.get(valued)
        if found is None:
            posix = "POSIXLY_CORRECT" in self.act.environment
            found = self._readings[valued] = read(("", *self.words), self.path, valued, posix=posix)
        return found

    def operands(self, valued: frozenset[str] = _NONE) -> list[Value]:
        """Return the arguments that are not options or separate values of options (see ``read``). Do not change the list."""
        found = self._operands.get(valued)
        if found is None:
            argv = self.act.argv
            found = self._operands[valued] = [argv[at] for at in self.read(valued).operands]
        return found

    def after(self, sub: Sequence[str]) -> list[Value]:
        """Return the operands after the first words ``sub`` (``git remote add`` -> the added remote)."""
        return self.operands()[len(sub) :]

    def values(self, names: frozenset[str]) -> list[Value]:
        """Return the values of the options in ``names``: ``-o X``, ``-oX``, ``-sSo X``, ``--output X``, ``--output=X``."""
        argv = self.act.argv
        return [
            argv[given.value_at] if given.value_at != given.at else argv[given.at]._replace(text=given.value, shown="")
            for given in self.read(names).options
            if given.value is not None and given.name in names
        ]

    def below(self, at: int, path: str) -> ActView:
        """Return a view of the words after the subcommand at index ``at`` of argv. ``path``: the subcommand in the grammar."""
        found = self._below.get((at, path))
        if found is None:
            found = self._below[at, path] = ActView(self.act.called(self.act.argv[at:]), path)
        return found

    def dry(self) -> bool:
        """Return whether an option makes the command a dry run, or makes the program only print its help or version."""
        reading = self.read()
        rules = grammar(reading.path)
        before: GivenOption | None = None
        for given in reading.options:
            maybe = before is not None and before.at == given.at - 1 and before.value is None and not rules.knows(before.name)
            before = given
            if given.name not in rules.dry and (not _SAYS.fullmatch(given.name) or given.name in rules.valued):
                continue
            if given.value is not None and _REALLY.match(given.value):
                continue
            if self._certain(given.at) if rules is CUSTOM else not maybe:
                return True
        return False

    def _certain(self, at: int) -> bool:
        """Return whether the word at ``at`` is the command's last word, and can't be the value of an unknown option."""
        before = self.words[at - 2] if at > 1 else ""
        return at == len(self.words) and (before[:1] != "-" or "=" in before or _SAYS.fullmatch(before) is not None)


class Test:
    """A test of a view with a boolean result; combine tests with ``&``, ``|``, ``~``.

    ``needs``: at least one of these must be among the command's words, otherwise the result is False. This skips most rows of a
    program with subcommands. None if there is no such condition.
    """

    __slots__ = ("ask", "needs")

    def __init__(self, ask: Callable[[ActView], bool], needs: frozenset[str] | None = None) -> None:
        self.ask = ask
        self.needs = needs

    def __call__(self, view: ActView) -> bool:
        return self.ask(view)

    def __and__(self, other: Test) -> Test:
        one, two = self.ask, other.ask
        return Test(lambda view: one(view) and two(view), self.needs if self.needs is not None else other.needs)

    def __or__(self, other: Test) -> Test:
        one, two = self.ask, other.ask
        needs = self.needs | other.needs if self.needs is not None and other.needs is not None else None
        return Test(lambda view: one(view) or two(view), needs)

    def __invert__(self) -> Test:
        one = self.ask
        return Test(lambda view: not one(view))


ANY = Test(lambda _view: True)
"""The command's name is enough."""


def opt(names: str) -> Test:
    """Test for one of these options: ``opt("-r -R --recursive")``.

    A short option counts in a cluster too (``-rf``). A long option counts with ``=value``, or abbreviated to three letters or
    more as GNU getopt allows (``--recurs``). For programs with long options after one dash use ``word``.
    """
    wanted = frozenset(names.split())
    longs = [name for name in wanted if name.startswith("--")]

    def ask(view: ActView) -> bool:
        for given in (reading := view.read()).options:
            name = given.name
            if name in wanted:
                return True
            short = len(name) < 5 or name[1] != "-" or not longs
            if not short and not grammar(reading.path).knows(name) and any(one.startswith(name) for one in longs):
                return True
        return False

    return Test(ask)


def word(pattern: str, flags: int = 0) -> Test:
    """Test for an argument that fully matches this regular expression: ``word("-delete")``, ``word(r"--del(ete)?")``.

    An argument that is the value of an option does not count, if the program's grammar is known.
    """
    regex = Regex(pattern, flags)
    return Test(lambda view: any(map(regex.fullmatch, view.said)))


def sub(words: str, valued: str = "-C -c -n -H -p -f --git-dir --work-tree --namespace --context --kubeconfig --file") -> Test:
    """Test whether these are the first operands: ``sub("remote add|set-url")``. Alternatives for one word are joined by ``|``.

    Options may precede the operands; those in ``valued`` take the next word as their value.
    """
    wanted = [frozenset(one.split("|")) for one in words.split()]
    takes = frozenset(valued.split())

    def ask(view: ActView) -> bool:
        given = view.operands(takes)
        return len(given) >= len(wanted) and all(value.text in ok for value, ok in zip(given, wanted, strict=False))

    return Test(ask, wanted[0])


def value(names: str, pattern: str, flags: int = 0) -> Test:
    """Test for an option's value that fully matches a regular expression: ``value("-X --request", "DELETE")``."""
    regex, wanted = Regex(pattern, flags), frozenset(names.split())
    return Test(lambda view: any(regex.fullmatch(given.text) for given in view.values(wanted)))


def operand(pattern: str, at: int | None = None, flags: int = 0) -> Test:
    """Test for an operand, or the one at index ``at`` (negative from the end), that fully matches this regular expression."""
    regex = Regex(pattern, flags)

    def ask(view: ActView) -> bool:
        given = view.operands()
        if at is not None:
            given = given[at : at + 1 or None]
        return any(regex.fullmatch(value.text) for value in given)

    return Test(ask)


def text(pattern: str, flags: int = re.IGNORECASE | re.DOTALL) -> Test:
    """Test for this regular expression in the arguments, joined by blanks."""
    regex = Regex(pattern, flags)
    return Test(lambda view: regex.search(view.joined) is not None)


def reads(pattern: str, flags: int = re.IGNORECASE | re.DOTALL) -> Test:
    """Test for a regular expression in the command's standard input, as far as that is known."""
    regex = Regex(pattern, flags)
    return Test(lambda view: view.act.stdin is not None and regex.search(view.act.stdin.text) is not None)


def env(names: str) -> Test:
    """Test for one of these variables in the command's environment."""
    wanted = frozenset(names.split())
    return Test(lambda view: not wanted.isdisjoint(view.act.environment))


def count(least: int) -> Test:
    """Test for at least this number of operands."""
    return Test(lambda view: len(view.operands()) >= least)


FED = Test(lambda view: view.act.fed)
"""Test for arguments that come from a list that is made while the command runs (xargs, find -exec)."""

UNKNOWN = Test(lambda view: any(HOLE in text for text in view.words))
"""Test for an argument that is completely or partly unknown."""

DRY = Test(ActView.dry)
"""Test for a dry run of the command."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. ``key``, with ``@`` and the result of ``at`` if there is one, is the key that a grant covers.

    ``names``: the commands that the row applies to (families: ``mkfs`` covers ``mkfs.ext4``, ``python`` covers ``python3.12``).
    ``paths`` returns the arguments that are paths, which a grant must cover. ``roots``: if one of these paths is a system root or
    a home, the finding is a block and its key gets ``-root``. ``dry``: whether DRY makes the command harmless. ``seen`` is called
    last, may look at files, and returns False if their state makes the command harmless. ``bound`` returns the settings that a
    grant depends on, given the home; None if they are unknown, and then no grant covers the finding. ``effect`` replaces the
    effect of ``key``.
    """

    key: str
    level: Level
    names: tuple[str, ...]
    test: Test
    why: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    at: Callable[[ActView], str] | None = None
    paths: Callable[[ActView], Sequence[Value]] | None = None
    roots: bool = False
    dry: bool = True
    seen: Callable[[ActView, Looks], bool] | None = None
    bound: Callable[[ActView, Looks, str], tuple[tuple[str, str], ...] | None] | None = None
    effect: Effect | None = None


def rule(
    key: str,
    level: Level,
    names: str,
    test: Test,
    why: str,
    *,
    yes: str | Sequence[str],
    no: str | Sequence[str],
    at: Callable[[ActView], str] | None = None,
    paths: Callable[[ActView], Sequence[Value]] | None = None,
    roots: bool = False,
    dry: bool = True,
    seen: Callable[[ActView, Looks], bool] | None = None,
    bound: Callable[[ActView, Looks, str], tuple[tuple[str, str], ...] | None] | None = None,
    effect: Effect | None = None,
) -> Rule:
    """Make a row of the table; ``names`` are separated by blanks. See Rule."""
    filed_under = tuple(names.split())
    return Rule(key, level, filed_under, test, why, _several(yes), _several(no), at, paths, roots, dry, seen, bound, effect)


def operands(view: ActView) -> list[Value]:
    """Return every operand, for ``paths=``."""
    return view.operands()


def last(view: ActView) -> list[Value]:
    """Return the last operand, which cp, mv, ln and similar commands write to, for ``paths=``."""
    return view.operands()[-1:]


def first_operand(view: ActView) -> str:
    """Return the first operand, for ``at=``."""
    given = view.operands()
    return given[0].text if given else ""


def nth_operand(index: int) -> Callable[[ActView], str]:
    """Return a function for ``at=`` that returns the operand at ``index``; "" if there are fewer."""

    def at(view: ActView) -> str:
        given = view.operands()
        return given[index].text if len(given) > index else ""

    return at


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
