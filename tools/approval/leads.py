"""Links behind a finding: where its paths lead when an answer is given, and again at each use."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import FileInfo
from toolcrib.contract.errors import ToolcribError
from tools.judge.findings import UNKNOWN_PATH, Finding, Level
from tools.judge.folders import under

LASTING: tuple[Level, ...] = ("ask",)
"""Levels of findings that a grant may cover."""
MOST_PLACES = 64
"""Maximum number of a finding's paths to follow. If the finding names more, all count as unknown."""
MOST_LISTED = 2_000
"""Maximum number of folder entries to read for one pattern."""
_MOST_NAME = 255
_GLOB = frozenset("*?[{")


class ResolvesPaths(Protocol):
    """The methods of an environment for following links; see ``toolcrib.Environment``."""

    async def resolve(self, path: str) -> str:
        """Return the absolute path that ``path`` leads to, with all links followed."""
        ...

    async def stat(self, path: str) -> FileInfo | None:
        """Return the metadata of a file or folder, or of a link itself; None if the path does not exist."""
        ...

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        """List a folder."""
        ...


def places(finding: Finding) -> Sequence[str]:
    """Return the absolute paths that a grant must cover: the finding's own, or its folder and the paths in its words."""
    return finding.paths or tuple(named(finding))


def everything(finding: Finding) -> Sequence[str]:
    """Return all absolute paths that the finding touches or names: a permanent grant is bound to them."""
    return list(dict.fromkeys([*(path for path in finding.paths if path != UNKNOWN_PATH), *named(finding)]))


def named(finding: Finding) -> Iterator[str]:
    """Yield the folder of a simple command, and the paths that its words may name (``-C x``, ``--prefix=/x``, ``src``)."""
    if not finding.cwd:
        return
    yield finding.cwd
    for word in finding.argv[1:]:
        for text in (word if word[:1] != "-" else "", word.partition("=")[2], word[2:] if word[:1] == "-" else ""):
            if text and text != "/dev/null" and _is_name(text):
                yield posixpath.normpath(posixpath.join(finding.cwd, text if text[0] != "~" else "/"))


def _is_name(text: str) -> bool:
    """Return whether a file may have this name. A message or a program's text is not a path."""
    return text.isprintable() and all(len(part.encode("utf-8", "replace")) <= _MOST_NAME for part in text.split("/"))


def leads_to(links: Iterable[tuple[str, str]], path: str) -> str:
    """Return the path that ``path`` leads to, according to its nearest parent among ``links``."""
    nearest = max((pair for pair in links if under(path, pair[0])), key=lambda pair: len(pair[0]), default=None)
    if nearest is None or nearest[1] == UNKNOWN_PATH:
        return path if nearest is None else UNKNOWN_PATH
    below = path[len(nearest[0].rstrip("/")) :].strip("/")
    return posixpath.join(nearest[1], below) if below else nearest[1]


def is_known(finding: Finding) -> bool:
    """Return whether the targets of all paths that the finding touches or names are known."""
    return UNKNOWN_PATH not in finding.paths and all(there != UNKNOWN_PATH for _path, there in finding.leads)


class Follower:
    """Follows links for the findings of one call, each path once. ``levels``: the levels of findings to follow.

    ``root`` is the folder that a session's grants are bound to.
    """

    def __init__(self, files: ResolvesPaths, root: str = "", levels: Sequence[Level] = LASTING) -> None:
        self._files = files
        self._root = root
        self._levels = levels
        self._known: dict[str, str] = {}

    async def follow(self, finding: Finding) -> Finding:
        """Return the finding with its ``leads``, and with the links that match its patterns among its ``paths``."""
        if finding.level not in self._levels:
            return finding
        paths = dict.fromkeys(finding.paths)
        for pattern in finding.patterns:
            paths.update(dict.fromkeys(await self._matched(pattern)))
        asked = dict.fromkeys([*paths, *named(finding), *([self._root] if self._root else ())])
        asked.pop(UNKNOWN_PATH, None)
        if len(asked) > MOST_PLACES:
            return replace(finding, paths=(*paths, UNKNOWN_PATH) if paths else (), leads=((finding.cwd or "/", UNKNOWN_PATH),))
        leads = tuple([(path, there) for path in asked if (there := await self._resolved(path)) != path])
        if not leads and len(paths) == len(finding.paths):
            return finding
        return replace(finding, paths=tuple(paths), leads=leads)

    async def _resolved(self, path: str) -> str:
        if path not in self._known:
            try:
                there = await self._files.resolve(path)
                info = await self._files.stat(there)  # raises if a parent folder cannot be entered, or a link leads to itself
                self._known[path] = UNKNOWN_PATH if info is not None and info.kind == "link" else there
            except (OSError, ValueError, ToolcribError):
                self._known[path] = UNKNOWN_PATH
        return self._known[path]

    async def _matched(self, pattern: str) -> Sequence[str]:
        """Return the links that match the folder parts of a pattern, because paths behind them are elsewhere; [UNKNOWN_PATH] if
        not all can be found.
        """
        parts = pattern.strip("/").split("/")
        begin = next((at for at, part in enumerate(parts) if not _GLOB.isdisjoint(part)), len(parts))
        folders, found, left = ["/" + "/".join(parts[:begin])], [], MOST_LISTED
        for part in parts[begin : len(parts) - 1]:
            if part == "**" or "{" in part:
                return [UNKNOWN_PATH]
            below: list[str] = []
            for folder in folders:
                entries = await self._listed(folder)
                left -= len(entries or ())
                if entries is None or left < 0:
                    return [UNKNOWN_PATH]
                below += [posixpath.join(folder, entry) for entry, kind in entries.items() if _may_be(kind, entry, part)]
                found += [path for path in below if entries.get(posixpath.basename(path)) == "link"]
            folders = below
        return found

    async def _listed(self, folder: str) -> Mapping[str, str] | None:
        """Return the kinds of a folder's entries by name; {} if there is no folder, None if it is unreadable."""
        try:
            entries = await self._files.list_dir(await self._files.resolve(folder))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, ToolcribError):
            return None
        return {posixpath.basename(entry.path): entry.kind for entry in entries}


def _may_be(kind: str, name: str, part: str) -> bool:
    return kind in ("dir", "link") and fnmatch.fnmatchcase(name, part)


def bound(findings: Sequence[Finding], paths: Iterable[str]) -> Mapping[str, str]:
    """Return the targets of the links among ``paths``, as the findings recorded them, and the digests of the
    findings' settings.
    """
    seen = dict(pair for finding in findings for pair in finding.leads)
    settings = dict(pair for finding in findings for pair in finding.settings)
    return {path: seen[path] for path in paths if path in seen} | settings
