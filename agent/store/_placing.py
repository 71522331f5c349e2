"""Replace a damaged file with a repaired one, in steps that can be repeated after a crash at any point.

The complete new file first gets the name ``NAME-repaired``. While that name exists, no process opens the store, and a repair is
finished rather than started: the damaged file gets a second name, its log follows, then the new file takes its place.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from toolcrib.contract.paths import real_path

_log = logging.getLogger(__name__)


def real(path: Path) -> Path:
    """Return the file behind a symbolic link: logs, indexes and backups are beside the file, not beside the link."""
    return real_path(path) if path.is_symlink() else path


def index_of(store: Path) -> Path:
    """Return the search index file of a store."""
    return store.with_name(f"{store.name}-search")


def repaired(path: Path) -> Path:
    """Return the name of a new file before it takes its place."""
    return path.with_name(f"{path.name}-repaired")


def draft_of(path: Path) -> Path:
    """Return this process's own name for the new file while it is made."""
    return path.with_name(f"{path.name}-repairing-{os.getpid()}")


def commit(path: Path, draft: Path) -> None:
    """Rename the draft to the repaired file.

    Afterwards only ``finish`` must still be called. Raises OSError, and then nothing has changed.
    """
    found = path.stat()
    with suppress(PermissionError):
        os.chown(draft, found.st_uid, found.st_gid)
    stamp = time.time() // 1
    while _kept_name(path, stamp).exists():
        stamp += 1
    os.utime(draft, (stamp, stamp))  # the time stamp gives the damaged file's later name
    _sync(draft)
    draft.rename(repaired(path))


def finish(path: Path) -> Path:
    """Perform the remaining steps, and return the damaged file's new name. May be repeated after OSError."""
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
    """Move the log and the index of a damaged file to its new place ``kept``, away from the new file."""
    for now, then in zip(beside(path), beside(kept), strict=True):
        if now.exists():
            now.rename(then)


def beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def dated(path: Path) -> Path:
    """Return a name for a damaged file that no other file has."""
    stamp = time.time()
    while (name := _kept_name(path, stamp)).exists():
        stamp += 1
    return name


def kept_files(path: Path) -> list[Path]:
    """Return the damaged files that repairs kept, oldest first, without their logs."""
    return sorted(file for file in path.parent.glob(f"{path.name}-damaged-*") if not file.name.endswith(("-wal", "-shm")))


def remove_left(path: Path, what: str) -> None:
    """Remove the files ``NAME-WHAT-PID`` that ended processes left behind."""
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
