"""Masked paths that appear, or are replaced, while a sandbox runs."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence

_PAUSE = 1.0
"""Seconds between two scans of this machine's sockets."""
_SETTLED_NS = 100_000_000
"""For this many nanoseconds after a change, a folder may change again and keep its timestamp."""
_Mark = list[tuple[int, int, int]]


class AppearingPaths:
    """Finds which of ``paths`` are visible in a sandbox.

    ``sockets`` returns further paths. It is slow on a busy machine, so it is called at most once a second.
    """

    def __init__(self, paths: Sequence[str], sockets: Callable[[], Sequence[str]]) -> None:
        self._paths = paths
        self._sockets = sockets
        self._folders = sorted({os.path.dirname(path) for path in paths})  # noqa: PTH120 - strings, which take little memory
        self._quiet: _Mark | None = None
        """State of the folders when no path showed contents: no path can until a folder changes. None: check the paths."""
        self._look_again = 0.0

    def found(self, view: str) -> list[str]:
        """Return the paths that show contents below ``view``, the sandbox's root folder as this process sees it."""
        found: list[str] = []
        mark = _mark(self._folders)
        if mark != self._quiet:
            found = _shown(self._paths, view)
            newest = max((changed for _, _, changed in mark), default=0)
            is_settled = newest < time.time_ns() - _SETTLED_NS
            is_quiet = is_settled and not found and not any(_is_open(path, view) for path in self._paths)
            self._quiet = mark if is_quiet else None
        if time.monotonic() > self._look_again:
            self._look_again = time.monotonic() + _PAUSE
            found += _shown(self._sockets(), view)
        return list(dict.fromkeys(found))


def _mark(folders: Iterable[str]) -> _Mark:
    found = []
    for folder in folders:
        try:
            facts = os.stat(folder)  # noqa: PTH116 - as above
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((facts.st_dev, facts.st_ino, facts.st_ctime_ns))
    return found


def _shown(paths: Iterable[str], view: str) -> list[str]:
    found = {os.path.realpath(path) for path in paths if os.path.lexists(path) and _shows(view + path)}
    return [path for path in found if _shows(view + path)]


def _is_open(path: str, view: str) -> bool:
    """Return True if a path is the same file inside and outside, so that contents may appear later."""
    try:
        return os.path.samestat(os.lstat(path), os.lstat(view + path))
    except OSError:
        return False


def _shows(path: str) -> bool:
    """Return True if a path holds anything that a command could read, follow or connect to."""
    try:
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(path) as entries:
                return any(True for _ in entries)
        return stat.S_ISSOCK(found.st_mode) or stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size > 0)
    except OSError:  # it does not exist, or this account may not read it
        return False
