"""Options of programs, read as the programs read them: clusters, attached values, abbreviations, ``--``, subcommands.

``read`` splits a command line by the grammar of its program (``programs.OPTIONS``). Without a grammar, it follows common
practice: letters after one dash are flags, ``--name=value`` has a value, and the caller may name options that take the next word.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.programs import OPTIONS, SAME

_NONE: frozenset[str] = frozenset()


class GivenOption(NamedTuple):
    """An option of a command: ``name`` is its full name, ``at`` is the index of its word.

    ``value`` is None for a flag. ``value_at`` is the index of the value's word, which equals ``at`` if the value is attached.
    """

    name: str
    at: int
    value: str | None = None
    value_at: int = -1


class Reading(NamedTuple):
    """A command line split into parts. ``operands`` are indices; ``end`` is the index of ``--``, or the count of words."""

    options: Sequence[GivenOption]
    operands: Sequence[int]
    end: int
    path: str
    """The program and its subcommands, as far as the grammar has them: ``docker compose run``; "" for an unknown program."""


class Grammar(NamedTuple):
    """Options of one program, or of one of its subcommands.

    ``valued`` take a value, attached or in the next word; ``optional`` only an attached one. ``dry``: options for a dry run.
    ``stops``: after this many operands, no word is an option; with 0, options may be anywhere. ``single``: one dash begins a long
    name (``-auto-approve``). ``bundled``: the first word is letters without a dash (``tar xf``). ``greedy``: an option that is
    not among ``flags`` takes a value. ``exact``: long options are never abbreviated. ``subs``: the first operand is a subcommand.
    """

    valued: frozenset[str] = _NONE
    optional: frozenset[str] = _NONE
    flags: frozenset[str] = _NONE
    longs: tuple[str, ...] = ()
    dry: frozenset[str] = _NONE
    stops: int = 0
    single: bool = False
    bundled: bool = False
    greedy: bool = False
    exact: bool = False
    subs: bool = False

    def knows(self, name: str) -> bool:
        return name in self.flags or name in self.valued or name in self.optional


CUSTOM = Grammar()
"""The grammar of a program that has none of its own."""


def path_of(name: str) -> str:
    """Return the program's name in the tables; "" if they have none."""
    found = SAME.get(name, name)
    return found if found in OPTIONS else ""


def below(path: str, word: str) -> str:
    """Return the path of the subcommand ``word``; ``path`` itself if ``word`` has no grammar and options may be anywhere."""
    found = SAME.get(f"{path} {word}", f"{path} {word}")
    return path if found not in OPTIONS and path and not grammar(path).stops else found


@functools.cache
def grammar(path: str) -> Grammar:
    """Return the grammar of a program or subcommand; CUSTOM if the tables have none."""
    text = OPTIONS.get(path)
    if text is None:
        return CUSTOM
    found: dict[str, set[str]] = {"=": set(), "?": set(), "": set(), "!": set()}
    modes: set[str] = set()
    base = CUSTOM
    for word in text.split():
        if word[0] == "+":
            base = grammar(word[1:].replace("/", " "))
        elif word[0] != "-":
            modes.add(word)
        else:
            name = word.rstrip("=?!")
            marks = word[len(name) :]
            found["?" if "?" in marks else "=" if "=" in marks else ""].add(name)
            if "!" in marks:
                found["!"].add(name)
    valued, optional, flags = base.valued | found["="], base.optional | found["?"], base.flags | found[""]
    every = valued | optional | flags
    return Grammar(
        frozenset(valued),
        frozenset(optional),
        frozenset(flags),
        tuple(sorted(name for name in every if name.startswith("--"))),
        base.dry | found["!"],
        next((int(mode[5:] or 1) for mode in modes if mode.startswith("stops")), 0),
        "single" in modes,
        "bundled" in modes,
        "greedy" in modes,
        "exact" in modes or base.exact,
        any(other.startswith(f"{path} ") for other in OPTIONS),
    )


def read(words: Sequence[str], path: str = "", more: frozenset[str] = _NONE, *, posix: bool = False) -> Reading:
    """Split ``words``, the program first, by the grammar of ``path``.

    ``more`` are options that take a value, unless the grammar disagrees. ``posix``: no word after the first operand is an option
    (POSIXLY_CORRECT).
    """
    given = tuple(words)
    if len(given) > _MOST_WORDS or sum(map(len, given)) > _MOST_CHARS:
        return _read(given, path, more, posix)
    return _known(given, path, more, posix)


