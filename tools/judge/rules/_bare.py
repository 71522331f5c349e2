"""Git's folders that a command works in under another name than ``.git``: by --git-dir, GIT_DIR, or because it runs there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from tools.judge.gitfolders import HOOKS, GitFolders
from tools.judge.gitsettings import pairs
from tools.judge.looks import Looks
from tools.judge.meaning.value import HOLE
from tools.judge.table import ActView


def bare_folders(view: ActView, looks: Looks) -> Sequence[str]:
    """Return the folders by whose settings git would work, as far as they are not called ``.git``; those too that an archive
    brought.
    """
    act = view.act
    if act.name != "git" or act.place:
        return ()
    folders = list(act.cwds)
    named = [act.environment["GIT_DIR"].text] if "GIT_DIR" in act.environment else []
    words = iter(view.words)
    for word in words:
        if word[:1] != "-":
            break
        given = next(words, "") if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else word.partition("=")[2]
        if word == "-C" and HOLE not in given:
            folders = [_joined(folder, given) for folder in folders]
        elif word.startswith("--git-dir"):
            named = [given]
    found = [_joined(folder, name) for folder in folders for name in named or ["."] if HOLE not in name]
    shapes = GitFolders(looks.look)
    bare = [folder for folder in found if posixpath.basename(folder) != ".git" and shapes.is_git(folder)]
    return [*bare, *(git for folder in folders for git in _unpacked(folder, looks))]


def _unpacked(folder: str, looks: Looks) -> Iterator[str]:
    """Yield git's folder of the repository around ``folder``, where the session unpacked it with all that it holds."""
    while looks.is_unpacked(folder) and folder != posixpath.dirname(folder):
        seen = looks.look(f"{folder}/.git")
        if seen.kind != "missing":
            points = seen.kind == "file" and (seen.text or "").startswith("gitdir:")
            yield _joined(folder, (seen.text or "")[7:].strip()) if points else f"{folder}/.git"
            return
        folder = posixpath.dirname(folder)


def own_settings(folder: str, looks: Looks) -> Iterator[tuple[str, str]]:
    """Yield the settings of a folder of git's, by key; a hook that a person's commands run counts as a setting of hooks."""
    seen = [looks.look(f"{folder}/{name}") for name in ("config", "config.worktree")]
    hooks = [looks.look(f"{folder}/hooks/{name}").kind for name in sorted(HOOKS)]
    if not set(hooks) <= {"missing"}:
        yield "core.hooksPath", f"{folder}/hooks"
    for one in seen:
        if one.kind == "unreadable":
            yield "include.path", "unreadable"
        yield from pairs(one.text or "")


def _joined(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))
