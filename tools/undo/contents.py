"""Old contents of files, by their digests: equal ones are kept once, the oldest go first when there are too many."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

_log = logging.getLogger(__name__)
_BLOCK = 4096
_DAY = 86_400.0


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Contents(Protocol):
    def put(self, digest: str, data: bytes) -> None:
        """Keep it, or keep it for longer. Raises OSError."""
        ...

    def get(self, digest: str) -> bytes | None:
        """None where it is not kept, or not any more."""
        ...


class MemoryContents:
    """For one process."""

    def __init__(self, max_bytes: int) -> None:
        self._kept: dict[str, bytes] = {}
        self._left = max_bytes
        self._lock = threading.Lock()

    def put(self, digest: str, data: bytes) -> None:
        with self._lock:
            if digest in self._kept:
                self._kept[digest] = self._kept.pop(digest)  # the one used last stands last
                return
            self._kept[digest] = data
            self._left -= len(data)
            while self._left < 0 and len(self._kept) > 1:
                self._left += len(self._kept.pop(next(iter(self._kept))))

    def get(self, digest: str) -> bytes | None:
        return self._kept.get(digest)


class FolderContents:
    """In a private folder, which several processes may use at once.

    About ``max_bytes`` in all, none for longer than ``seconds`` after it was last replaced. A content is there whole or not at
    all, whenever a process is killed; ``sync`` keeps it through a loss of power too.
    """

    def __init__(
        self, folder: Path, *, max_bytes: int, seconds: float, sync: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._sync = sync
        self._clock = clock
        self._looked = False

    def put(self, digest: str, data: bytes) -> None:
        path = self._path(digest)
        grown = 0
        with self._held(fcntl.LOCK_SH):
            try:
                whole = path.stat().st_size == len(data)
            except FileNotFoundError:
                whole = False
            if whole:
                now = self._clock()
                os.utime(path, (now, now))
            else:
                self._write(path, data)
                grown = self._count(len(data))
        if grown > self._max_bytes // 8 or not self._looked:
            self._looked = True
            self._prune(grown)

    def get(self, digest: str) -> bytes | None:
        try:
            data = self._path(digest).read_bytes()
        except OSError:
            return None
        return data if digest_of(data) == digest else None

    def prune(self) -> None:
        """Remove what is too old, then the oldest of what is too much. Leaves it to another process that is at it."""
        with self._held(fcntl.LOCK_EX | fcntl.LOCK_NB):
            now, total = self._clock(), 0
            found = sorted(self._all(), reverse=True)
            for at, size, path in found:
                total += size
                if total > self._max_bytes or now - at > self._seconds or (path.suffix == ".tmp" and now - at > _DAY):
                    path.unlink(missing_ok=True)
            (self._folder / "grown").write_bytes(b"")
            (self._folder / "pruned").touch()

    def _prune(self, grown: int) -> None:
        try:
            if grown <= self._max_bytes // 8:
                with contextlib.suppress(FileNotFoundError):
                    if self._clock() - (self._folder / "pruned").stat().st_mtime < _DAY:
                        return
            self.prune()
        except BlockingIOError:
            return
        except OSError as error:
            _log.warning("old contents in %s could not be removed: %s", self._folder, error.strerror or error)

    def _all(self) -> Iterator[tuple[float, int, Path]]:
        for folder in self._folder.glob("??"):
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    about = path.stat()
                    yield about.st_mtime, about.st_size, path

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]

    def _write(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(f"{secrets.token_hex(8)}.tmp")
        try:
            fd = _create(temporary)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fd = _create(temporary)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                if self._sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)  # noqa: PTH104 - the same as the calls around it
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if self._sync:
            fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _count(self, size: int) -> int:
        """Bytes that were added since the last look at all of them, by whichever process: a byte in a file for each block."""
        fd = os.open(self._folder / "grown", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"." * (size // _BLOCK + 1))
            return os.fstat(fd).st_size * _BLOCK
        finally:
            os.close(fd)

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        fd = open_lock(self._folder / "lock")
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def open_lock(path: Path) -> int:
    """A file to lock, made with its private folder where it is missing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)
