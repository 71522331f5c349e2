"""Writes whose target depends on a list, a folder or a pattern, and may be a start file, keys or one of toolcrib's own files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from tools.judge.findings import Level
from tools.judge.finds import FINDERS
from tools.judge.folders import under
from tools.judge.meaning.act import Act
from tools.judge.meaning.output import lists_files
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import HOLE, Taint, Value, plain, unglobbed
from tools.judge.own_file_names import SECRETS, may_be_kept
from tools.judge.path_rules import START_FILES
from tools.judge.paths import path_rules, spelled
from tools.judge.walks import listed
from tools.judge.writes import Touch

_BY_LIST = Taint.FOUND | Taint.MANY
_READ = frozenset({"py", "pth", "so", "pyc", "pyi", "cfg", "toml", "yaml", "yml", "json", "sh", "sql", "db", "env"})
"""Endings of files that toolcrib, or a package beside it, may run or read."""
_SAMPLES = (
    *(f".{name}" for name in START_FILES),
    *(".ssh/authorized_keys", ".ssh/config", ".local/bin/x", ".config/autostart/x.desktop", ".config/systemd/user/x.service"),
    *(".config/fish/config.fish", ".config/git/config", ".bashrc.d/x", ".emacs.d/init.el"),
)
_MOST_WORDS = 2_000
_UNKNOWN = "its files are only known when it runs"
_START = f"may change what runs when a shell, editor or session starts: {_UNKNOWN}"
_KEYS = f"may replace keys and credentials: {_UNKNOWN}"
_SYSTEM = f"may change any file of the system: {_UNKNOWN}"
_OURS = {
    "self.installed": f"may change toolcrib's own installed code, or the Python that runs it: {_UNKNOWN}",
    "self.above": f"may change toolcrib's own settings or state: {_UNKNOWN}",
}

Reason = tuple[str, Level, str]


class Targets:
    """The dangerous files that writes to unknown or partly unknown paths may reach.

    ``closed``: toolcrib's own folders and files, absolute, by the key of a finding about them. ``inspect_path`` inspects a
    file. ``lists``: texts that may name files, and that the judge followed only in part.
    """

    def __init__(
        self, home: str, closed: Mapping[str, Sequence[str]], inspect_path: Callable[[str], Seen], lists: Sequence[str] = ()
    ) -> None:
        self._home, self._closed, self._inspect, self._lists = home, closed, inspect_path, lists
        self._listers: list[Act] = []

    def record_act(self, act: Act) -> None:
        """Record a program that may list files, because later commands may write the files that it found."""
        if act.name and not act.place and lists_files(act.name, act.argv):
            self._listers.append(act)

    def reasons(self, act: Act, touch: Touch) -> Iterator[Reason]:
        """Yield (key, level, why) for each dangerous file that a write to a partly unknown path may change."""
        if touch.mode != "write" or act.place:
            return
        value = unglobbed(touch.path) if touch.path.pattern else touch.path
        if value.text == HOLE and value.taint & Taint.COMPUTED:
            yield from dict.fromkeys(self._of_listed(f"/{HOLE}"))
            return
        from_list = bool((value.taint | act.taint) & _BY_LIST) or act.fed
        if from_list and (value.text[0] == HOLE or not FINDERS.isdisjoint(act.wrappers)):
            found = (reason for path in self._listed(act, value) for reason in self._of_listed(path))
        else:
            paths = (
                path
                for path in spelled(value, act.cwds, self._home)
                if from_list or act.language != "shell" or _is_specific(path)
            )
            found = (reason for path in paths for reason in self._of(path, listed=False))
        yield from dict.fromkeys(found)

    def _listed(self, act: Act, value: Value) -> Iterator[str]:
        """Yield the absolute paths, with HOLEs, that the recorded programs may have listed or that ``lists`` name."""
        tail = value.text.rpartition(HOLE)[2]
        for lister in self._listers:
            yield from (plain(path + tail) for path in listed(lister, self._home))
        words = dict.fromkeys(word for text in self._lists for word in text.split())
        for word in itertools.islice(words, _MOST_WORDS):
            yield from spelled(Value(word + tail), act.cwds, self._home)
        if len(words) > _MOST_WORDS:
            yield f"/{HOLE}{tail}"

    def _of_listed(self, path: str) -> Iterator[Reason]:
        yield from self._of(path, listed=True)
        if path[:2] == f"/{HOLE}":
            yield "system.file", "ask", _SYSTEM
        for rule in path_rules(path, "write", self._home):
            yield rule.key, rule.level, rule.why

    def _of(self, path: str, *, listed: bool) -> Iterator[Reason]:
        if self._home and HOLE in path and any(_may_be(path, f"{self._home}/{name}") for name in _SAMPLES):
            yield "persist.start-file", "ask-once", _START
        if self._home and HOLE in path and any(_may_be(path, f"{self._home}/{name}") for name in SECRETS):
            yield "secret.keys", "ask", _KEYS
        for key, closed in self._closed.items():
            if any(self._is_in(own, path, listed=listed) for own in closed):
                yield key, "ask-once", _OURS[key]

    def _is_in(self, own: str, path: str, *, listed: bool) -> bool:
        """Return whether ``path`` may be ``own``, or a file in it that toolcrib reads."""
        start, hole, _ = path.partition(HOLE)
        if not hole or under(start, own):
            return under(start, own)
        called = path.rpartition("/")[2]
        name = called.rpartition(HOLE)[2]
        read = "." not in name or name.rpartition(".")[2] in _READ or may_be_kept(called)
        if not read or not own.startswith(start):
            return False
        if not listed:  # a shell's pattern, which does not descend into folders
            return (own[len(start) : len(start) + 1] != "." or start[-1:] != "/") and path.count("/") >= own.count("/")
        return not self._is_project(start.rstrip("/"), own)

    def _is_project(self, top: str, own: str) -> bool:
        """Return whether a walk begins at the top of a git repository that contains ``own``, as a virtual environment may be."""
        return top not in ("", self._home) and under(own, top) and self._inspect(f"{top}/.git").kind != "missing"


def _is_specific(path: str) -> bool:
    """Return whether the known part of a hidden file's name is more than its dot: ``~/.bash…``."""
    name = path.rpartition("/")[2]
    return name[:1] == "." and any(char.isalpha() for char in name.replace(HOLE, ""))


def _may_be(path: str, name: str) -> bool:
    """Return whether the absolute ``path`` may be ``name``, with any text in place of its HOLEs."""
    first, *others = path.split(HOLE)
    last = others.pop()
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in others:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
