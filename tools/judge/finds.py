"""Walks of programs that list files: where they begin, and which names they may print or pass on."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Value
from tools.judge.options import read
from tools.judge.paths import spelled

FINDERS = frozenset({"find", "gfind", "bfs", "fd", "fdfind"})
_DEEPEST = 99
_MOST = 64
"""Maximum number of combinations of names; beyond it, any name may be found."""


class Filter(NamedTuple):
    """A filter. ``pattern`` is for names, or for ``whole`` paths, where ``*`` also matches slashes."""

    pattern: str
    whole: bool = False


Choices = Sequence[Sequence[Filter]]
"""Alternatives: a result matches all filters of one of them. One without filters allows any result."""
ANYTHING: Choices = ((),)


class Finds(NamedTuple):
    """A walk. ``starts``: absolute folders or patterns; ``hidden``: hidden folders are included; ``named``: absolute paths and
    patterns that are listed themselves.
    """

    starts: Sequence[str] = ()
    choices: Choices = ANYTHING
    depth: int = _DEEPEST
    hidden: bool = True
    named: Sequence[str] = ()


def finds(act: Act, home: str = "") -> Finds | None:
    """Return what a program lists; None if it lists no files, or only files that other rules cover."""
    name = act.name
    if name in ("fd", "fdfind"):
        return _fd(act, home)
    if name in FINDERS:
        return _find(act, home)
    if name.endswith("locate") or name == "mdfind":
        return Finds(("/",), [(_substring(one.text),) for one in act.argv[1:] if one.text[:1] != "-"])
    if name in _NAMERS:
        return _named(act, home)
    return None


# find


_STARTS_AFTER = frozenset({"-H", "-L", "-P"})
_TAKES_WORD = frozenset(
    "-newer -anewer -cnewer -samefile -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin -user -group -uid -gid -perm"
    " -links -inum -fstype -lname -ilname -regex -iregex -used -context -D -files0-from -regextype -maxdepth -mindepth -since"
    " -newermt -newerat -newerct -limit".split()
)
_ACTIONS = frozenset(
    "-exec -execdir -ok -okdir -print -print0 -printf -fprint -fprint0 -fprintf -ls -fls -delete -printx".split()
)
_ACTION_WORDS = {"-printf": 1, "-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_OR = frozenset({"-o", "-or", ","})
_NOT = frozenset({"!", "-not"})
_NAME = frozenset({"-name", "-iname"})
_PATH = frozenset({"-path", "-ipath", "-wholename", "-iwholename"})


def _find(act: Act, home: str) -> Finds:
    given = list(act.argv[1:])
    at = 0
    while at < len(given) and (given[at].text in _STARTS_AFTER or given[at].text[:2] in ("-O", "-D")):
        at += 2 if given[at].text == "-D" else 1
    starts: list[Value] = []
    while at < len(given) and given[at].text[:1] not in ("-", "(", "!", ","):
        starts.append(given[at])
        at += 1
    words = [value.text for value in given[at:]]
    depth = next((int(words[i + 1]) for i, word in enumerate(words[:-1]) if word == "-maxdepth" and words[i + 1].isdigit()), 0)
    places = [path for one in starts or [Value(".")] for path in spelled(one, act.cwds, home)]
    return Finds(places, _Expression(words, act, home).choices(), depth if "-maxdepth" in words else _DEEPEST)


class _Expression:
    """The tests of find, from left to right: each action has the filters that certainly hold for its files."""

    def __init__(self, words: Sequence[str], act: Act, home: str) -> None:
        self._words, self._at, self._act, self._home = words, 0, act, home
        self._acted: list[Sequence[Filter]] = []
        self._acts = False

    def choices(self) -> Choices:
        """Return the filters for the files that find prints or acts on."""
        all_of = self._alternatives([()], 0)
        found = self._acted if self._acts else all_of
        return found if len(found) <= _MOST else ANYTHING

    def _alternatives(self, before: list[Sequence[Filter]], depth: int) -> list[Sequence[Filter]]:
        done: list[Sequence[Filter]] = []
        now, denied = before, False
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            if word in (")", "\\)"):
                break
            if word in _OR:
                done, now = [*done, *now], before
            elif word in ("(", "\\("):
                inner = self._alternatives(now, depth + 1) if depth < _MOST else now
                now = now if denied else inner
            elif word in _NAME or word in _PATH:
                filtered = self._filter(self._next(), whole=word in _PATH)
                now = now if denied else [(*one, filtered) for one in now]
            elif word in _ACTIONS:
                self._acts = True
                self._acted += now
                self._skip(word)
            elif word in _TAKES_WORD or word.startswith("-newer"):
                self._at += 1
            elif word == HOLE:  # unknown words
                now = before = [()]
            denied = (not denied) if word in _NOT else False
            if len(now) > _MOST or len(self._acted) > _MOST:
                now, self._acted = [()], [()]
        return [*done, *now]

    def _next(self) -> str:
        self._at += 1
        return self._words[self._at - 1] if self._at <= len(self._words) else HOLE

    def _skip(self, action: str) -> None:
        """Skip the words of an action."""
        self._at += _ACTION_WORDS.get(action, 0)
        if action in _RUNS:
            while self._at < len(self._words):
                word = self._words[self._at]
                self._at += 1
                if word in (";", "\\;") or (word == "+" and self._words[self._at - 2] == "{}"):
                    break

    def _filter(self, pattern: str, *, whole: bool) -> Filter:
        if whole and pattern[:1] in (".", "~"):  # a path is compared with its start folder as given: ``find .. -path '../x/*'``
            pattern = next(iter(spelled(Value(pattern), self._act.cwds, self._home)), HOLE)
        return Filter(pattern, whole)


# fd

_FD_VALUED = frozenset(
    "-d --max-depth --min-depth --exact-depth -E --exclude -t --type -e --extension -S --size --changed-within --changed-before"
    " -o --owner -c --color -j --threads --max-results --base-directory --search-path --path-separator --ignore-file".split()
)
_FD_RUNS = frozenset({"-x", "-X", "--exec", "--exec-batch"})
_HIDDEN = Regex(r"--hidden|--unrestricted|-[a-zA-Z]*[Hu][a-zA-Z]*")
_WORD = Regex(r"[\w. -]*")


def _fd(act: Act, home: str) -> Finds:
    given = list(act.argv[1:])
    end = next((at for at, value in enumerate(given) if value.text in _FD_RUNS), len(given))
    operands: list[Value] = []
    options: dict[str, list[Value]] = {}
    words = iter(given[:end])
    for value in words:
        text = value.text
        if text in _FD_VALUED:
            options.setdefault(text, []).append(next(words, Value(HOLE)))
        elif text[:2] == "--" and "=" in text:
            name, _, said = text.partition("=")
            options.setdefault(name, []).append(value._replace(text=said))
        elif text[:1] != "-" or text == "-":
            operands.append(value)
        else:
            options.setdefault(text, []).append(value)
    starts = [*operands[1:], *options.get("--search-path", ()), *options.get("--base-directory", ())]
    endings = [one.text for name in ("-e", "--extension") for one in options.get(name, ())]
    choices: Choices = [(Filter(f"*.{one.lstrip('.')}"),) for one in endings] or ANYTHING
    if operands and not endings:
        choices = ((_of_regex(operands[0].text, glob=not options.keys().isdisjoint(("-g", "--glob"))),),)
    if not options.keys().isdisjoint(("-p", "--full-path")) and not endings:
        choices = ANYTHING
    depths = [int(one.text) for name in ("-d", "--max-depth") for one in options.get(name, ()) if one.text.isdigit()]
    hidden = any(_HIDDEN.fullmatch(one) for one in options)
    places = [path for one in starts or [Value(".")] for path in spelled(one, act.cwds, home)]
    return Finds(places, choices, min(depths, default=_DEEPEST), hidden)


def _of_regex(text: str, *, glob: bool) -> Filter:
    """Return a filter for the names that fd finds; ``*`` if the regular expression is not simple."""
    if glob:
        return Filter(text)
    ended = text.endswith("$")
    plain = text.removesuffix("$").replace("\\.", ".")
    if not _WORD.fullmatch(plain) or ("." in plain and "\\." not in text):
        return Filter("*")
    return Filter(f"*{plain}" if ended else f"*{plain}*")


# programs that print the files that their words name

_NAMERS = frozenset(
    "ls dir vdir tree du echo printf realpath readlink stat file basename dirname compgen rg git eza exa lsd".split()
)
_ALL = Regex(r"--all|--almost-all|--hidden|-[a-zA-Z]*[aA][a-zA-Z]*|-uu+")
_DEEP = Regex(r"--recursive|--tree|-[a-zA-Z]*[RT][a-zA-Z]*")
_LISTED = Regex(r"--files|--others|-[a-z]*o[a-z]*|--all")


def _named(act: Act, home: str) -> Finds:
    words = act.words()
    given = [value for value in act.argv[1:] if value.text[:1] != "-" and value.text]
    named = [path for one in given if "/" in one.text or one.pattern or one.text == ".." for path in spelled(one, act.cwds, home)]
    hidden = any(map(_ALL.fullmatch, words))
    name = act.name
    deep = name == "tree" or (name in ("ls", "dir", "vdir", "eza", "exa", "lsd") and any(map(_DEEP.fullmatch, words)))
    if name == "du":
        deep = hidden  # du -a; it enters hidden folders anyhow
    elif name == "rg":
        deep, hidden = "--files" in words, hidden or any(one in ("-.", "--hidden", "-u", "--no-ignore") for one in words)
    elif name == "git":
        return _listed_by_git(act, home)
    if not deep:
        return Finds(named=named)
    places = [path for one in given or [Value(".")] for path in spelled(one, act.cwds, home)]
    return Finds(places, hidden=hidden, named=named)


def _listed_by_git(act: Act, home: str) -> Finds:
    """Return the result of ``git ls-files -o``: everything in the folder."""
    words = act.words()
    if "ls-files" not in words or not any(map(_LISTED.fullmatch, words[words.index("ls-files") :])):
        return Finds()
    reading = read([value.text for value in act.argv], "git")
    where: Sequence[str] = act.cwds
    for option in reading.options:
        if option.name in ("-C", "--work-tree") and option.value:
            where = spelled(act.argv[option.value_at]._replace(text=option.value), where, home) or where
    return Finds(tuple(where))


def _substring(text: str) -> Filter:
    """Return a filter for the paths that locate prints for a word."""
    return Filter(text if any(char in text for char in "*?[") else f"*{text}*", whole=True)
