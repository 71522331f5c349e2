"""Paths as names: what lies below what. Imports nothing, since it is needed at every start."""

from __future__ import annotations

import posixpath


def under(path: str, folder: str) -> bool:
    """Return whether the absolute ``path`` is ``folder`` or below it; both are compared by name, links unresolved."""
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


_SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - compared, not used


def is_home(path: str, home: str) -> bool:
    """Return whether ``path`` is the home as a whole. A container's is a folder for temporary files, which is no loss: only what
    may start from it counts there.
    """
    return path == home and home not in _SCRATCH
