"""Paths as names: what lies below what. Imports next to nothing, since it is needed at every start."""

from __future__ import annotations

import functools
import posixpath

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  # folders to judge by, no file is made
_LEAST_CHOSEN = 6
"""Letters that mktemp must have chosen, so that no other folder's name is met by chance."""


normal = functools.lru_cache(maxsize=4_096)(posixpath.normpath)
"""posixpath.normpath, which keeps what it found: the same few paths are asked about by command after command."""


def above(path: str) -> str:
    """Return the folder that a normalised path is in, as posixpath.dirname does for any path."""
    at = path.rfind("/")
    return path[:at] if at > 0 else path[: at + 1]


def under(path: str, folder: str) -> bool:
    """Return whether the absolute ``path`` is ``folder`` or below it; both are compared by name, links unresolved."""
    path, folder = normal(path), normal(folder)
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


_SCRATCH = (*TEMPORARY, "/dev/shm")  # noqa: S108 - compared, not used


def is_home(path: str, home: str) -> bool:
    """Return whether ``path`` is the home as a whole. A container's is a folder for temporary files, which is no loss: only what
    may start from it counts there.
    """
    return path == home and home not in _SCRATCH


def may_be_made(path: str, template: str) -> bool:
    """Return whether ``mktemp`` may have printed ``path``. ``template`` is known up to the letters that it chooses, its last."""
    chosen = path[len(template) - 1 :]
    fits = path.startswith(template[:-1]) and len(chosen) >= _LEAST_CHOSEN and chosen.isascii() and chosen.isalnum()
    return fits and path.startswith(tuple(f"{folder}/" for folder in TEMPORARY))


_MAX_FOLDERS = 8


def either_folders(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    """Both; where they are too many or unknown, unknown."""
    both = tuple(dict.fromkeys(one + two)) if one and two else ()
    return both if len(both) <= _MAX_FOLDERS else ()
