"""Contents in append-only pack files, found by their digests. One file for each content would take seven times as long.

The index is a table of the store: a chunk counts when the transaction that indexes it is committed. Bytes after the last indexed
chunk of a pack are left from a killed process, and are cut off before the next chunk is appended.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from tools.undo.snapshots.entries import SnapshotFailed, StoreFull

CHUNK = 1 << 20
"""Bytes of a chunk. After a small change to a large file, only the changed chunks are stored again."""
DIGEST = 32
_PACK = 32 << 20
_BUFFER = 1 << 20
_SPARE = 1 << 30
"""Bytes to leave free on a large disk."""


def digests_of(content: bytes) -> Iterator[bytes]:
    """Yield the digests of a file's chunks."""
    return (content[at : at + DIGEST] for at in range(0, len(content), DIGEST))


class Packs:
    """Contents of one store. The caller holds the store's lock, and a transaction around ``put`` and ``rewrite``.

    The packs take at most ``max_bytes``, and leave a part of the disk free; otherwise ``put`` and ``flush`` raise StoreFull.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, max_bytes: int) -> None:
        self._folder = folder
        self._connection = connection
        self._max_bytes = max_bytes
        self._room: int | None = None
        """Bytes that may still be written, None until that was measured."""
        self._pending: dict[bytes, tuple[int, int, int]] = {}
        self._buffer = bytearray()
        self._fd, self._pack, self._end = -1, 0, 0
        self._empty: bool | None = None
        self._reading: dict[int, int] = {}

    def put(self, data: bytes) -> bytes:
        """Store a chunk, if it is new, and return its digest. Raises OSError."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._pending and (self._is_empty() or not self._place(digest)):
            self._append(digest, data)
        return digest

    def get(self, digest: bytes) -> bytes:
        """Return a chunk. Raises SnapshotFailed if it is no longer kept or is damaged."""
        place = self._place(digest)
        if place is not None:
            try:
                if place[0] not in self._reading:
                    self._reading[place[0]] = os.open(self._path(place[0]), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                data = os.pread(self._reading[place[0]], place[2], place[1])
            except OSError as error:
                raise SnapshotFailed(f"the content can't be read: {error}") from error
            if hashlib.sha256(data).digest() == digest:
                return data
        raise SnapshotFailed("the content is not kept any more, or the store was damaged")

    def flush(self) -> None:
        """Write the buffer, and index it in the caller's transaction. Raises OSError and sqlite3.Error."""
        self._write()
        rows = [(digest, *place) for digest, place in self._pending.items()]
        self._connection.executemany("INSERT INTO chunks (digest, pack, start, length) VALUES (?, ?, ?, ?)", sorted(rows))
        ends: dict[int, int] = {}
        for pack, start, length in self._pending.values():
            ends[pack] = max(ends.get(pack, 0), start + length)
        self._connection.executemany("INSERT OR REPLACE INTO packs (pack, end) VALUES (?, ?)", ends.items())
        self._pending.clear()
        self._empty = None

    def drop(self) -> None:
        """Forget the chunks put since the last commit, and close the packs."""
        self._pending.clear()
        self._buffer.clear()
        self._empty = None
        for fd in (self._fd, *self._reading.values()):
            if fd >= 0:
                os.close(fd)
        self._fd, self._room = -1, None
        self._reading.clear()

    def trim(self) -> None:
        """Remove everything that no committed transaction indexed. Raises OSError and sqlite3.Error."""
        ends = dict(self._connection.execute("SELECT pack, end FROM packs"))
        for path in self._folder.glob("*.pack"):
            end = ends.get(int(path.stem))
            if end is None:
                path.unlink()
            elif path.stat().st_size > end:
                os.truncate(path, end)

    def rewrite(self, wanted: Collection[bytes], *, whole: bool) -> None:
        """Remove all chunks except the wanted ones from the index. The caller runs ``trim`` after the commit.

        A pack with less than half of its chunks wanted (with ``whole``: any pack with unwanted chunks) is copied, if the disk has
        space for the copy. Raises OSError, sqlite3.Error and SnapshotFailed.
        """
        live: dict[int, list[bytes]] = {}
        size: dict[int, int] = {}
        rows = self._connection.execute("SELECT digest, pack, length FROM chunks").fetchall()
        for digest, pack, length in rows:
            if digest in wanted:
                live.setdefault(pack, []).append(digest)
                size[pack] = size.get(pack, 0) + length
        self._connection.executemany("DELETE FROM chunks WHERE digest = ?", [(row[0],) for row in rows if row[0] not in wanted])
        self._open(fresh=True)
        self._room = room = shutil.disk_usage(self._folder).free - _BUFFER
        for path in self._folder.glob("*.pack"):
            pack = int(path.stem)
            live_size = size.get(pack, 0)
            if pack != self._pack and live_size * (1 if whole else 2) < path.stat().st_size and live_size <= room:
                room -= live_size
                for digest in live.get(pack, ()):
                    data = self.get(digest)
                    self._connection.execute("DELETE FROM chunks WHERE digest = ?", (digest,))
                    self._append(digest, data)
        self.flush()
        self._connection.execute("DELETE FROM packs WHERE pack NOT IN (SELECT pack FROM chunks)")
        self._room = None

    def _is_empty(self) -> bool:
        """Return whether no chunk was indexed when this transaction began, so that digests need not be looked up."""
        if self._empty is None:
            self._empty = self._connection.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is None
        return self._empty

    def _place(self, digest: bytes) -> tuple[int, int, int] | None:
        row: tuple[int, int, int] | None = self._connection.execute(
            "SELECT pack, start, length FROM chunks WHERE digest = ?", (digest,)
        ).fetchone()
        return row

    def _append(self, digest: bytes, data: bytes) -> None:
        if self._fd < 0:
            self.trim()
        if self._fd < 0 or self._end > _PACK:
            self._open(fresh=self._fd >= 0)
        self._pending[digest] = (self._pack, self._end, len(data))
        self._buffer += data
        self._end += len(data)
        if len(self._buffer) >= _BUFFER:
            self._write()

    def _write(self) -> None:
        if not self._buffer:
            return
        self._room = (self._left() if self._room is None else self._room) - len(self._buffer)
        if self._room < 0:
            raise StoreFull(f"the disk is full or nearly full: free space for {self._folder}, then start a new session")
        view = memoryview(bytes(self._buffer))
        self._buffer.clear()
        while view:
            view = view[os.write(self._fd, view) :]

    def _open(self, *, fresh: bool) -> None:
        """Open the last pack after its last indexed chunk, or a new pack."""
        if self._fd >= 0:
            self._write()
            os.close(self._fd)
            self._fd = -1
        last = max((int(path.stem) for path in self._folder.glob("*.pack")), default=0)
        end = self._connection.execute("SELECT coalesce(max(end), 0) FROM packs WHERE pack = ?", (last,)).fetchone()[0]
        fresh = fresh or not last or end > _PACK or end > self._path(last).stat().st_size
        self._pack, self._end = (last + 1, 0) if fresh else (last, end)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path(self._pack), flags, 0o600)
        os.ftruncate(self._fd, self._end)
        os.lseek(self._fd, self._end, os.SEEK_SET)

    def _left(self) -> int:
        """Return how many more bytes the packs may take."""
        disk = shutil.disk_usage(self._folder)
        spare = min(_SPARE, disk.total // 50)
        return min(self._max_bytes - sum(path.stat().st_size for path in self._folder.glob("*.pack")), disk.free - spare)

    def _path(self, pack: int) -> Path:
        return self._folder / f"{pack:08}.pack"
