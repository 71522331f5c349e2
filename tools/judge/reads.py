"""Find out from a command's words whether it reads other processes' variables and memory, or whole folders."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.folders import under
from tools.judge.globs import is_wild
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.options import read, values
from tools.judge.own_file_names import below, may_be_kept, overlap
from tools.judge.paths import may_be_above, spelled
from tools.judge.procfs import in_code, is_folder, matches_process, names_process, near_processes, relative

_WITH_OPTION = frozenset(
    {"mv", "rm", "chmod", "chown", "shred", "rsync", "cp", "zip", "chgrp", "grep", "egrep", "fgrep", "zgrep", "scp", "diff"}
)
_ALWAYS = frozenset({"mv", "shred", "tar", "gtar", "bsdtar", "rg", "ag", "ack", "ugrep", "rgrep", "7z", "restic", "borg"})
TAKES = _WITH_OPTION | _ALWAYS
"""Commands that read or change a folder with all its contents: always, or with an option such as ``-r``."""
_SHOW_NAMES = frozenset({"ls", "stat", "test", "[", "[[", "echo", "printf", "du", "file", "realpath", "readlink", "cd", "pushd"})
"""Commands that print names, not contents. Their patterns still count: the next command may read the named files."""


def takes_folders(act: Act) -> bool:
    """Return whether the command reads or changes all contents of a folder."""
    if act.name in _ALWAYS:
        return True
    if act.name not in _WITH_OPTION:
        return False
    letters = "rRa" if act.name in ("cp", "rsync") else "rR"
    return any((text[:1] == "-" and any(one in text for one in letters)) or text == "recurse" for text in act.words())


def processes(act: Act) -> Iterator[Value]:
    """Yield the words, and the code, that make the command read other processes' data."""
    near = _near(tuple(act.cwds))
    looks = act.name in _SHOW_NAMES
    lost = not act.cwds
    words = act.argv[1:]
    if act.redirects:
        words = (*words, *(target.path for target in act.redirects if target.op == "<"))
    for given in words:
        text = given.text
        wild = given.pattern or (HOLE in text and bool(given.taint & Taint.FOUND))
        if not wild and (looks or not (near or lost or "/proc" in text or text[:5] == "/dev/")):
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
            yield given  # the folder is unknown, and may be a process's
    for code in act.code:
        if code.language != "shell" and in_code(code.text.text):
            yield code.text._replace(text=code.path or "\N{HORIZONTAL ELLIPSIS}", shown="")


@functools.lru_cache(maxsize=256)
def _near(cwds: tuple[str, ...]) -> Sequence[str]:
    return [there for cwd in cwds for there in near_processes(cwd)]


_CWD = Regex(r"/proc/[^/]+/cwd/")
_SEARCH = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep"})
_PATTERNS = frozenset({"-e", "--regexp", "-f", "--file"})


def _is_pattern(act: Act, given: Value) -> bool:
    """Return whether a word is a search pattern, or a text for git, and not a file."""
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
    """Return the folders that the command's paths may be relative to: the working folder, and folders that tar changes to."""
    if act.name not in _TARS or not any("C" in text or text.startswith("--") for text in act.words()):
        return act.cwds
    where = list(act.cwds)
    for given in values(["tar", *act.words()], "tar", _ELSEWHERE):
        if given.value:
            where += spelled(act.argv[given.value_at]._replace(text=given.value), where, home)
    return where


# what is searched

_SEARCHES_TREE = frozenset({"grep", "egrep", "fgrep", "zgrep", "rgrep", "ack"})
_HIDDEN = {
    "rg": Regex(r"--hidden|-[a-zA-Z]*(?:uu|\.)[a-zA-Z.]*|--no-ignore|--unrestricted"),
    "ag": Regex(r"--hidden|-[a-zA-Z]*u[a-zA-Z]*|--unrestricted"),
}
"""Search programs that skip hidden files, and the options that include these files."""
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


