"""Complete file names: entries of a folder, and files in its subfolders by a part of their names, without ignored files."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

MOST = 50
"""Maximum number of names that are offered at once."""
_ENTRIES, _TRACKED = 5_000, 50_000
_FRESH = 5.0
"""Seconds before git is asked again."""
_PATIENCE = 1.0
_SHORTEST = 2


class FileNames:
    """Names below the folder that ``folder`` returns ("" for none on this machine). Use it from one thread at a time."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder = folder
        self._of = ""
        self._names: Sequence[str] | None = None
        self._until = 0.0

    def matching(self, begun: str) -> list[str]:
        """Return paths that begin with ``begun``, folders with a final slash, then files in subfolders with ``begun`` in their
        names.
        """
        folder = self._folder()
        if not folder:
            return []
        known = self._known(folder)
        above, _, part = begun.rpartition("/")
        found = list(_entries(folder, f"{above}/" if "/" in begun else "", part, known))
        if "/" not in begun and len(part) >= _SHORTEST and known is not None:
            low = part.lower()
            within = [name for name in known if "/" in name and low in posixpath.basename(name).lower()]
            found += sorted(within, key=lambda name: (name.count("/"), name))
        return found[:MOST]

    def _known(self, folder: str) -> Sequence[str] | None:
        """Return the files below the folder that git does not ignore, or None if git does not list them, see ``_listed``."""
        now = time.monotonic()
        if folder != self._of or now > self._until:
            self._names = _listed(folder)
            self._of, self._until = folder, time.monotonic() + _FRESH
        return self._names


def _entries(folder: str, above: str, part: str, known: Sequence[str] | None) -> Iterator[str]:
    base = os.path.join(folder, os.path.expanduser(above))  # noqa: PTH111, PTH118 - pathlib would change the typed path
    inside = _within(base, folder)
    shown = None if known is None or inside is None else _tops(known, inside)
    try:
        with os.scandir(base) as entries:
            names = sorted(
                (one.name, one.is_dir())
                for number, one in enumerate(entries)
                if number < _ENTRIES and one.name.startswith(part) and (part or not one.name.startswith("."))
            )
    except OSError:
        return
    for name, is_folder in names:
        if name != ".git" and name.isprintable() and (shown is None or name in shown):
            yield f"{above}{name}{'/' if is_folder else ''}"


def _within(base: str, folder: str) -> str | None:
    """Return the relative path from a folder down to ``base``, with a final slash, or None if ``base`` is not below it."""
    way = os.path.relpath(os.path.realpath(base), os.path.realpath(folder))
    return "" if way == "." else None if Path(way).parts[0] == ".." else f"{way}/"


def _tops(known: Sequence[str], inside: str) -> set[str] | None:
    """Return the names in a folder that git knows. Return None for an ignored folder, so that all its files are offered."""
    return {name[len(inside) :].partition("/")[0] for name in known if name.startswith(inside)} or None


def _listed(folder: str) -> Sequence[str] | None:
    """Return the files below a folder that git lists, including untracked files. Return None if there are none or too many, if
    the folder is in no repository, or if git is slow. No program that the repository configures runs.
    """
    import subprocess

    command = ["git", "-C", folder, "-c", "core.fsmonitor=false", "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, env=quiet)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    names = [name for name in done.stdout.decode("utf-8", "replace").split("\0") if name.isprintable() and name]
    return names if 0 < len(names) <= _TRACKED else None
