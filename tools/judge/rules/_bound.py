"""Settings that a git command depends on: the addresses of remotes, and the ignored files. They become part of a grant."""

from __future__ import annotations

import posixpath

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.findings import SAYS_NOTHING, digest_of
from tools.judge.rules._discards import IGNORES, folders
from tools.judge.table import ActView

Settings = tuple[tuple[str, str], ...]

_SECTION = Regex(r"\s*\[\s*([\w-]+)")
_REMOTES = frozenset({"remote", "url", "push", "include", "includeif"})
_LINK = Regex(r"gitdir:\s*(\S.*)")
_MOST_ABOVE = 12


def remotes(view: ActView, looks: Looks, home: str) -> Settings | None:
    """Return digests of the settings about remotes, by file: the repository's and the user's; None if they are unknown."""
    found = folders(view)
    if found is None or looks.is_elsewhere or looks.sets_remotes:
        return None
    wanted = _REMOTES if len(view.operands()) > 2 else _REMOTES | {"branch"}  # ``push REMOTE REFSPEC``
    own = [_config_of(folder, looks) for folder in found]
    if None in own:
        return None
    shared = [posixpath.join(home, name) for name in (".gitconfig", ".config/git/config")] if home[:1] == "/" else []
    return _said([*(one for one in own if one), *shared], looks, wanted)


def ignored(view: ActView, looks: Looks, home: str) -> Settings | None:
    """Return the digest of the ``.gitignore`` in each folder, by file; None if one is unknown, or if the line may change one."""
    found = folders(view)
    if found is None or looks.is_elsewhere or looks.sets_remotes or looks.are_changed(IGNORES):
        return None
    seen = [(path, looks.inspect_path(path)) for folder in found for path in (posixpath.join(folder, ".gitignore"),)]
    if any(one.kind not in ("file", "missing") for _path, one in seen):
        return None
    return tuple((f"{path} (ignored)", _digest(one.text)) for path, one in seen)


def _said(paths: list[str], looks: Looks, wanted: frozenset[str]) -> Settings | None:
    found: list[tuple[str, str]] = []
    for path in dict.fromkeys(paths):
        seen = looks.inspect_path(path)
        if seen.kind not in ("file", "missing"):
            return None
        found.append((f"{path} (remotes)", _digest(seen.text and _sections(seen.text, wanted))))
    return tuple(found)


def _sections(text: str, wanted: frozenset[str]) -> str:
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        match = _SECTION.match(line)
        if match is not None:
            inside = match[1].lower() in wanted
        if inside:
            kept.append(line.strip())
    return "\n".join(kept)


def _config_of(folder: str, looks: Looks) -> str | None:
    """Return the settings file of the repository around ``folder``; "" if there is none, None if it is unknown."""
    above = [folder]
    while above[-1] != "/" and len(above) < _MOST_ABOVE:
        above.append(posixpath.dirname(above[-1]))
    seen = [(one, looks.inspect_path(posixpath.join(one, ".git"))) for one in above]  # all: one reading then fetches them
    for at, one in seen:
        if one.kind == "dir":
            return posixpath.join(at, ".git/config")
        if one.kind == "file" and (match := _LINK.match(one.text or "")) is not None:
            return posixpath.join(posixpath.normpath(posixpath.join(at, match[1].strip())).partition("/worktrees/")[0], "config")
        if one.kind != "missing":
            return None
    return ""


def _digest(text: str | None) -> str:
    return SAYS_NOTHING if text is None else digest_of(text)
