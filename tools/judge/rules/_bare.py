"""Git folders that a command uses and that are not named ``.git``: from --git-dir, GIT_DIR, or the working folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from tools.judge.file_view import GIT_FOLDERS, Looks
from tools.judge.gitfolders import HOOKS, GitFolders
from tools.judge.gitsettings import pairs
from tools.judge.meaning.value import HOLE
from tools.judge.table import ActView

_MOST_ABOVE = 12
"""Maximum number of folders above the working folder that are searched for a repository."""


def bare_folders(view: ActView, looks: Looks) -> Sequence[str]:
    """Return the git folders that git would use: those not named ``.git``, and those from an archive, whatever their name.

    A folder named by another command's output is HOLE.
    """
    act = view.act
    if act.name != "git" or act.place:
        return ()
    folders = list(act.cwds)
    values = {name: act.environment[name] for name in GIT_FOLDERS if name in act.environment}
    given = [one for one in view.read().options if one.value is not None]
    for one in given:
        if one.name == "-C" and HOLE not in (one.value or ""):
            folders = [_joined(folder, one.value or "") for folder in folders]
    inherited = [text for name, text in looks.git_folders.items() if name not in values]
    options = [one for one in given if one.name == "--git-dir"]
    named = [*inherited, *(one.text for one in values.values()), *(one.value or "" for one in options)]
    written = [*values.values(), *(act.argv[one.value_at] for one in options)]
    unknown = [HOLE for one in written if HOLE in one.text and "(" in one.shown and not one.text.endswith("/.git")]
    found = [_joined(folder, name) for folder in folders for name in named if HOLE not in name]
    if not named:
        found = [git for folder in folders for git in _around(folder, looks)]
    shapes = GitFolders(looks.inspect_path)
    there = dict.fromkeys(
        real for folder in found for one in (folder, *looks.links.real(folder)) for real in _pointed(one, looks)
    )
    bare = [folder for folder in there if posixpath.basename(folder) != ".git" and shapes.is_git(folder)]
    return [*unknown, *bare, *(git for folder in folders for git in _unpacked(folder, looks))]


def _around(folder: str, looks: Looks) -> Iterator[str]:
    """Yield the folders that git would try as its repository, from ``folder`` upwards to the first one with a ``.git``."""
    for _ in range(_MOST_ABOVE):
        yield folder
        kind = looks.inspect_path(f"{folder}/.git").kind if folder[:1] == "/" else "dir"
        if kind == "file":
            yield f"{folder}/.git"
        if kind != "missing" or folder == posixpath.dirname(folder):
            return
        folder = posixpath.dirname(folder)


def _pointed(folder: str, looks: Looks) -> Iterator[str]:
    """Yield ``folder``, or the folder that it names if it is a ``gitdir:`` file, unless the named one is inside a ``.git``."""
    seen = looks.inspect_path(folder)
    text = (seen.text or "") if seen.kind == "file" else ""
    target = _joined(posixpath.dirname(folder), text[7:].strip()) if text.startswith("gitdir:") else folder
    if target == folder or "/.git/" not in target:
        yield target


def _unpacked(folder: str, looks: Looks) -> Iterator[str]:
    """Yield git's folder of the repository around ``folder`` if the session unpacked that repository from an archive."""
    while looks.is_unpacked(folder) and folder != posixpath.dirname(folder):
        seen = looks.inspect_path(f"{folder}/.git")
        if seen.kind != "missing":
            points = seen.kind == "file" and (seen.text or "").startswith("gitdir:")
            yield _joined(folder, (seen.text or "")[7:].strip()) if points else f"{folder}/.git"
            return
        folder = posixpath.dirname(folder)


def own_settings(folder: str, looks: Looks) -> Iterator[tuple[str, str]]:
    """Yield the settings of a git folder, as (key, value). A hook in the folder counts as the setting ``core.hooksPath``.

    The settings of a shared folder (``commondir``) are included if it is not called ``.git``.
    """
    if folder == HOLE:
        yield "core.hooksPath", HOLE
        return
    shared = _joined(folder, (looks.inspect_path(f"{folder}/commondir").text or "").strip())
    for top in dict.fromkeys((folder, shared) if posixpath.basename(shared) != ".git" else (folder,)):
        seen = [looks.inspect_path(f"{top}/{name}") for name in ("config", "config.worktree")]
        hooks = [looks.inspect_path(f"{top}/hooks/{name}").kind for name in sorted(HOOKS)]
        if not set(hooks) <= {"missing"}:
            yield "core.hooksPath", f"{top}/hooks"
        for one in seen:
            if one.kind == "unreadable":
                yield "include.path", "unreadable"
            yield from pairs(one.text or "")


def _joined(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))
