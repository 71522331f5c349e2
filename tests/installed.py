"""The entry points of installed packages, read once: each start with plugins asks for them, and would read all their files."""

from __future__ import annotations

import sys
from functools import cache
from importlib import metadata
from typing import Any

_read = metadata.entry_points
_PATH = tuple(sys.path)


def entry_points(**params: Any) -> Any:
    """Return what ``importlib.metadata.entry_points`` returns. It reads all files again if a test changed ``sys.path``."""
    return _installed().select(**params) if tuple(sys.path) == _PATH else _read(**params)


@cache
def _installed() -> Any:
    return _read()
