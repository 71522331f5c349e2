"""Detects a log that was emptied, cut or overwritten: the log's index, if a killed process left it, counts the committed pages.

SQLite itself rebuilds the index and continues with the rest of the log. After a restart of the machine, the index proves
nothing: some data may not have reached the disk, and the log and the index may have lost different parts of it.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from agent.store import _placing

_HEADER, _FRAME = 32, 24
_MAGIC, _WORD = 0x377F0682, 0xFFFFFFFF
_COPY = 48
"""Bytes of the index's first part, which has two copies: it is complete if both are equal."""


def lost_pages(path: Path) -> int:
    """Return the number of committed pages that are missing at the end of the log and were not yet in the file.

    Also returns 0 if that is unknown: while this process has the store open, if the index is older than the machine's last start,
    or without ``/proc``. No other process may open the file meanwhile: see ``_locking.looking``.
    """
    wal, shm = _placing.beside(path)
    try:
        found = shm.stat()
        if _is_ours(found) or found.st_mtime < time.time() - time.clock_gettime(time.CLOCK_BOOTTIME):
            return 0
        index = _read(shm, 2 * _COPY + 4)
        begin, size = _read(wal, _HEADER), wal.stat().st_size
    except (OSError, AttributeError):  # the last process has closed and removed the index, or there is no such clock
        return 0
    if len(index) < 2 * _COPY + 4 or index[:_COPY] != index[_COPY : 2 * _COPY] or not index[12]:
        return 0
    page, frames = struct.unpack_from("=HI", index, 14)
    if len(begin) == _HEADER and begin[16:24] != index[32:40]:
        return 0  # a log from another time: its frames do not belong to the index
    (filed,) = struct.unpack_from("=I", index, 2 * _COPY)
    held = max(0, size - _HEADER) // (_FRAME + (page if page > 1 else 65_536))
    return max(0, int(frames) - max(held, int(filed)))


def _is_ours(index: os.stat_result) -> bool:
    """Return whether this process has the index open. Then opening and closing it again would drop SQLite's locks on it."""
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found = descriptor.stat()
        except OSError:  # the descriptor of this folder
            continue
        if (found.st_dev, found.st_ino) == (index.st_dev, index.st_ino):
            return True
    return False


def _read(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def is_log_header(header: bytes) -> bool:
    """Return whether the first 32 bytes of a log are a header that SQLite accepts: it silently ignores any other log."""
    if len(header) < _HEADER or int.from_bytes(header[:4]) & ~1 != _MAGIC:
        return False
    order = ">" if header[3] & 1 else "<"
    first = second = 0
    for one, other in struct.iter_unpack(f"{order}2I", header[:24]):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return (first, second) == struct.unpack(">2I", header[24:_HEADER])
