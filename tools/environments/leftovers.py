"""Folders that nobody needs any more: ``toolcrib-PID-*`` of processes that were killed, ``toolcrib-kept-*`` after a week."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools import alive

_MEMORY = "/dev/shm"  # noqa: S108 - looked at, and what is ours in it is private
KEPT_SECONDS = 7 * 86_400.0
"""How long a person may look at what a result that was too long names."""


def left_behind(bases: Sequence[str] | None = None) -> list[Path]:
    """Private folders of dead processes of this user, in ``bases`` or wherever there may be some; and those in which people
    were told paths, once they are older than ``KEPT_SECONDS``.
    """
    found = []
    oldest = time.time() - KEPT_SECONDS
    for base in dict.fromkeys(bases or (_MEMORY, tempfile.gettempdir())):
        for folder in sorted(Path(base).glob("toolcrib-*-*")):
            owner = folder.name.split("-")[1]
            with contextlib.suppress(OSError):  # gone meanwhile, or not ours to look at
                about = folder.lstat()
                over = about.st_mtime < oldest if owner == "kept" else owner.isdigit() and not alive.exists(int(owner))
                if over and about.st_uid == os.geteuid():
                    found.append(folder)
    return found


def remove(folder: Path) -> None:
    """Delete a folder that was left behind."""
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def sweep(base: str) -> None:
    """Once a process: remove those in ``base``."""
    for folder in left_behind([base]):
        remove(folder)
