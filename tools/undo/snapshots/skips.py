"""Folders that snapshots leave out: rebuildable ones, the folders in ``snapshots.skip``, and toolcrib's own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence

from toolcrib.contract.namedtuple import NamedTuple

REBUILT = frozenset(
    (
        "node_modules bower_components .venv venv env target __pycache__ .tox .nox .mypy_cache .pytest_cache .ruff_cache"
        " .hypothesis .cache .gradle .next .nuxt .svelte-kit .parcel-cache .turbo dist build out .eggs .terraform Pods"
        " DerivedData _build deps .stack-work dist-newstyle zig-cache .zig-cache .dart_tool elm-stuff htmlcov coverage"
    ).split()
)
"""Names of folders that build tools create. A large one is left out if it holds a CACHEDIR.TAG, or if git ignores it and one of
``RECIPES`` can rebuild it. Any other folder may hold results that cannot be rebuilt, so it is kept.
"""
_CACHES = frozenset("__pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache .parcel-cache .turbo htmlcov".split())
"""Names of rebuildable folders that are left out at any size, even if no file of the project rebuilds them."""
RECIPES = frozenset(
    (
        "package.json bower.json deno.json pyproject.toml setup.py setup.cfg requirements.txt Pipfile tox.ini noxfile.py"
        " environment.yml Cargo.toml pom.xml build.gradle build.gradle.kts build.sbt Makefile GNUmakefile makefile CMakeLists.txt"
        " meson.build SConstruct go.mod mix.exs rebar.config stack.yaml cabal.project build.zig pubspec.yaml elm.json Podfile"
        " main.tf Justfile justfile Taskfile.yml WORKSPACE MODULE.bazel dune-project composer.json Gemfile"
    ).split()
)
"""Files that let a tool rebuild such a folder, in a parent folder up to the top of its repository."""
CACHE, REBUILDABLE = "it is a cache", "it is large, git ignores it, and a tool can rebuild it"
SMALL_PATHS, SMALL_BYTES = 5_000, 100 << 20
"""Limits, in paths and in bytes, for all rebuildable folders of a project together. Folders within them are kept."""
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
_MOST = 65_536


class _Above(NamedTuple):
    """A parent folder: the lines of its .gitignore, whether it is the top of a repository, and whether it has one of RECIPES."""

    lines: frozenset[str]
    top: bool
    has_recipe: bool


class _Size(NamedTuple):
    paths: int
    bytes: int


class SkippedFolders:
    """Decides which folders are left out.

    A folder with a name in ``REBUILT`` is left out if it is a cache or large, and either holds a CACHEDIR.TAG, or git ignores it
    and a tool can rebuild it. Git ignores it if it holds a ``.gitignore`` with the line ``*``, or if a ``.gitignore`` between it
    and the top of its repository names it without a pattern. Patterns are not interpreted and git is not run: a folder that git
    ignores for another reason is kept, which only costs space.
    """

    def __init__(self, names: Collection[str], paths: Sequence[str], opened: Callable[[str], int]) -> None:
        """Leave out further folders: ``names`` (names, paths in the root or absolute paths) and absolute ``paths``. ``opened``
        opens a folder by its path in the root.
        """
        self._names = frozenset(name.strip("/") for name in names if not name.startswith("/"))
        self._paths = frozenset(os.path.realpath(path) for path in (*paths, *(name for name in names if name.startswith("/"))))
        self._opened = opened
        self._lines: dict[str, _Above] = {}
        self._small: dict[str, _Size] = {}
        """Rebuildable folders that are kept, with their sizes."""

    def reason(self, root: str, path: str, fd: int, *, is_kept: bool) -> str:
        """Return why the folder ``path``, opened as ``fd``, is left out; "" if it is kept.

        ``is_kept``: it was kept before and stays kept even if rebuildable, so that a new .gitignore cannot remove it from the
        snapshots.
        """
        name = path.rpartition("/")[2]
        if name in self._names or path in self._names:
            return "snapshots.skip names it"
        if f"{root.rstrip('/')}/{path}" in self._paths:
            return "it belongs to toolcrib"
        if name in REBUILT and not is_kept:
            is_marked = _head(fd, "CACHEDIR.TAG").startswith(_SIGNATURE)
            ignores_itself = b"*" in _head(fd, ".gitignore").split()
            can_rebuild = name in _CACHES or self._has_recipe(path)
            if is_marked or (can_rebuild and (ignores_itself or self._is_ignored(path, name))):
                return CACHE if name in _CACHES else "" if self._is_small(root, path, fd) else REBUILDABLE
        return ""

    def may_skip(self, path: str) -> bool:
        """Return whether a folder that does not exist yet would be left out by its name or path."""
        return path.rpartition("/")[2] in self._names or path in self._names

    def _is_small(self, root: str, path: str, fd: int) -> bool:
        kept = {one: size for one, size in list(self._small.items()) if one != path and os.path.lexists(f"{root}/{one}")}
        if any(path.startswith(f"{other}/") for other in kept):
            return True  # it was counted with that folder
        paths, size = (sum(each) for each in zip(*kept.values(), strict=True)) if kept else (0, 0)
        found = _size(fd, _Size(SMALL_PATHS - paths, SMALL_BYTES - size))
        self._small = kept if found is None else kept | {path: found}  # a new mapping, because other threads read it
        return found is not None

    def forget(self) -> None:
        """Forget the .gitignore files. They are read again when needed."""
        self._lines.clear()

    def _has_recipe(self, path: str) -> bool:
        while path:
            path = path.rpartition("/")[0]
            above = self._lines_of(path)
            if above.has_recipe or above.top:
                return above.has_recipe
        return False

    def _is_ignored(self, path: str, name: str) -> bool:
        below = name
        while path:
            path = path.rpartition("/")[0]
            lines, top, _ = self._lines_of(path)
            if {f"!{name}", f"!{name}/", f"!/{below}", f"!/{below}/"} & lines:
                return False
            if {name, f"{name}/", f"/{below}", f"/{below}/", below, f"{below}/", f"**/{name}", f"**/{name}/"} & lines:
                return True
            if top:
                return False
            below = f"{path.rpartition('/')[2]}/{below}"
        return False

    def _lines_of(self, path: str) -> _Above:
        known = self._lines.get(path)
        if known is not None:
            return known
        try:
            fd = self._opened(path)
        except OSError:
            return _Above(frozenset(), True, False)
        try:
            text = _head(fd, ".gitignore") + b"\n" + _head(fd, ".git/info/exclude")
            names = os.listdir(fd)  # noqa: PTH208 - of an open folder
        finally:
            os.close(fd)
        lines = frozenset(line.strip() for line in os.fsdecode(text).splitlines())
        self._lines[path] = found = _Above(lines, not path or ".git" in names, not RECIPES.isdisjoint(names))
        return found


def _head(fd: int, name: str) -> bytes:
    """Return the first bytes of a regular file in a folder, b"" if there is none or it can't be read."""
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


def _size(fd: int, most: _Size, deep: int = 64) -> _Size | None:
    """Return how many paths and bytes an open folder holds.

    None if it holds more than ``most``, is more than ``deep`` folders deep, or is unreadable.
    """
    left = most
    with contextlib.suppress(FileNotFoundError), os.scandir(fd) as listed:  # a tool may be deleting it
        for item in listed:
            left = _Size(left.paths - 1, left.bytes - item.stat(follow_symlinks=False).st_size)
            if min(left) < 0 or not deep:
                return None
            if item.is_dir(follow_symlinks=False):
                found = _size_of(fd, item.name, left, deep - 1)
                if found is None:
                    return None
                left = _Size(left.paths - found.paths, left.bytes - found.bytes)
    return _Size(most.paths - left.paths, most.bytes - left.bytes)


def _size_of(fd: int, name: str, most: _Size, deep: int) -> _Size | None:
    try:
        inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return None
    try:
        return _size(inner, most, deep)
    finally:
        os.close(inner)
