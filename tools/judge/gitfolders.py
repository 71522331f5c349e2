"""Recognise git's own folders by their contents, under any name: git runs some files in them by itself.

A git folder holds ``HEAD``, ``objects`` and ``config`` or ``refs``, or ``HEAD`` and ``commondir`` (of a second working tree). A
file named ``.git`` may point to such a folder. ``core.hooksPath`` names another folder of hooks.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.findings import Level
from tools.judge.folders import above
from tools.judge.meaning.act import Act
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import HOLE
from tools.judge.path_rules import Mode

HOOKS = frozenset(
    "applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit post-index-change post-merge"
    " post-rewrite pre-applypatch pre-auto-gc pre-commit pre-merge-commit pre-push pre-rebase prepare-commit-msg"
    " reference-transaction sendemail-validate".split()
)
"""Hooks that git commands run in a working tree."""
_HOOKS = HOOKS | frozenset(
    "p4-changelist p4-post-changelist p4-pre-submit p4-prepare-changelist post-receive post-update pre-receive proc-receive"
    " push-to-checkout update".split()
)
_SETTINGS = frozenset({"config", "config.worktree", "commondir", "gitdir"})
_KEPT = frozenset({"HEAD", "index", "packed-refs", "ORIG_HEAD", "shallow"})
_KEPT_IN = frozenset({"refs", "logs", "objects"})
_SHAPE = frozenset({"HEAD", "objects", "refs", "commondir"})
_PLACERS = frozenset({"mv", "gmv", "cp", "gcp", "ln", "gln", "rsync", "install", "ditto"})
_EXTRACTORS = frozenset({"tar", "gtar", "bsdtar", "unzip", "7z", "7za", "7zr", "7zz", "cpio", "pax"})
_UNPACKERS = frozenset({"unzip", "cpio", "pax"})
_HOOKS_PATH = Regex(r"^\s*hookspath\s*=\s*\"?(.+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)
_MOST_ABOVE = 12
"""Maximum number of parent folders to search for a file's repository."""
_MOST_MADE = 500
_MOST_MOVES = 8


class GitRule(NamedTuple):
    """A reason to ask about a path."""

    key: str
    level: Level
    why: str


_RUNS = GitRule("persist.git-hooks", "ask-once", "changes what git runs automatically")
_REPLACES = GitRule("persist.git-hooks", "ask-once", "replaces a repository's own git folder")
_MAKES = GitRule(
    "persist.git-hooks",
    "ask-once",
    "creates a folder that git would treat as a repository's git folder, and whose hooks git would run",
)
_DAMAGES = GitRule("git.damage", "ask", "damages git's data")


class GitFolders:
    """Recognises git's folders by their files, as ``inspect_path`` and earlier acts of the line show them. ``home`` may be ""."""

    def __init__(self, inspect_path: Callable[[str], Seen], home: str = "") -> None:
        self._inspect = inspect_path
        self._home = home
        self._made: set[str] = set()
        self._there: set[str] = set()
        """Created paths, and all their parent folders."""
        self._moved: dict[str, str] = {}
        self._folders: set[str] = set()
        self._filled: set[str] = set()

    def record_act(self, act: Act) -> None:
        """Record what an act moves, copies or turns into a repository."""
        if act.place or (act.name != "git" and act.name not in _PLACERS):
            return
        given = [value for value in act.args if value.text[:1] != "-"]
        words = [value.text for value in given]
        if act.name != "git":
            for cwd in act.cwds if len(words) > 1 else ():
                if any(value.pattern or HOLE in value.text for value in given[:-1]):
                    self._filled.add(_joined(cwd, words[-1]))
                for source in words[:-1]:
                    inside = f"{words[-1]}/{posixpath.basename(source.rstrip('/'))}"
                    for name in (words[-1], inside):
                        self._moved[_joined(cwd, name)] = _joined(cwd, source)
        elif words[:1] in (["init"], ["clone"], ["init-db"]):
            self._folders |= {_joined(cwd, name) for cwd in act.cwds for name in (words[1:] or ["."])}

    def rules(self, path: str, mode: Mode, act: Act | None = None) -> Sequence[GitRule]:
        """Return the reasons to ask about a change of an absolute path, by ``act`` or by a tool that writes files.

        A path that is written or created counts as existing from then on.
        """
        if act is not None and act.place:
            return ()
        if HOLE in path:
            return (_RUNS,) if mode == "write" and _may_be_hook(path.split("/")) else ()
        found = tuple(dict.fromkeys(self._of(path, mode, act)))
        if mode in ("write", "folder") and len(self._made) < _MOST_MADE:
            self._made.add(path)
            while path not in self._there:
                self._there.add(path)
                path = path.rpartition("/")[0]
        return found

    def entered(self, act: Act, unpacks: Callable[[], bool]) -> Sequence[str]:
        """Return the working folders of an act that unpacks an archive, if they are git's own: files may be unpacked there.

        ``unpacks`` returns whether the act unpacks. It is called for programs such as tar, which can also do other things.
        """
        if act.name not in _EXTRACTORS or act.place or not (act.name in _UNPACKERS or unpacks()):
            return ()
        return [cwd for cwd in act.cwds if self.is_git(cwd)]

    def _of(self, path: str, mode: Mode, act: Act | None) -> Iterator[GitRule]:
        parts = path.split("/")
        name = parts[-1]
        if name == ".git" and mode == "write" and not _stays_git(act):
            yield _REPLACES
        for folder in _owners(parts, mode):
            if self.is_git(folder):
                yield _RUNS
        if mode == "delete" and any(self.is_git(folder) for folder in _keepers(parts)):
            yield _DAMAGES
        if name in _SHAPE and mode in ("write", "folder") and self._completes(posixpath.dirname(path), name):
            yield _MAKES
        if act is not None and mode == "write" and _brings_many(act) and self.is_git(path):
            yield _RUNS
        if name in _HOOKS and self._is_hooks_path(posixpath.dirname(path)):
            yield _RUNS

    # shapes

    def is_git(self, folder: str) -> bool:
        """Return whether an absolute folder is git's own."""
        if folder in self._folders or (self._filled and not self._filled.isdisjoint((folder, posixpath.dirname(folder)))):
            return True  # the line moved or copied unknown files into it, or into the folder above
        return self._is("HEAD", folder) and self._completes(folder, "HEAD")

    def _completes(self, folder: str, name: str) -> bool:
        """Return whether the folder has the contents of a git folder once ``name`` is in it."""
        if not folder.strip("/") or (name != "HEAD" and not self._is("HEAD", folder)):
            return False
        there = {one for one in ("objects", "refs", "config", "commondir") if one == name or self._is(one, folder)}
        return "commondir" in there or ("objects" in there and bool(there & {"refs", "config"}))

    def _is(self, name: str, folder: str) -> bool:
        path = posixpath.join(folder, name)
        if path in self._there:
            return True
        kinds = {self._inspect(one).kind for one in dict.fromkeys((path, self._before(path)))} - {"missing"}
        wants_folder = name in ("objects", "refs")
        return any(kind == "unreadable" or (kind == "dir") == wants_folder for kind in kinds)

    def _before(self, path: str) -> str:
        """Return a path's location before the line moved or copied it."""
        for _ in range(_MOST_MOVES if self._moved else 0):
            at = path
            while at not in self._moved and at != (around := above(at)):
                at = around
            source = self._moved.get(at)
            if source is None or source == at:
                break
            path = f"{source}{path[len(at) :]}"
        return path

    # hooks in another folder

    def _is_hooks_path(self, folder: str) -> bool:
        """Return whether ``core.hooksPath`` of the surrounding repository, or of the account, names this folder or one in it."""
        above = [folder, *_above(folder)][:_MOST_ABOVE]
        around = [(one, self._inspect(posixpath.join(one, ".git"))) for one in above]
        top, seen = next(((one, seen) for one, seen in around if seen.kind != "missing"), ("/", Seen("missing")))
        configs = [f"{self._home}/{name}" for name in (".gitconfig", ".config/git/config") if self._home]
        if seen.kind != "missing":
            configs += _configs(top, seen)
        named = [name for config in configs for name in _HOOKS_PATH.findall(self._inspect(config).text or "")]
        named = [f"{self._home}{name[1:]}" if name.startswith("~/") else name for name in named]
        return any(f"{_joined(top, name)}/".startswith(f"{folder}/") for name in named)