def searched(
    act: Act, protected: Sequence[str], home: str = "", real: Callable[[str], Sequence[str]] = lambda path: ()
) -> list[str]:
    """Return the absolute folders whose search by the command reaches one of the ``protected`` folders and files.

    ``real`` returns the targets of the links at a path, because a search follows a link that is named among its words.
    """
    hidden = True
    if act.name in _HIDDEN:
        hidden = any(map(_HIDDEN[act.name].fullmatch, act.words()))
    elif act.name not in _SEARCHES_TREE or not takes_folders(act):
        return []
    reading = read([value.text for value in act.argv], "", _SEARCH_VALUED)
    given = [(one.name, one.value or "") for one in reading.options]
    only = [value for name, value in given if name.startswith("--inc") and "--include".startswith(name)]
    without = [value for name, value in given if name == "--exclude-dir"]
    patterns = any(name in _PATTERNS or name == "--files" for name, _ in given)
    operands = [act.argv[at] for at in (reading.operands if patterns else reading.operands[1:])]
    starts = [path for one in operands for path in spelled(one, act.cwds, home)] if operands else list(act.cwds)
    return [
        path
        for start in starts
        for path in (start, *real(start), *real(f"{start.rstrip('/')}/**"))
        for own in protected
        if (way := _way(path, own)) is not None
        and (hidden or not any(part[:1] == "." for part in way))
        and not any(fnmatch.fnmatchcase(part, one.rstrip("/")) for part in way for one in without)
        and (not only or any(may_be_kept(one) or overlap(one, own.rpartition("/")[2]) for one in only))
    ]


def _way(path: str, own: str) -> Sequence[str] | None:
    """Return the names of folders on the way from ``path``, which may be a pattern, down to ``own``.

    () if ``path`` is ``own`` or inside it; None if neither is inside the other.
    """
    if under(path, own):
        return ()
    if is_wild(path) and may_be_above(path, own):
        return own.split("/")[path.count("/") + 1 :]
    return below(own, path) if under(own, path) else None


# what is copied and packed

_LAST_IS_TARGET = frozenset({"cp", "gcp", "rsync", "scp", "mksquashfs", "ditto"})
_PACKS = Regex(r"-?[a-zA-Z]*[cru][a-zA-Z]*|--create|--append|--update")
_PACKS_OPTION = frozenset({"-c", "-r", "-u", "--create", "--append", "--update"})
_TARGET = frozenset({"-t", "--target-directory"})


def copied(act: Act, home: str) -> list[str]:
    """Return the absolute folders that a command copies or packs with all their contents."""
    name = act.name
    words = [value.text for value in act.argv]
    if name in _LAST_IS_TARGET:
        if name in TAKES and not takes_folders(act):
            return []
        reading = read(words, name)
        to = any(one.name in _TARGET for one in reading.options) and name in ("cp", "gcp")
        chosen = reading.operands if to else reading.operands[:-1]
    elif name in _TARS:
        reading = read(words, "tar")
        options = {one.name for one in reading.options}
        bundled = len(words) > 1 and words[1][:1] != "-" and _PACKS.fullmatch(words[1])
        if not bundled and options.isdisjoint(_PACKS_OPTION):
            return []
        chosen = reading.operands
    elif name in ("zip", "diff"):
        chosen = read(words, name).operands[1 if name == "zip" else 0 :] if takes_folders(act) else ()
    elif name in ("7z", "7za", "7zz", "rar"):
        chosen = read(words, name).operands[2:] if words[1:2] in (["a"], ["u"]) else ()
    elif name == "pax":
        chosen = read(words, name).operands if any("w" in word for word in words[1:] if word[:1] == "-") else ()
    elif name == "rclone":
        chosen = read(words, name).operands[1:2]
    else:
        return []
    where = places(act, home)
    return [path for at in chosen for path in spelled(act.argv[at], where, home)]


# what git takes into a repository

_TAKES_TREE = frozenset({"init", "add", "stage", "stash", "grep", "hash-object", "diff"})
_WHOLE_TREE = frozenset({"--no-index", "--untracked", "-A", "--all", "-u", "--update"})
_BEFORE = frozenset({"-C", "--work-tree"})


def taken_by_git(act: Act) -> list[str]:
    """Return the absolute files and folders that git adds to a repository, turns into one, searches or compares.

    [] if the command reads only the repository itself.
    """
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
