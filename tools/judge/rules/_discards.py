"""Uncommitted work: the git commands that discard it, and whether there is any in their folders."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Callable, Sequence

from tools.judge.file_view import UNSEEN, Looks, moves_git
from tools.judge.folders import under
from tools.judge.meaning.value import HOLE, Value
from tools.judge.rules._git import WIDE, git
from tools.judge.table import ActView, Test, opt

_ELSEWHERE = ("--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source", "--bare")
"""Options before the subcommand that make git use other files than those of its working folder."""

_HARMLESS_SETTINGS = ("user.", "color.", "advice.", "commit.", "pager.", "core.pager=", "core.editor=", "init.", "gc.")


def folders(view: ActView) -> Sequence[str] | None:
    """Return the absolute folders that git would search first for its repository; None if they are unknown."""
    act = view.act
    if act.name != "git" or act.place or not act.cwds or any(map(moves_git, act.environment)):
        return None
    if any(HOLE in cwd for cwd in act.cwds):
        return None
    found = list(act.cwds)
    words = iter(view.words)
    for word in words:
        if word == "-C":
            given = next(words, HOLE)
            if HOLE in given or given[:1] == "~":
                return None
            found = [posixpath.normpath(posixpath.join(folder, given)) for folder in found]
        elif word == "-c":
            if not next(words, "").lower().startswith(_HARMLESS_SETTINGS):
                return None
        elif word[:1] != "-":
            return None if HOLE in word else found
        elif word.startswith(_ELSEWHERE):
            return None
    return None


def may_lose(kinds: str | Callable[[ActView], str]) -> Callable[[ActView, Looks], bool]:
    """Make a row's ``seen``: it returns True unless the working tree was seen to have none of ``kinds`` (fields of WorkTree)."""

    def seen(view: ActView, looks: Looks) -> bool:
        where = folders(view)
        wanted = (kinds if isinstance(kinds, str) else kinds(view)).split()
        # Inspect all folders, even after a dirty one, so that one reading of the snapshot fetches them all.
        trees = [looks.work_tree(folder) for folder in where or ()]
        return where is None or any(getattr(tree, kind) for tree in trees for kind in wanted)

    return seen


_GLOB = frozenset("*?[")
_MAKES_BRANCH = ("-b", "-B", "--orphan", "-t", "--track", "--detach", "-d")


def _names_files(view: ActView) -> bool:
    """Return whether words after ``checkout`` name files: words after ``--``, a path or pattern, or a second operand."""
    words = view.words
    if any(word.startswith("--pathspec-from-file") for word in words) or (view.act.fed and "--" in words):
        return True
    if "--" in words:
        return words[-1] != "--"
    given = view.operands()
    if any(word.startswith(_MAKES_BRANCH) for word in words):
        return False
    return len(given) > 1 or any(map(_is_pathspec, given))


def _is_pathspec(given: Value) -> bool:
    """Return whether a word can't be the name of a branch."""
    return given.pattern or given.text.startswith(("./", "../", "/", ":")) or not _GLOB.isdisjoint(given.text)


NAMES_FILES = Test(_names_files)
"""Test for files among the words after ``checkout``, as far as the words show this without a look at the folder."""

ONE_NAME = Test(
    lambda view: len(view.operands()) == 1 and "--" not in view.words and not any(w.startswith(_MAKES_BRANCH) for w in view.words)
)
"""Test for a single word after ``checkout`` that is a branch, or a file: ``git checkout NAME``."""

_NEW_BRANCH = git("checkout", opt("-b -B --orphan") & ~opt("-f --force"))
_SURE = git("checkout", WIDE | NAMES_FILES | opt("-f --force"))


def checked_out(view: ActView, looks: Looks) -> bool:
    """Return whether ``git checkout`` may discard work: a row's ``seen``. ``NAME`` means a file if one of that name exists."""
    if _NEW_BRANCH(view):
        return brings_over(view, looks)
    if not _SURE(view):
        name = next((one.text for one in reversed(view.operands())), HOLE)
        where = folders(view) or view.act.cwds
        paths = [posixpath.normpath(posixpath.join(folder, name)) for folder in where if HOLE not in name]
        if {looks.inspect_path(path).kind for path in paths} <= {"missing"}:
            return brings_over(view, looks)
    return may_lose(overwritten)(view, looks) or brings_over(view, looks)


