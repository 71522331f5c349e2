"""Putting a repaired file into the place of a damaged one, in steps that can be repeated wherever the process dies.

The whole new file first gets the name ``NAME-repaired``. While that name is there nobody opens the store; a repair is finished,
not begun: the damaged file is kept under a second name, its log follows, then the new file takes its place.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger(__name__)


def real(path: Path) -> Path:
    """Return where the file is: logs, indexes and copies lie beside the file, and not beside a symbolic link to it."""
    return path.resolve() if path.is_symlink() else path


def index_of(store: Path) -> Path:
    """Return the file of the search index that belongs to a store."""
    return store.with_name(f"{store.name}-search")


def repaired(path: Path) -> Path:
    """Return the name that a new file has until it is in its place."""
    return path.with_name(f"{path.name}-repaired")


def draft_of(path: Path) -> Path:
    """Return a name for the new file while it is made, which is this process's own."""
    return path.with_name(f"{path.name}-repairing-{os.getpid()}")


def commit(path: Path, draft: Path) -> None:
    """Let the draft be the repaired file, whatever happens. Raises OSError, and then nothing has changed."""
    found = path.stat()
    with suppress(PermissionError):
        os.chown(draft, found.st_uid, found.st_gid)
    stamp = time.time() // 1
    while _kept_name(path, stamp).exists():
        stamp += 1
    os.utime(draft, (stamp, stamp))  # it says how the damaged file will be called
    _sync(draft)
    draft.rename(repaired(path))


def finish(path: Path) -> Path:
    """Do what is left to do, and return the name of the damaged file. May be done again after it raised OSError."""
    fresh = repaired(path)
    kept = _kept_name(path, fresh.stat().st_mtime)
    if path.exists() and not kept.exists():
        try:
            os.link(path, kept)
        except OSError:  # a file system without hard links
            path.rename(kept)
    put_beside(path, kept)
    fresh.replace(path)
    return kept


def put_beside(path: Path, kept: Path) -> None:
    """Move the log and the index of a damaged file beside it: the new file must not meet them."""
    for now, then in zip(beside(path), beside(kept), strict=True):
        if now.exists():
            now.rename(then)


def beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def dated(path: Path) -> Path:
    """Choose a name for a damaged file that no other has."""
    stamp = time.time()
    while (name := _kept_name(path, stamp)).exists():
        stamp += 1
    return name


def kept_files(path: Path) -> list[Path]:
    """Return the damaged files that repairs have kept, the oldest first, without their logs."""
    return sorted(file for file in path.parent.glob(f"{path.name}-damaged-*") if not file.name.endswith(("-wal", "-shm")))


def remove_left(path: Path, what: str) -> None:
    """Remove the files ``NAME-WHAT-PID`` of processes that ended without doing so."""
    for left in path.parent.glob(f"{path.name}-{what}-*"):
        maker = left.name.removeprefix(f"{path.name}-{what}-").partition("-")[0]
        if maker.isdecimal() and not _lives(int(maker)):
            with suppress(OSError):
                left.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError) as error:
        _log.debug("whether the process %s lives is unknown: %s", process, error)
    return True


def _kept_name(path: Path, stamp: float) -> Path:
    return path.with_name(f"{path.name}-damaged-{time.strftime('%Y%m%d-%H%M%S', time.localtime(stamp))}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
