"""Paths as names, and their containment. Has almost no imports, because every start needs it."""

from __future__ import annotations

import functools
import posixpath

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  # compared, not used
_LEAST_CHOSEN = 6
"""Minimum number of letters chosen by mktemp, so that no other folder's name matches by chance."""


normal = functools.lru_cache(maxsize=4_096)(posixpath.normpath)
"""posixpath.normpath with a cache, because command after command asks about the same few paths."""


def above(path: str) -> str:
    """Return the parent folder of a normalised path, as posixpath.dirname does for any path."""
    at = path.rfind("/")
    return path[:at] if at > 0 else path[: at + 1]


def under(path: str, folder: str) -> bool:
    """Return whether the absolute ``path`` is ``folder`` or below it; both are compared by name, links unresolved."""
    path, folder = normal(path), normal(folder)
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


_SCRATCH = (*TEMPORARY, "/dev/shm")  # noqa: S108 - compared, not used


def is_home(path: str, home: str) -> bool:
    """Return whether ``path`` is the home as a whole. False if the home is a temporary folder, as in some containers: its loss
    does no harm.
    """
    return path == home and home not in _SCRATCH


def may_be_made(path: str, template: str) -> bool:
    """Return whether ``mktemp`` may have printed ``path``. ``template`` is known except for the letters at its end."""
    chosen = path[len(template) - 1 :]
    fits = path.startswith(template[:-1]) and len(chosen) >= _LEAST_CHOSEN and chosen.isascii() and chosen.isalnum()
    return fits and path.startswith(tuple(f"{folder}/" for folder in TEMPORARY))


_MAX_FOLDERS = 8


def either_folders(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of both tuples, or () for unknown if they are too many or one tuple is unknown."""
    both = tuple(dict.fromkeys(one + two)) if one and two else ()
    return both if len(both) <= _MAX_FOLDERS else ()