_STAYS = git("switch", ~opt("-f --force --discard-changes")) | git("merge|rebase", ~opt("--abort --skip"))
"""Git commands that keep differences from the last commit, except in ignored files."""


def restored(view: ActView, looks: Looks) -> bool:
    """Return whether a command that brings files of a commit into the tree may discard work: a row's ``seen``."""
    return (not _STAYS(view) and may_lose(overwritten)(view, looks)) or brings_over(view, looks)


def aborted(view: ActView, looks: Looks) -> bool:
    """Return whether ``git merge --abort`` or a similar command, or a merge or rebase, may discard work: a row's ``seen``.

    An abort usually follows a conflict, so a folder that can't be inspected counts as one without resolved conflicts.
    """
    if _STAYS(view):
        return brings_over(view, looks)
    where = folders(view)
    return where is None or any((tree := looks.work_tree(folder)) is not UNSEEN and tree.resolved for folder in where)


def brings_over(view: ActView, looks: Looks) -> bool:
    """Return whether a commit's files were seen to replace ignored ones, which git does not protect."""
    where = folders(view)
    commits, files = _taken(view)
    for folder in where or ():
        named = [posixpath.normpath(posixpath.join(folder, one)) for one in files]
        for commit in commits:
            lost = looks.work_tree(folder, commit).overwritten or ()
            if any(not named or any(_reaches(one, path) for one in named) for path in lost):
                return True
    return False


def _reaches(pathspec: str, path: str) -> bool:
    return ":" in pathspec or HOLE in pathspec or under(path, pathspec) or fnmatch.fnmatchcase(path, pathspec)


def _taken(view: ActView) -> tuple[Sequence[str], Sequence[str]]:
    """Return the named commits that a git command takes files from, and the files; an empty list of files means all."""
    reading = view.read()
    words = ["git", *view.words]
    end = words.index("--") if "--" in words else len(words)
    sub, *before = [words[at] for at in reading.operands if at < end] or [""]
    after = [words[at] for at in reading.operands if at > end]
    if sub == "restore":
        commits = [one.value for one in reading.options if one.name in ("-s", "--source") and one.value]
        files = before + after
    else:
        commits, files = (before, []) if sub in ("merge", "rebase") else (before[:1], before[1:] + after)
    return ["@{-1}" if one == "-" else one for one in commits if HOLE not in one], files


def overwritten(view: ActView) -> str:
    """Return the kinds of work that files of a commit replace: untracked files too if the command names a commit."""
    if _FROM_COMMIT(view):
        return "changed untracked"
    return "changed"


def _from_commit(view: ActView) -> bool:
    words = view.words
    before = words[: words.index("--")] if "--" in words else words
    operands = [word for word in before if word[:1] != "-"]
    return bool(operands) if "--" in words else len(operands) > 1


_FROM_COMMIT = (
    git("checkout", Test(_from_commit))
    | git("restore", Test(lambda view: any(word.startswith(("-s", "--source")) for word in view.words)))
    | git("checkout|switch", opt("-f --force --discard-changes") & Test(lambda view: bool(view.operands())))
)


def cleaned(view: ActView) -> str:
    """Return the kinds of work that ``git clean`` deletes: also ignored files with -x, only ignored files with -X."""
    letters = "".join(word[1:] for word in view.words if word[:1] == "-" and word[:2] != "--")
    return "ignored" if "X" in letters else "untracked ignored" if "x" in letters else "untracked"


IGNORES = (".gitignore", "info/exclude")
"""Endings of the files with lists of ignored files."""

_may_clean = may_lose(cleaned)


def may_clean(view: ActView, looks: Looks) -> bool:
    """Return whether ``git clean`` may find files to delete, or the line changes a list of ignored files: a row's ``seen``."""
    return _may_clean(view, looks) or looks.are_changed(IGNORES)


def widened(view: ActView) -> str:
    """Describe for ``at=`` the files that ``git clean`` deletes besides untracked ones, because they need a grant of their
    own.
    """
    given = [one.name for one in view.read().options]
    ignored = "ignored files" if "-x" in given or "-X" in given else ""
    forced = sum(name == "-f" or (len(name) > 2 and "--force".startswith(name)) for name in given)
    return " and ".join(filter(None, (ignored, "other repositories" if forced > 1 else "")))
