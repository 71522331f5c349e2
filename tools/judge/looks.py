"""Looks at files that rules may take: through the snapshot, and with what the line itself did before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from tools.judge.meaning.act import Act
from tools.judge.meaning.state import KnowsOrigins, NoFiles, Seen, Snapshot
from tools.judge.meaning.value import Taint

_MOVERS = frozenset({"mv", "gmv"})
_BRING = tuple(map(frozenset, (["reset"], ["stash", "pop"], ["stash", "apply"], ["stash", "branch"], ["-n"], ["--no-commit"])))
"""Words of git commands that leave work in the tree which was in a commit, or in a stash."""
_SAFE_VARIABLES = (
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TRACE", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS"),
    *("GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_SSH", "GIT_MERGE_AUTOEDIT", "GIT_PS1"),
)
"""Beginnings of git's variables that do not change which repository and files it works on."""


class WorkTree(NamedTuple):
    """Work in a git working tree that no commit has, as far as it was seen: what was not seen counts as there.

    ``changed``: tracked files differ from the last commit, staged or not.
    """

    changed: bool = True
    untracked: bool = True
    ignored: bool = True


UNSEEN = WorkTree()
"""No repository, one elsewhere, one that can't be read, or that nobody looked at."""


@runtime_checkable
class SeesWork(Protocol):
    """A snapshot that sees what a working tree holds."""

    def work_tree(self, folder: str) -> WorkTree:
        """The working tree that the absolute ``folder`` belongs to. Runs nothing that the repository names. Never raises."""
        ...


class Looks:
    """``variables`` are the names of those that the session's shell has."""

    def __init__(self, files: Snapshot | None = None, variables: Iterable[str] = ()) -> None:
        self._files = files or NoFiles()
        self._elsewhere = any(map(moves_git, variables))
        self._brought = False

    def note(self, act: Act) -> None:
        """Remember what an act does to later looks: work that it brings into a tree is not in the snapshot."""
        words = frozenset(act.words())
        self._brought |= (
            act.background
            or act.name in _MOVERS
            or (act.name == "git" and any(one <= words for one in _BRING))
            or (act.name == "rsync" and "--remove-source-files" in words)
        )

    def look(self, path: str) -> Seen:
        """Look at an absolute path."""
        return self._files.look(path)

    def is_unpacked(self, path: str) -> bool:
        """Return whether an absolute path lies in a folder into which an archive was unpacked in this session."""
        return isinstance(self._files, KnowsOrigins) and bool(self._files.taint(path) & Taint.WRITTEN)

    def work_tree(self, folder: str) -> WorkTree:
        """Look at the working tree that ``folder`` (absolute) belongs to."""
        if self._elsewhere or self._brought or not isinstance(self._files, SeesWork):
            return UNSEEN
        return self._files.work_tree(folder)


def moves_git(variable: str) -> bool:
    """Return whether git works on other files, or by other settings, where this variable is set."""
    return variable.startswith("GIT_") and not variable.startswith(_SAFE_VARIABLES)