def _configs(top: str, seen: Seen) -> Sequence[str]:
    """Return the configuration files of the repository with this ``.git`` in the folder ``top``."""
    git = posixpath.join(top, ".git")
    found: list[str] = []
    if seen.kind == "file" and (seen.text or "").startswith("gitdir:"):
        git = _joined(top, (seen.text or "")[7:].strip())
        if posixpath.basename(posixpath.dirname(git)) == "worktrees":
            found.append(f"{posixpath.dirname(posixpath.dirname(git))}/config")
    return [*found, f"{git}/config", f"{git}/config.worktree"]


def _owners(parts: Sequence[str], mode: Mode) -> Iterator[str]:
    """Yield the folders that would use a path as a hook, as settings or as the todo list of a rebase if they were git's own."""
    for at, part in enumerate(parts):
        if part == "hooks" and mode != "folder" and at + 2 >= len(parts) and not parts[-1].endswith(".sample"):
            yield "/".join(parts[:at])
    if parts[-2:] == ["rebase-merge", "git-rebase-todo"]:
        yield "/".join(parts[:-2])
    if (parts[-1] in _SETTINGS and mode != "folder") or parts[-2:] == ["info", "attributes"]:
        yield "/".join(parts[: -2 if parts[-1] == "attributes" else -1])


def _may_be_hook(parts: Sequence[str]) -> bool:
    """Return whether a partly unknown path ends like a hook's (``$(git rev-parse --git-dir)/hooks/pre-push``)."""
    name, folder = parts[-1], parts[-2] if len(parts) > 1 else ""
    return name in _HOOKS and (folder == "hooks" or ("-" in name and HOLE in folder))


def _keepers(parts: Sequence[str]) -> Iterator[str]:
    if parts[-1] in _KEPT:
        yield "/".join(parts[:-1])
    yield from ("/".join(parts[:at]) for at, part in enumerate(parts) if part in _KEPT_IN)


def _stays_git(act: Act | None) -> bool:
    """Return whether an act moves or copies something that is already named ``.git``, and not a folder prepared under another
    name.
    """
    if act is None or act.name not in _PLACERS or act.redirects:
        return False
    words = [text.rstrip("/") for text in act.words() if text[:1] != "-"]
    return any(posixpath.basename(word) == ".git" for word in words[:-1])


def _brings_many(act: Act) -> bool:
    """Return whether an act fills a folder with files that its arguments do not name."""
    if act.name in _EXTRACTORS or act.name == "rsync":
        return True
    letters = {letter for word in act.words() if word[:1] == "-" and word[:2] != "--" for letter in word[1:]}
    return act.name in ("cp", "gcp", "ditto") and (bool(letters & {"r", "R", "a"}) or "--recursive" in act.words())


def _above(folder: str) -> Iterator[str]:
    while folder not in ("/", ""):
        folder = posixpath.dirname(folder)
        yield folder


def _joined(folder: str, name: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, name)) if HOLE not in name else HOLE
    return path[1:] if path.startswith("//") else path
