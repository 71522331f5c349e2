"""Builders for a row of the rules table: a command's name, a test on its resolved arguments, and the reason to ask.

    rule("fs.recursive-delete", "ask", "rm", opt("-r -R --recursive"), "deletes a folder with all that is in it",
         yes="rm -rf build", no="rm -f a.log", paths=operands, roots=True)

Tests are built with ``opt``, ``word``, ``sub``, ``operand``, ``text``, ``reads``, ``env``; ``&``, ``|`` and ``~`` join them.
They see words as the program would get them: quoting, variables and wrappers are gone. Every row's ``yes`` commands must be
flagged by it and its ``no`` commands by no row at all; the tests hold the whole table to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from toolcrib._dataclass import dataclass
from toolcrib._regex import Regex
from tools.approval.findings import Level
from tools.approval.meaning.act import Act
from tools.approval.meaning.value import HOLE, Value


class ActView:
    """An act's arguments, taken apart once and looked at by many rules."""

    __slots__ = ("_joined", "_operands", "act", "name", "words")

    def __init__(self, act: Act) -> None:
        self.act = act
        self.name = act.name
        self.words: list[str] = [value.text for value in act.argv[1:]]
        """argv[1:] as texts."""
        self._joined: str | None = None
        self._operands: dict[frozenset[str], list[Value]] = {}

    @property
    def joined(self) -> str:
        """The arguments with a blank between them, for tests on whole texts (SQL, option values)."""
        if self._joined is None:
            self._joined = " ".join(self.words)
        return self._joined

    def options(self) -> Iterator[str]:
        """The words before ``--`` that begin with a dash and are not just one."""
        for text in self.words:
            if text == "--":
                return
            if len(text) > 1 and text[0] == "-":
                yield text

    def operands(self, valued: frozenset[str] = frozenset()) -> list[Value]:
        """The arguments that are neither options nor the separate values of the options in ``valued``. Not to be changed."""
        found = self._operands.get(valued)
        if found is None:
            found = self._operands[valued] = self._without_options(valued)
        return found

    def _without_options(self, valued: frozenset[str]) -> list[Value]:
        found: list[Value] = []
        skip = ended = False
        for value in self.act.argv[1:]:
            text = value.text
            if skip:
                skip = False
            elif ended or len(text) < 2 or text[0] != "-":
                found.append(value)
            elif text == "--":
                ended = True
            else:
                skip = text in valued
        return found

    def after(self, sub: Sequence[str]) -> list[Value]:
        """The operands after the first words ``sub`` (``git remote add`` -> what is added)."""
        return self.operands()[len(sub) :]

    def values(self, names: frozenset[str]) -> list[Value]:
        """Return the values of the options in ``names``: ``-o X``, ``-oX``, ``--output X``, ``--output=X``.

        A short option counts behind other letters too (``-sSo X``).
        """
        found: list[Value] = []
        argv = self.act.argv
        last = len(argv) - 1
        for index, text in enumerate(self.words, start=1):
            if len(text) < 2 or text[0] != "-":
                continue
            if text == "--":
                break
            name, equals, _ = text.partition("=")
            if equals and name in names:
                found.append(argv[index]._replace(text=text[len(name) + 1 :], shown=""))
            elif text in names or (text[1] != "-" and "-" + text[-1] in names and text[:2] not in names):
                if index < last:
                    found.append(argv[index + 1])
            elif text[1] != "-" and text[:2] in names:
                found.append(argv[index]._replace(text=text[2:], shown=""))
        return found


