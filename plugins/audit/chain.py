"""The log file: a line of JSON for each entry, with the digest of the line before it, written by any number of processes.

``NAME.head`` beside it holds the number and digest of the last line, and is the file that writers lock. A file that is too large
is renamed to ``NAME.NUMBER``, by the number of its first line, and the chain continues in a new file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START = "0" * 64
"""Digest before the first line."""
_TAIL = 65_536
TORN = "torn"
"""Event of a line that follows an unfinished one, which a killed process or a full disk left."""


class Chain:
    """Appends to ``path``. ``most`` is the size limit of a file in bytes, ``keep`` the number of old files to keep, 0 for all."""

    def __init__(self, path: Path, *, most: int = 50_000_000, keep: int = 0, sync: bool = False) -> None:
        self.path = path
        self._most = most
        self._keep = keep
        self._sync = sync

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append an entry, whole or not at all. Raises OSError."""
        with self._held() as head:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.fchmod(file, 0o600)
                number, before = self._end(file, head)
                line, digest = made(number, before, entry)
                size = os.fstat(file).st_size
                _write(file, line, size)
                if self._sync:
                    os.fsync(file)
                _note(head, number, digest)
                if size + len(line) >= self._most:
                    self._rotate(file)
            finally:
                os.close(file)

    @contextmanager
    def _held(self) -> Iterator[int]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = os.open(head_of(self.path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(head, fcntl.LOCK_EX)
            yield head
        finally:
            os.close(head)

    def _end(self, file: int, head: int) -> tuple[int, str]:
        """Return the number of the next line, and the digest of the last one. An unfinished line is closed, and its digest
        recorded.
        """
        noted = read_head(os.pread(head, 200, 0))
        size = os.fstat(file).st_size
        if not size:
            return (noted[0] + 1, noted[1]) if noted else (1, START)
        tail = os.pread(file, _TAIL, max(0, size - _TAIL))
        if not tail.endswith(b"\n"):
            return self._close_torn(file, tail if size <= _TAIL else _whole_tail(file, size), noted)
        last = tail[:-1].rpartition(b"\n")[2]
        if len(last) + 1 >= _TAIL:
            last = _whole_tail(file, size)[:-1].rpartition(b"\n")[2]
        number = number_of(last)
        if number is None:  # another program wrote here: the verifier reports it
            return (noted[0] + 1 if noted else 1), digest_of(last + b"\n")
        return number + 1, digest_of(last + b"\n")

    def _close_torn(self, file: int, tail: bytes, noted: tuple[int, str] | None) -> tuple[int, str]:
        whole, _, torn = tail.rpartition(b"\n")
        last = whole.rpartition(b"\n")[2]
        if number_of(torn) is not None:  # complete except for its line end
            _write(file, b"\n", os.fstat(file).st_size)
            return (number_of(torn) or 0) + 1, digest_of(torn + b"\n")
        number = (number_of(last) if last else None) or (noted[0] if noted else 0)
        entry = {"event": TORN, "bytes": len(torn), "torn": digest_of(torn)}
        before = digest_of(last + b"\n") if last else noted[1] if noted else START
        line, digest = made(number + 1, before, entry)
        _write(file, b"\n" + line, os.fstat(file).st_size)
        return number + 2, digest

    def _rotate(self, file: int) -> None:
        first = number_of(os.pread(file, _TAIL, 0).partition(b"\n")[0]) or 0
        self.path.rename(self.path.with_name(f"{self.path.name}.{first:012d}"))
        if self._keep:
            for old in files_of(self.path)[:-1][: -self._keep]:
                old.unlink(missing_ok=True)


def made(number: int, before: str, entry: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a line, and its digest."""
    line = json.dumps({"n": number, "prev": before, **entry}, ensure_ascii=True, separators=(",", ":"), default=str)
    data = line.encode("ascii") + b"\n"
    return data, digest_of(data)


def digest_of(data: bytes) -> str:
    """Return the digest of a line with its line end."""
    return hashlib.sha256(data).hexdigest()


def number_of(line: bytes) -> int | None:
    """Return the number of a line, or None if the line does not belong to a log."""
    try:
        found = json.loads(line)["n"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def head_of(path: Path) -> Path:
    """Return the file that holds the number and digest of the last line."""
    return path.with_name(f"{path.name}.head")


def read_head(data: bytes) -> tuple[int, str] | None:
    """Return the number and digest in a head file, or None if it is empty or broken."""
    number, _, digest = data.decode("ascii", "replace").strip("\0\n ").partition(" ")
    return (int(number), digest) if number.isascii() and number.isdecimal() and len(digest) == len(START) else None


def files_of(path: Path) -> list[Path]:
    """Return the files of a chain, the oldest first."""
    old = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    return [*sorted(old), *([path] if path.exists() else [])]


def _note(head: int, number: int, digest: str) -> None:
    os.pwrite(head, f"{number:020d} {digest}\n".encode("ascii"), 0)


def _whole_tail(file: int, size: int) -> bytes:
    return os.pread(file, size, 0)


def _write(file: int, data: bytes, size: int) -> None:
    """Append all of the data, or leave the file as it was."""
    done = 0
    try:
        while done < len(data):
            done += os.write(file, data[done:])
    except OSError:
        if done:
            os.ftruncate(file, size)
        raise
