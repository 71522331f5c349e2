"""Folders that snapshots leave out: those that a tool makes again, and those that are somebody else's."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

REBUILT = frozenset(
    (
        "node_modules bower_components .venv venv env target __pycache__ .tox .nox .mypy_cache .pytest_cache .ruff_cache"
        " .hypothesis .cache .gradle .next .nuxt .svelte-kit .parcel-cache .turbo dist build out .eggs .terraform Pods"
        " DerivedData _build deps .stack-work dist-newstyle zig-cache .zig-cache .dart_tool elm-stuff htmlcov coverage"
    ).split()
)
"""Names of folders that a tool makes again. One is left out if git ignores it or the tool marked it as a cache."""
REBUILDABLE = ("it is marked as a cache", "git ignores it, and a tool makes it again")
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
_MOST = 65_536


class SkippedFolders:
    """Decides which folders are left out.

    A folder of a name in ``REBUILT`` is left out if it holds a CACHEDIR.TAG or a ``.gitignore`` with the line ``*``, or if a
    ``.gitignore`` between it and the top of its repository names it without a pattern. Patterns are not interpreted and git is
    not run: a folder that git ignores for another reason is kept, which costs room and nothing else.
    """

    def __init__(self, names: Collection[str], paths: Sequence[str], opened: Callable[[str], int]) -> None:
        """Take further folders by ``names`` or paths in the root, and absolute ``paths``. ``opened`` opens one of the root."""
        self._names = frozenset(name.strip("/") for name in names if not name.startswith("/"))
        self._paths = frozenset(os.path.realpath(path) for path in (*paths, *(name for name in names if name.startswith("/"))))
        self._opened = opened
        self._lines: dict[str, tuple[frozenset[str], bool]] = {}

    def reason(self, root: str, path: str, fd: int) -> str:
        """Return why the folder ``path``, opened as ``fd``, is left out; "" if it is kept."""
        name = path.rpartition("/")[2]
        if name in self._names or path in self._names:
            return "snapshots.skip names it"
        if f"{root.rstrip('/')}/{path}" in self._paths:
            return "it belongs to toolcrib"
        if name in REBUILT:
            if _head(fd, "CACHEDIR.TAG").startswith(_SIGNATURE):
                return REBUILDABLE[0]
            if b"*" in _head(fd, ".gitignore").split() or self._is_ignored(path, name):
                return REBUILDABLE[1]
        return ""

    def may_skip(self, path: str) -> bool:
        """Return whether a folder that does not exist yet might be left out once it does."""
        name = path.rpartition("/")[2]
        return name in REBUILT or name in self._names or path in self._names

    def forget(self) -> None:
        """Forget what the files .gitignore said: read them again at the next question."""
        self._lines.clear()

    def _is_ignored(self, path: str, name: str) -> bool:
        below = name
        while path:
            path = path.rpartition("/")[0]
            lines, top = self._lines_of(path)
            if {f"!{name}", f"!{name}/", f"!/{below}", f"!/{below}/"} & lines:
                return False
            if {name, f"{name}/", f"/{below}", f"/{below}/", below, f"{below}/", f"**/{name}", f"**/{name}/"} & lines:
                return True
            if top:
                return False
            below = f"{path.rpartition('/')[2]}/{below}"
        return False

    def _lines_of(self, path: str) -> tuple[frozenset[str], bool]:
        """Return the lines of a folder's .gitignore, and whether it is the top of a repository."""
        known = self._lines.get(path)
        if known is not None:
            return known
        try:
            fd = self._opened(path)
        except OSError:
            return frozenset(), True
        try:
            text = _head(fd, ".gitignore") + b"\n" + _head(fd, ".git/info/exclude")
            top = not path or ".git" in os.listdir(fd)  # noqa: PTH208 - of an open folder
        finally:
            os.close(fd)
        found = frozenset(line.strip() for line in os.fsdecode(text).splitlines()), top
        self._lines[path] = found
        return found


def _head(fd: int, name: str) -> bytes:
    """Return the first bytes of a regular file in a folder, b"" if there is none."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return b""
    try:
        return os.read(file, _MOST)
    except OSError:
        return b""
    finally:
        os.close(file)