class Test:
    """A yes or no about a View; ``&``, ``|``, ``~`` join them.

    ``needs``: one of these must be among the words, or the answer is no: most rows of a program with subcommands are passed over
    by that. None where there is no such condition.
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
    """Test for a given option: ``opt("-r -R --recursive")``.

    A short one counts in a cluster too (``-rf``), a long one with ``=value`` or abbreviated as GNU getopt allows (``--recurs``,
    from three letters on). For programs with long options after one dash use ``word``.
    """
    shorts = "".join(name[1:] for name in names.split() if not name.startswith("--"))
    longs = [name for name in names.split() if name.startswith("--")]

    def ask(view: ActView) -> bool:
        for text in view.options():
            if text[1] != "-":
                if shorts and any(letter in shorts for letter in text[1:]):
                    return True
            elif longs:
                given = text.partition("=")[0]
                if given in longs or (len(given) > 4 and any(name.startswith(given) for name in longs)):
                    return True
        return False

    return Test(ask)


def word(pattern: str, flags: int = 0) -> Test:
    """Test for an argument that is wholly this regular expression: ``word("-delete")``, ``word(r"--del(ete)?")``."""
    regex = Regex(pattern, flags)
    return Test(lambda view: any(map(regex.fullmatch, view.words)))


def sub(words: str, valued: str = "-C -c -n -H -p -f --git-dir --work-tree --namespace --context --kubeconfig --file") -> Test:
    """The first operands are these, after options (those in ``valued`` take the next word): ``sub("remote add|set-url")``.

    Alternatives for one word are joined by ``|``.
    """
    wanted = [frozenset(one.split("|")) for one in words.split()]
    takes = frozenset(valued.split())

    def ask(view: ActView) -> bool:
        given = view.operands(takes)
        return len(given) >= len(wanted) and all(value.text in ok for value, ok in zip(given, wanted, strict=False))

    return Test(ask, wanted[0])


def value(names: str, pattern: str, flags: int = 0) -> Test:
    """Test for an option's value that wholly matches a regular expression: ``value("-X --request", "DELETE")``."""
    regex, wanted = Regex(pattern, flags), frozenset(names.split())
    return Test(lambda view: any(regex.fullmatch(given.text) for given in view.values(wanted)))


def operand(pattern: str, at: int | None = None, flags: int = 0) -> Test:
    """Test for an operand, or the one at index ``at`` (negative from the end), that is wholly this regular expression."""
    regex = Regex(pattern, flags)

    def ask(view: ActView) -> bool:
        given = view.operands()
        if at is not None:
            given = given[at : at + 1 or None]
        return any(regex.fullmatch(value.text) for value in given)

    return Test(ask)


def text(pattern: str, flags: int = re.IGNORECASE | re.DOTALL) -> Test:
    """The arguments, joined by blanks, hold this regular expression."""
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
    """Test for at least so many operands."""
    return Test(lambda view: len(view.operands()) >= least)


FED = Test(lambda view: view.act.fed)
"""Test for arguments that come from a list that is made while the command runs (xargs, find -exec)."""

UNKNOWN = Test(lambda view: any(HOLE in text for text in view.words))
"""Test for an argument that is unknown, wholly or in part."""

DRY = word(r"--help|--version|--dry-?run(=(?!none|false|server).*)?|--simulate|--just-print|--whatif|--noop")
"""Test for a dry run: the command only says what it would do."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. ``key`` is what a grant covers, with ``@`` and what ``at`` returns where there is one.

    ``names``: the commands it is filed under (families: ``mkfs`` covers ``mkfs.ext4``, ``python`` covers ``python3.12``).
    ``paths``: which arguments are the paths that a grant must cover. ``roots``: where one of these is a system root or a home,
    the finding is a block and its key gets ``-root``. ``dry``: whether DRY makes it harmless.
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
) -> Rule:
    """A row of the table; ``names`` are separated by blanks. See Rule."""
    return Rule(key, level, tuple(names.split()), test, why, _several(yes), _several(no), at, paths, roots, dry)


def operands(view: ActView) -> list[Value]:
    """Return every operand, for ``paths=``."""
    return view.operands()


def last(view: ActView) -> list[Value]:
    """Return the last operand, which cp, mv, ln and the like write to, for ``paths=``."""
    return view.operands()[-1:]


def first_operand(view: ActView) -> str:
    """Return the first operand, for ``at=``."""
    given = view.operands()
    return given[0].text if given else ""


def nth_operand(index: int) -> Callable[[ActView], str]:
    """Return the operand at ``index``, "" where there are fewer, for ``at=``."""

    def at(view: ActView) -> str:
        given = view.operands()
        return given[index].text if len(given) > index else ""

    return at


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
