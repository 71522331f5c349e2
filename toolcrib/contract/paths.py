"""Resolve paths that a user typed or configured, without unexpected exceptions."""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path with links followed. Unlike ``Path.resolve``, it keeps a path with a loop of links,
    which then fails to open.
    """
    return Path(os.path.realpath(path))


def with_home(path: str | os.PathLike[str]) -> Path:
    """Return the path with ``~`` replaced. Unlike ``Path.expanduser``, the name of an unknown user is kept."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - see above
