"""The rules' view of files: the snapshot, and what earlier acts of the same line change."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard, runtime_checkable

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.folders import TEMPORARY, under
from tools.judge.links import Links
from tools.judge.meaning.act import Act
from tools.judge.meaning.panes import FOLDER
from tools.judge.meaning.state import NoFiles, Seen, Snapshot, able, knows_moves, knows_origins
from tools.judge.meaning.value import HOLE, Taint, Value

_MOVERS = frozenset({"mv", "gmv"})
_JOIN = frozenset("mount bindfs sshfs rclone unionfs mergerfs overlay fuse-overlayfs unshare rename prename mmv".split())
"""Programs that make a folder show another folder's files, or that move files in ways that are not followed."""
_BRING = tuple(
    map(
        frozenset,
        (
            *(["reset"], ["stash", "pop"], ["stash", "apply"], ["stash", "branch"], ["-n"], ["--no-commit"]),
            *(["rm", "--cached"], ["update-index"], ["read-tree"]),
        ),
    )
)
"""Words of git commands that bring work from a commit or a stash into the tree, or make files untracked."""
_IGNORES = frozenset({".gitignore", "exclude"})
_REMOVERS = frozenset("rm unlink truncate sed gsed cp gcp ln gln tee perl".split())
_SETS = frozenset({"remote", "config", "branch", "submodule", "init", "clone"})
"""Words of git commands that may change a remote's address, or what is pushed there."""
_SAFE_VARIABLES = (
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TRACE", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS"),
    *("GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_SSH", "GIT_MERGE_AUTOEDIT", "GIT_PS1"),
)
"""Prefixes of git's variables that do not change its repository or files."""


GIT_FOLDERS = ("GIT_DIR", "GIT_COMMON_DIR")
"""Variables that name git's repository folder."""
_GLOB = frozenset("*?[{")
_NO_LINKS = Links()


class WorkTree(NamedTuple):
    """Uncommitted work in a git working tree. Unseen parts count as existing.

    ``changed``: tracked files differ from the last commit, staged or not. ``resolved``: a merge stopped, and since then there
    are edits that git did not make. ``overwritten``: ignored files, as absolute paths, that are also in the commit to compare
    with; None if there was no comparison.
    """

    changed: bool = True
    untracked: bool = True
    ignored: bool = True
    resolved: bool = True
    overwritten: tuple[str, ...] | None = None


UNSEEN = WorkTree()
"""Used if there is no repository, or if it is elsewhere, can't be read or was not checked."""


@runtime_checkable
class SeesWork(Protocol):
    """A snapshot that can read a working tree's state."""

    def work_tree(self, folder: str, commit: str = "") -> WorkTree:
        """Return the working tree of the absolute ``folder``, compared with a commit if one is named.

        Runs nothing that the repository names. Never raises.
        """
        ...


@runtime_checkable
class SeesPlaces(Protocol):
    """A snapshot that knows the session's folders."""

    def is_inside(self, path: str) -> bool:
        """Return whether an absolute path is in the workspace or a temporary folder, and has no links in it.

        False if this is unknown, or not yet known. Never raises.
        """
        ...

    def is_new(self, path: str) -> bool:
        """Return whether ``path`` does not exist, but is inside one of these folders (see ``is_inside``)."""
        ...


def _sees_work(snapshot: Snapshot) -> TypeGuard[SeesWork]:
    return able(type(snapshot), SeesWork)


def _sees_places(snapshot: Snapshot) -> TypeGuard[SeesPlaces]:
    return able(type(snapshot), SeesPlaces)


