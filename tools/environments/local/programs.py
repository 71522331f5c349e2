"""Programs that toolcrib runs itself, outside a sandbox."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from toolcrib.contract.paths import real_path


def search_path(path: str, writable: Sequence[str]) -> str:
    """Return a PATH without relative folders and folders inside ``writable``, where a session's commands may put programs.

    An example is the virtual environment of the project where toolcrib was started.
    """
    parts = [part for part in path.split(os.pathsep) if part.startswith("/")]
    return os.pathsep.join(part for part in parts if not is_in_any(part, writable))


def program(name: str, path: str, writable: Sequence[str]) -> str:
    """Return the path of a program outside the ``writable`` folders, "" if there is none."""
    found = shutil.which(name, path=search_path(path, writable))
    return found if found is not None and not is_in_any(found, writable) else ""


def is_in_any(path: str | Path, folders: Sequence[str]) -> bool:
    """Return whether a path is inside one of the folders, with links resolved."""
    real = real_path(path)
    return any(real.is_relative_to(real_path(folder)) for folder in folders)