_MOST_WORDS, _MOST_CHARS = 32, 1_000
"""Maximum numbers of words and characters of a command line whose Reading is cached. Many rules read the same command line."""


def _read(words: Sequence[str], path: str, more: frozenset[str], posix: bool) -> Reading:
    reader = _Reader(words, path, more)
    at, last = 1, len(words)
    if reader.rules.bundled and last > 1 and words[1][:1] not in ("-", "") and words[1].isalpha():
        at = reader.bundle()
    while at < last:
        text = words[at]
        rules = reader.rules
        if len(text) < 2 or text[0] != "-":
            reader.operands.append(at)
            at += 1
            if rules.subs:
                reader.enter(text)
                continue
            reader.since += 1
            if (rules.stops and reader.since >= rules.stops) or posix:
                break
        elif text == "--":
            if reader.since + 1 < rules.stops:
                at += 1
                continue
            reader.operands.extend(range(at + 1, last))
            return Reading(tuple(reader.options), tuple(reader.operands), at, reader.path)
        elif text[1] == "-" or rules.single:
            at = reader.long(at)
        else:
            at = reader.cluster(at)
    reader.operands.extend(range(at, last))
    return Reading(tuple(reader.options), tuple(reader.operands), last, reader.path)


_known = functools.lru_cache(maxsize=1_024)(_read)


def values(words: Sequence[str], path: str, names: frozenset[str]) -> list[GivenOption]:
    """Return the options among ``names`` that have a value in the command."""
    return [one for one in read(words, path, names).options if one.name in names and one.value is not None]


class _Reader:
    """A command line that is being read."""

    __slots__ = ("more", "operands", "options", "path", "rules", "since", "words")

    def __init__(self, words: Sequence[str], path: str, more: frozenset[str]) -> None:
        self.words = words
        self.path = path
        self.more = more
        self.rules = grammar(path)
        self.options: list[GivenOption] = []
        self.operands: list[int] = []
        self.since = 0
        """Number of operands since the last subcommand."""

    def enter(self, word: str) -> None:
        """Continue with the grammar of a subcommand."""
        self.path = below(self.path, word)
        self.rules = grammar(self.path)

    def takes(self, name: str) -> bool:
        """Return whether an option has a value that may be the next word."""
        rules = self.rules
        if name in rules.valued:
            return True
        return name not in rules.flags and name not in rules.optional and (name in self.more or rules.greedy)

    def long(self, at: int) -> int:
        text = self.words[at]
        name, equals, value = text.partition("=")
        rules = self.rules
        if rules.single:
            name = name[1:] if name[:2] == "--" and not rules.knows(name) else name
        elif not rules.exact and not rules.knows(name):
            name = self.spelled(name)
        if equals:
            self.options.append(GivenOption(name, at, value, at))
            return at + 1
        return self.with_next(name, at)

    def spelled(self, name: str) -> str:
        """Return the long option that ``name`` abbreviates, of several the one in ``more``; ``name`` itself if there is none."""
        fitting = [other for other in self.rules.longs if other.startswith(name)]
        wanted = [other for other in fitting if other in self.more] if len(fitting) > 1 else fitting
        return wanted[0] if wanted else name

    def with_next(self, name: str, at: int) -> int:
        if self.takes(name) and at + 1 < len(self.words):
            self.options.append(GivenOption(name, at, self.words[at + 1], at + 1))
            return at + 2
        self.options.append(GivenOption(name, at))
        return at + 1

    def cluster(self, at: int) -> int:
        text = self.words[at]
        if len(text) > 2:
            head, equals, value = text.partition("=")
            if equals and len(head) > 2 and head in self.more:
                self.options.append(GivenOption(head, at, value, at))
                return at + 1
            if text in self.more or text in self.rules.valued:
                return self.with_next(text, at)
        for index in range(1, len(text)):
            name = f"-{text[index]}"
            rest = text[index + 1 :]
            if rest and (rest[0] == "=" or name in self.rules.optional or self.takes(name)):
                self.options.append(GivenOption(name, at, rest.removeprefix("="), at))
                return at + 1
            if not rest:
                return self.with_next(name, at)
            self.options.append(GivenOption(name, at))
        return at + 1

    def bundle(self) -> int:
        """Read ``tar cfC a.tar dir``: letters without a dash, whose values follow in their order."""
        at = 2
        for letter in self.words[1]:
            name = f"-{letter}"
            if self.takes(name) and at < len(self.words):
                self.options.append(GivenOption(name, 1, self.words[at], at))
                at += 1
            else:
                self.options.append(GivenOption(name, 1))
        return at