class Looks:
    """The rules' view of files. ``variables`` are those of the session's shell.

    ``home`` is the home of the account that runs the command, "" if it is unknown.
    """

    def __init__(self, files: Snapshot | None = None, variables: Mapping[str, str] | None = None, home: str = "") -> None:
        variables = variables or {}
        self.home = home
        self.git_folders = {name: variables[name] for name in GIT_FOLDERS if variables.get(name)}
        """Git's folders in variables of the session's shell."""
        self._files = files or NoFiles()
        self._origins = self._files if knows_origins(self._files) else None
        self._elsewhere = any(map(moves_git, variables))
        self._brought = False
        self._added = False
        self._acts: Sequence[Act] = ()
        self.panes: list[str] = []
        """Sessions of multiplexers that the line leaves in an unknown state: see meaning.panes."""
        self.sets_remotes = False
        """True when the line may have changed a repository's settings, such as a remote's address."""
        self.links = _NO_LINKS
        self.moves_in = False
        """True if the line may move something into a temporary folder, or give it another name."""

    def survey(self, acts: Sequence[Act], links: Links) -> None:
        """Begin to judge ``acts``: record their links and moves."""
        self.links = links
        self._acts = acts
        self.moves_in = any(self._moves_in(act) for act in acts if act.name in _MOVERS or act.name in _JOIN or act.name == "git")

    def _moves_in(self, act: Act) -> bool:
        words = act.words()
        if act.name == "git":
            return "move" in words or any(word.startswith("--separate-git-dir") for word in words)
        if act.name in _JOIN or not act.cwds or any(word.startswith(("-t", "--t", "--e")) for word in words):
            return True
        to = next((one for one in reversed(act.argv[1:]) if one.text[:1] != "-"), None)
        if to is None or to.pattern or HOLE in to.text or to.taint & Taint.MADE or to.text[:1] == "~":
            return True
        paths = [posixpath.normpath(posixpath.join(cwd, to.text)) for cwd in act.cwds]
        found = [there for path in paths for there in (path, *self.links.real(path))]
        return any(HOLE in there or any(under(there, folder) for folder in TEMPORARY) for there in found)

    def record_act(self, act: Act) -> None:
        """Record what later checks need to know of an act: the snapshot does not show work that the act brings into a tree."""
        name = act.name
        if name == "git":
            words = frozenset(act.words())
            self._brought |= any(one <= words for one in _BRING)
            self._added |= not words.isdisjoint(("add", "stage"))
            self.sets_remotes |= not words.isdisjoint(_SETS)
        if (
            act.background
            or name in _MOVERS
            or (name == "rsync" and "--remove-source-files" in act.words())
            or ((act.redirects or name in _REMOVERS) and _may_unignore(act))
        ):
            self._brought = True

    def inspect_path(self, path: str) -> Seen:
        """Return what is at an absolute path."""
        return self._files.inspect_path(path)

    def is_unpacked(self, path: str) -> bool:
        """Return whether an absolute path is in a folder that an archive was unpacked into in this session."""
        return self._origins is not None and bool(self._origins.taint(path) & Taint.WRITTEN)

    def was_brought(self, path: str) -> bool:
        """Return whether a path or pattern, or anything above or below it, was moved there from elsewhere in this session."""
        known = "/".join(itertools.takewhile(lambda part: _GLOB.isdisjoint(part), path.split("/")))
        return knows_moves(self._files) and self._files.was_brought(known)

    @property
    def is_elsewhere(self) -> bool:
        """True if variables of the session's shell make git work on other files."""
        return self._elsewhere

    def are_changed(self, endings: tuple[str, ...]) -> bool:
        """Return whether the line may change files with these endings, because it names such a file."""
        named = (one.text for act in self._acts for one in (*act.argv[1:], *(target.path for target in act.redirects)))
        return any(text.endswith(endings) for text in named)

    def written_below(self, folder: str) -> Sequence[str]:
        """Return the files in an absolute ``folder`` that this session wrote, and files in it that the line names."""
        found = list(self._origins.own_below(folder)) if self._origins is not None else []
        for act in self._acts:
            words = (*(one.text for one in act.argv[1:]), *(target.path.text for target in act.redirects if "<" not in target.op))
            found += [
                path for word in words for cwd in act.cwds if (path := posixpath.normpath(f"{cwd}/{word}")) and word[:1] != "/"
            ]
            found += [posixpath.normpath(word) for word in words if word[:1] == "/"]
        return [path for path in found if under(path, folder)]

    def unsure_panes(self) -> Sequence[str]:
        """Return the sessions of multiplexers that may read a line in an unknown way."""
        return [*self.panes, *(self._origins.own_below(FOLDER) if self._origins is not None else ())]

    def is_late(self, path: str) -> bool:
        """Return whether a background job may still put a link at an absolute path, or at one of its parents."""
        return self._origins is not None and bool(self._origins.taint(path) & Taint.LATER)

    @property
    def sees_places(self) -> bool:
        """True if the session's folders are known."""
        return _sees_places(self._files)

    def are_inside(self, act: Act, given: Sequence[Value], *, new: bool = False) -> bool:
        """Return whether all ``given`` paths of an act are in the workspace or a temporary folder and, if ``new``, do not exist.

        A path does not count if it is a pattern or unknown, or if the line links, moves, copies or may change it.
        """
        files = self._files
        if act.place or not _sees_places(files):
            return False
        for one in given:
            if one.pattern or HOLE in one.text or one.text[:1] in ("", "~") or (one.text[0] != "/" and not act.cwds):
                return False
            for path in {posixpath.normpath(posixpath.join(cwd, one.text)) for cwd in act.cwds or ("/",)}:
                if (
                    HOLE in path
                    or not self.links.leads_to_itself(path)
                    or not (files.is_new(path) if new else files.is_inside(path))
                ):
                    return False
        return True

    def work_tree(self, folder: str, commit: str = "") -> WorkTree:
        """Return the working tree of ``folder`` (absolute), compared with a commit of its repository."""
        if self._elsewhere or self._brought or not _sees_work(self._files):
            return UNSEEN
        seen = self._files.work_tree(folder, commit)
        return seen._replace(changed=seen.changed or seen.untracked) if self._added else seen


def _may_unignore(act: Act) -> bool:
    """Return whether an act may remove lines from a list of git's ignored files, which makes the files untracked."""
    changed = [target.path.text for target in act.redirects if target.op in (">", ">|")]
    if act.name in _REMOVERS:
        changed += act.words()
    return any(posixpath.basename(path) in _IGNORES for path in changed)


def moves_git(variable: str) -> bool:
    """Return whether this variable makes git work on other files, or with other settings."""
    return variable.startswith("GIT_") and not variable.startswith(_SAFE_VARIABLES)
