"""Capture one output stream within bounds: both ends in memory, and the whole stream in a file if it is too long."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path

from toolcrib.contract.environment import Captured

_log = logging.getLogger(__name__)

SPILL_LIMIT = 1 << 30
"""Maximum size of the file in bytes, so that endless output cannot fill the disk. The file keeps the beginning."""


class Capture:
    """Capture of one stream's chunks. If the file cannot be written, both ends are still kept."""

    def __init__(self, name: str, keep: int, spill: Path | None, limit: int = SPILL_LIMIT) -> None:
        self._name = name
        self._head_size = (max(keep, 0) + 1) // 2
        self._tail_size = max(keep, 0) - self._head_size
        self._spill_dir = spill
        self._room = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._file: int | None = None
        self._path: Path | None = None

    def add(self, chunk: bytes) -> None:
        """Add a chunk of the stream."""
        fits = self._total <= self._head_size + self._tail_size
        self._total += len(chunk)
        if self._total > self._head_size + self._tail_size:
            if fits and self._spill_dir is not None:
                self._open(self._spill_dir)
                self._write(self._head)
                self._write(self._tail)
            self._write(chunk)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        # Cut only at twice the size: cutting after each chunk would make the work quadratic.
        if len(self._tail) > 2 * self._tail_size:
            self._cut()

    def finish(self) -> Captured:
        """Close the file and return the kept output. May be called twice."""
        if self._file is not None:
            try:
                os.close(self._file)
            except OSError as error:
                self._drop(error)
            self._file = None
        if self._total <= self._head_size + self._tail_size:
            return Captured(bytes(self._head + self._tail), b"", self._total)
        self._cut()
        return Captured(bytes(self._head), bytes(self._tail), self._total, self._path)

    def _cut(self) -> None:
        extra = len(self._tail) - self._tail_size
        if extra > 0:
            del self._tail[:extra]

    def _open(self, folder: Path) -> None:
        path = folder / f"{self._name}-{secrets.token_hex(6)}.txt"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            _log.warning("long output cannot be kept in %s: %s", folder, error)
            return
        self._path = path

    def _write(self, data: bytes | bytearray) -> None:
        if self._file is None or not data or self._room <= 0:
            return
        view = memoryview(data)[: self._room]
        try:
            while view:
                written = os.write(self._file, view)
                self._room -= written
                view = view[written:]
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Remove the incomplete file, which would waste disk space and look like the whole output."""
        _log.warning("long output is no longer kept in %s: %s", self._path, error)
        if self._file is not None:
            with contextlib.suppress(OSError):  # the write error is already logged
                os.close(self._file)
            self._file = None
        if self._path is not None:
            with contextlib.suppress(OSError):  # the write error is already logged
                self._path.unlink()
            self._path = None
