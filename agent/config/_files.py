"""Files that only their owner may read, written atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from toolcrib.contract.errors import ConfigError

LOCK_SECONDS = 10.0


def write_private(path: Path, text: str) -> None:
    """Replace the content of ``path`` with ``text`` (UTF-8, mode 0600), atomically.

    If that fails, as on a full disk, the old file remains. Raises ConfigError.
    """
    import tempfile

    temporary: str | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = None
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}; the file is unchanged{_mend(path, error)}"
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _mend(path: Path, error: OSError) -> str:
    folder = next((each for each in path.parents if each.exists()), path.parent)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"; free some space in {folder}"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"; make {folder} writable for you"
        case _:
            return ""


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems refuse it; the file itself is written
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def locked(path: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock ``<path>.lock`` against other threads and processes. Raises ConfigError after ``seconds``."""
    import fcntl

    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigError(f"{lock} cannot be opened: {error.strerror or error}{_mend(lock, error)}") from error
    try:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigError(f"another process has locked {path}; try again later") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)  # this releases the lock; the lock file stays, since removing it would race


def refuse_others(about: os.stat_result, file: Path) -> None:
    """Raise ConfigError unless only this user may read and write a file of secrets."""
    if not stat.S_ISREG(about.st_mode):
        raise ConfigError(f"{file} is not a regular file")
    if about.st_mode & 0o077:
        raise ConfigError(f"others may read or write {file}, so none of its secrets are used; run chmod 600 {file}")
    if about.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{file} belongs to another user, so none of its secrets are used; chown it to yourself")
