"""Reads of a command: other processes' variables and memory, by its words; and whether it takes folders whole."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from toolcrib._regex import Regex
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.options import read, values
from tools.judge.paths import spelled
from tools.judge.procfs import in_code, is_folder, matches_process, names_process, near_processes, relative

_WITH_OPTION = frozenset(
    {"mv", "rm", "chmod", "chown", "shred", "rsync", "cp", "zip", "chgrp", "grep", "egrep", "fgrep", "scp", "diff"}
)
_ALWAYS = frozenset({"mv", "shred", "tar", "gtar", "bsdtar", "rg", "ag", "ack", "ugrep", "7z", "restic", "borg"})
TAKES = _WITH_OPTION | _ALWAYS
"""Commands that take a folder with all that is in it: always, or with an option such as ``-r``."""
_SHOW_NAMES = frozenset({"ls", "stat", "test", "[", "[[", "echo", "printf", "du", "file", "realpath", "readlink", "cd", "pushd"})
"""Commands that print names at most. What a pattern of theirs matches may be read by the next command of the pipe."""


def takes_folders(act: Act) -> bool:
    """Return whether the command reads or takes all that is in a folder."""
    if act.name in _ALWAYS:
        return True
    if act.name not in _WITH_OPTION:
        return False
    letters = "rRa" if act.name in ("cp", "rsync") else "rR"
    return any(text[:1] == "-" and any(one in text for one in letters) for text in act.words())


def processes(act: Act) -> Iterator[Value]:
    """Yield the words, and the code, by which the command reads what other processes keep."""
    near = [there for cwd in act.cwds for there in near_processes(cwd)]
    looks = act.name in _SHOW_NAMES
    for given in (*act.argv[1:], *(target.path for target in act.redirects if target.op == "<")):
        text = given.text
        wild = given.pattern or (HOLE in text and bool(given.taint & Taint.FOUND))
        if looks and not wild:
            continue
        if "/proc" in text or text.startswith("/dev/fd/"):
            inside = near and _CWD.match(text)
            found = (
                names_process(text, fd=not looks)
                or (is_folder(text) and _takes_process(act))
                or (inside and any(map(names_process, relative(text[inside.end() :], near))))
            )
            if found and not _is_pattern(act, given):
                yield given
        elif near:
            paths = relative(text, near)
            if any(map(names_process, paths)) or (any(map(is_folder, paths)) and _takes_process(act)):
                yield given
        elif wild and text[:1] == "/" and matches_process(text):
            yield given
        elif not act.cwds and text == "environ" and act.name != "git" and not _is_pattern(act, given):
            yield given  # in a folder that nobody knows
    for code in act.code:
        if code.language != "shell" and in_code(code.text.text):
            yield code.text._replace(text=code.path or "\N{HORIZONTAL ELLIPSIS}", shown="")


_CWD = Regex(r"/proc/[^/]+/cwd/")
_SEARCH = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep"})
_PATTERNS = frozenset({"-e", "--regexp", "-f", "--file"})


def _is_pattern(act: Act, given: Value) -> bool:
    """Return whether a word is what is searched for, or a text for git, and not a file."""
    if act.name == "git":
        return not given.text.startswith(("/", "."))
    if act.name not in _SEARCH or given not in act.argv:
        return False
    reading = read([value.text for value in act.argv], "", _PATTERNS)
    if any(option.name in _PATTERNS for option in reading.options):
        return any(option.name in ("-e", "--regexp") and act.argv[option.value_at] is given for option in reading.options)
    return bool(reading.operands) and act.argv[reading.operands[0]] is given


def _takes_process(act: Act) -> bool:
    return takes_folders(act) or (act.name == "git" and "grep" in act.words()) or "http.server" in act.words()


_TARS = frozenset({"tar", "gtar", "bsdtar"})
_ELSEWHERE = frozenset({"-C", "--directory", "--cd"})


def places(act: Act, home: str) -> Sequence[str]:
    """Return the folders from which the command's paths may count: besides the working folder, those that tar goes to."""
    if act.name not in _TARS or not any("C" in text or text.startswith("--") for text in act.words()):
        return act.cwds
    where = list(act.cwds)
    for given in values(["tar", *act.words()], "tar", _ELSEWHERE):
        if given.value:
            where += spelled(act.argv[given.value_at]._replace(text=given.value), where, home)
    return where


# what is searched

_SEARCHES_TREE = frozenset({"grep", "egrep", "fgrep", "zgrep"})
_SKIPS_HIDDEN = frozenset({"rg", "ag", "ack"})
_HIDDEN = Regex(r"--hidden|-[a-zA-Z]*(?:uu|\.)[a-zA-Z.]*|--no-ignore|--unrestricted")
_SEARCH_VALUED = _PATTERNS | {
    "-m",
    "--max-count",
    "-A",
    "-B",
    "-C",
    "--include",
    "--exclude",
    "--exclude-dir",
    "-d",
    "-D",
    "-g",
    "-t",
}
_KEPT_NAMES = ("secrets.env", "config.yaml", "toolcrib.db")
"""Names of files with keys and state, of which a search must match one to show it."""
_KEPT_FOLDERS = (".config", ".local", "toolcrib", ".toolcrib")


def searched(act: Act) -> list[str]:
    """The absolute folders that a search goes through with all that is hidden in them."""
    words = act.words()
    if act.name in _SKIPS_HIDDEN:
        if not any(map(_HIDDEN.fullmatch, words)):
            return []
    elif act.name not in _SEARCHES_TREE or not takes_folders(act):
        return []
    reading = read([value.text for value in act.argv], "", _SEARCH_VALUED)
    given = [(one.name, one.value or "") for one in reading.options]
    only = [value for name, value in given if name == "--include"]
    if only and not any(fnmatch.fnmatchcase(kept, one) for kept in _KEPT_NAMES for one in only):
        return []
    if any(fnmatch.fnmatchcase(kept, value) for name, value in given if name == "--exclude-dir" for kept in _KEPT_FOLDERS):
        return []
    patterns = any(name in _PATTERNS for name, _ in given)
    places = [act.argv[at] for at in (reading.operands if patterns else reading.operands[1:])]
    return [path for one in places for path in spelled(one, act.cwds)] if places else list(act.cwds)


# what git takes into a repository

_TAKES_TREE = frozenset({"init", "add", "stage", "stash", "grep", "hash-object", "diff"})
_WHOLE_TREE = frozenset({"--no-index", "--untracked", "-A", "--all", "-u", "--update"})
_BEFORE = frozenset({"-C", "--work-tree"})


def taken_by_git(act: Act) -> list[str]:
    """The absolute files and folders that git reads into a repository, or makes one of; [] for what only reads a repository."""
    words = [value.text for value in act.argv]
    reading = read(words, "git")
    at = reading.operands[0] if reading.operands else 0
    sub = words[at] if at else ""
    if sub not in _TAKES_TREE:
        return []
    where = list(act.cwds)
    for option in reading.options:
        if option.name in _BEFORE and option.at < at and option.value:
            value = act.argv[option.value_at]._replace(text=option.value)
            where = list(spelled(value, where)) or where
    tree = act.environment.get("GIT_WORK_TREE")
    where = spelled(tree, where) if tree is not None else where
    after = read(words[at:], f"git {sub}").operands
    named = [path for place in after for path in spelled(act.argv[at + place], where)]
    whole = not _WHOLE_TREE.isdisjoint(words) if sub in ("grep", "add", "stage") else sub in ("init", "stash")
    return [*named, *(where if whole and not (named and sub == "init") else ())]
