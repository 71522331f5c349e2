"""Paths as names: what lies below what. Imports nothing, since it is needed at every start."""

from __future__ import annotations

import posixpath


def under(path: str, folder: str) -> bool:
    """Return whether the absolute ``path`` is ``folder`` or below it; both are compared by name, links unresolved."""
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
