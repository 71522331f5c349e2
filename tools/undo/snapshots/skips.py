"""Folders that snapshots leave out: those that a tool makes again, and those that are somebody else's."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from toolcrib._namedtuple import NamedTuple

REBUILT = frozenset(
    (
        "node_modules bower_components .venv venv env target __pycache__ .tox .nox .mypy_cache .pytest_cache .ruff_cache"
        " .hypothesis .cache .gradle .next .nuxt .svelte-kit .parcel-cache .turbo dist build out .eggs .terraform Pods"
        " DerivedData _build deps .stack-work dist-newstyle zig-cache .zig-cache .dart_tool elm-stuff htmlcov coverage"
    ).split()
)
"""Names of folders that a tool makes again. One is left out if the tool marked it as a cache, or if git ignores it and one of
``RECIPES`` is there to make it again; other folders may hold results that nobody can make again.
"""
_CACHES = frozenset("__pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache .parcel-cache .turbo htmlcov".split())
"""Names of rebuildable folders that are left out even if no file of the project rebuilds them."""
RECIPES = frozenset(
    (
        "package.json bower.json deno.json pyproject.toml setup.py setup.cfg requirements.txt Pipfile tox.ini noxfile.py"
        " environment.yml Cargo.toml pom.xml build.gradle build.gradle.kts build.sbt Makefile GNUmakefile makefile CMakeLists.txt"
        " meson.build SConstruct go.mod mix.exs rebar.config stack.yaml cabal.project build.zig pubspec.yaml elm.json Podfile"
        " main.tf Justfile justfile Taskfile.yml WORKSPACE MODULE.bazel dune-project composer.json Gemfile"
    ).split()
)
"""Files by which a tool makes such a folder again, in a folder above it up to the top of its repository."""
REBUILDABLE = ("it is marked as a cache", "git ignores it, and a tool makes it again")
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
_MOST = 65_536


class _Above(NamedTuple):
    """A folder above: the lines of its .gitignore, whether it is the top of a repository, and whether it has one of RECIPES."""

    lines: frozenset[str]
    top: bool
    has_recipe: bool


class SkippedFolders:
    """Decides which folders are left out.

    A folder of a name in ``REBUILT`` is left out if it holds a CACHEDIR.TAG, or if git ignores it and a tool makes it again.
    Git ignores it if it holds a ``.gitignore`` with the line ``*``, or if one between it and the top of its repository names it
    without a pattern. Patterns are not interpreted and git is not run: a folder that git ignores for another reason is kept,
    which costs room and nothing else.
    """

    def __init__(self, names: Collection[str], paths: Sequence[str], opened: Callable[[str], int]) -> None:
        """Take further folders by ``names`` or paths in the root, and absolute ``paths``. ``opened`` opens one of the root."""
        self._names = frozenset(name.strip("/") for name in names if not name.startswith("/"))
        self._paths = frozenset(os.path.realpath(path) for path in (*paths, *(name for name in names if name.startswith("/"))))
        self._opened = opened
        self._lines: dict[str, _Above] = {}

    def reason(self, root: str, path: str, fd: int, *, is_kept: bool) -> str:
        """Return why the folder ``path``, opened as ``fd``, is left out; "" if it is kept.

        ``is_kept``: it was kept until now, so it stays kept even if a tool makes it again: whoever writes a .gitignore can't
        take it out of the snapshots.
        """
        name = path.rpartition("/")[2]
        if name in self._names or path in self._names:
            return "snapshots.skip names it"
        if f"{root.rstrip('/')}/{path}" in self._paths:
            return "it belongs to toolcrib"
        if name in REBUILT and not is_kept:
            if _head(fd, "CACHEDIR.TAG").startswith(_SIGNATURE):
                return REBUILDABLE[0]
            ignores_itself = b"*" in _head(fd, ".gitignore").split()
            if (name in _CACHES or self._has_recipe(path)) and (ignores_itself or self._is_ignored(path, name)):
                return REBUILDABLE[1]
        return ""

    def may_skip(self, path: str, but: Collection[str] = ()) -> bool:
        """Return whether a folder that does not exist yet might be left out once it does, for another reason than ``but``."""
        name = path.rpartition("/")[2]
        return (name in REBUILT and not but) or name in self._names or path in self._names

    def forget(self) -> None:
        """Forget what the files .gitignore said: read them again at the next question."""
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
