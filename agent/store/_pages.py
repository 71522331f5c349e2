"""Reading the rows of a damaged SQLite file page by page, whatever order its pages are in, without SQLite's help.

The file format is documented at https://sqlite.org/fileformat2.html; the numbers here are its numbers. A row is taken only where
the lengths in it add up. Pages of the free list are left out: they hold what was deleted.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = "int | float | str | bytes | None"
MAGIC = b"SQLite format 3\x00"
_TABLE_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_PAGE_SIZES = frozenset(2**power for power in range(9, 17))
_USUAL_SIZE = 4096
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_WAL_HEADER, _FRAME_HEADER = 32, 24
_WORDS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row as it lies in a page. ``number`` is its rowid; None in an index and in a table that has none."""

    number: int | None
    values: tuple[Value, ...]


@dataclass(slots=True)
class Pages:
    """The pages of an open file, with what its write-ahead log has of them on top.

    ``unreadable`` counts rows that make no sense.
    """

    file: int
    """The file's descriptor. It is read from and never opened anew: closing another one would drop the locks on the file."""
    log: Mapping[int, bytes]
    size: int
    """Bytes of a page."""
    count: int
    """Number of pages that there are."""
    unreadable: int = field(default=0, init=False)

    @classmethod
    def of(cls, file: int, logged: bytes) -> Pages:
        """Read the pages of a descriptor; ``logged`` is the content of the file's log, empty without one. Raises OSError."""
        size = _page_size(os.pread(file, 100, 0), logged)
        log = _committed(logged, size)
        return cls(file, log, size, max(-(-os.fstat(file).st_size // size), max(log, default=0)))

    @property
    def missing(self) -> int:
        """Number of pages that the file should have more than it has, by its own first page."""
        first = self.page(1)
        return max(0, int.from_bytes(first[28:32]) - self.count) if first[:16] == MAGIC else 0

    @property
    def application(self) -> int | None:
        """The ``application_id`` of the first page; None where that page is none, or was cut in its header."""
        first = self.page(1)
        return int.from_bytes(first[68:72]) if first[:16] == MAGIC and len(first) >= 100 else None

    @property
    def version(self) -> int:
        """The ``user_version`` of the first page; 0 where that page is none."""
        first = self.page(1)
        return int.from_bytes(first[60:64]) if first[:16] == MAGIC else 0

    def page(self, number: int) -> bytes:
        """Return a page, numbered from 1; empty where there is none, short where the file was cut within it."""
        return self.log.get(number) or os.pread(self.file, self.size, (number - 1) * self.size)

    def rows(self) -> Iterator[PageRow]:
        """Yield every row of every table and index that can be read, in the order of the pages."""
        free = self._free()
        for number in range(1, self.count + 1):
            if number not in free:
                yield from self._rows_of(number)

    def _rows_of(self, number: int) -> Iterator[PageRow]:
        page = self.page(number)
        start = 100 if page[:16] == MAGIC else 0  # wherever the first page is
        if len(page) < start + 8 or page[start] not in (_TABLE_LEAF, _INDEX_LEAF):
            return
        cells = int.from_bytes(page[start + 3 : start + 5])
        pointers = page[start + 8 : start + 8 + 2 * cells]
        for at in range(0, 2 * cells, 2):
            try:
                yield self._row(page, int.from_bytes(pointers[at : at + 2]), is_table=page[start] == _TABLE_LEAF)
            except (ValueError, IndexError, struct.error, RecursionError):
                self.unreadable += 1

    def _row(self, page: bytes, at: int, *, is_table: bool) -> PageRow:
        """Raises ValueError and IndexError for what is no row."""
        length, at = _varint(page, at)
        number: int | None = None
        if is_table:
            number, at = _varint(page, at)
            number -= (number >> 63) << 64
        return PageRow(number, _record(self._payload(page, at, length, is_table=is_table)))

    def _payload(self, page: bytes, at: int, length: int, *, is_table: bool) -> bytes:
        """Return a row's bytes, with what lies in overflow pages."""
        size = self.size
        most = size - 35 if is_table else (size - 12) * 64 // 255 - 23
        if length <= most:
            return _exactly(page[at : at + length], length)
        least = (size - 12) * 32 // 255 - 23
        local = least + (length - least) % (size - 4)
        local = local if local <= most else least
        found = [_exactly(page[at : at + local], local)]
        following, left = int.from_bytes(_exactly(page[at + local : at + local + 4], 4)), length - local
        for _ in range(self.count):
            if left <= 0:
                break
            over = self.page(following) if following else b""
            part = min(left, size - 4)
            found.append(_exactly(over[4 : 4 + part], part))
            following, left = int.from_bytes(over[:4]), left - part
        return _exactly(b"".join(found), length)

    def _free(self) -> set[int]:
        """Return the pages of the free list; what can't be followed of it is left out."""
        first, found = self.page(1), set[int]()
        trunk = int.from_bytes(first[32:36]) if first[:16] == MAGIC else 0
        while 1 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self.page(trunk)
            leaves = min(int.from_bytes(page[4:8]), self.size // 4 - 2)
            found.update(int.from_bytes(page[8 + 4 * at : 12 + 4 * at]) for at in range(leaves))
            trunk = int.from_bytes(page[:4])
        return found


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ValueError("it ends too early")
    return data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 1 to 9 bytes, and the place behind it."""
    value = 0
    for place in range(at, at + 8):
        byte = data[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _record(data: bytes) -> tuple[Value, ...]:
    """Return the columns of a row. Raises ValueError where its lengths do not add up."""
    end, at = _varint(data, 0)
    kinds = []
    while at < end:
        kind, at = _varint(data, at)
        kinds.append(kind)
    if at != end:
        raise ValueError("its header is broken")
    values = []
    for kind in kinds:
        value, end = _value(data, end, kind)
        values.append(value)
    if end != len(data):
        raise ValueError("its length is wrong")
    return tuple(values)


def _value(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind == 7:
        return struct.unpack_from(">d", data, at)[0], at + 8
    if kind in _INTEGERS:
        length = _INTEGERS[kind]
        return int.from_bytes(_exactly(data[at : at + length], length), signed=True), at + length
    if kind < 12:
        raise ValueError("a column of an unknown kind")
    length = (kind - 12) // 2
    found = _exactly(data[at : at + length], length)
    return (found.decode() if kind % 2 else found), at + length


# -- the log -----------------------------------------------------------------------------------------------------------


def _page_size(main: bytes, logged: bytes) -> int:
    told = [int.from_bytes(main[16:18])] if main[:16] == MAGIC else []
    told += [int.from_bytes(logged[8:12])] if len(logged) >= _WAL_HEADER else []
    sizes = [65_536 if size == 1 else size for size in told]
    return next((size for size in sizes if size in _PAGE_SIZES), _USUAL_SIZE)


def _committed(logged: bytes, size: int) -> dict[int, bytes]:
    """Return the last committed version of each page in a write-ahead log.

    SQLite reads up to the first frame that is damaged. Here that frame is passed over: its own header has the sums that the
    next one goes on from. Where the log's header is damaged, the first frame says which frames are of this log.
    """
    header = logged[:_WAL_HEADER]
    order = ">" if header[3:4] == b"\x83" else "<"
    sums = _checksum(header[:24], order, (0, 0)) if is_log_header(logged) else (-1, -1)
    salts = header[16:24] if is_log_header(logged) else logged[_WAL_HEADER + 8 : _WAL_HEADER + 16]
    found: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    for at in range(_WAL_HEADER, len(logged) - size - _FRAME_HEADER + 1, size + _FRAME_HEADER):
        frame, page = logged[at : at + _FRAME_HEADER], logged[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
        sums = _checksum(page, order, _checksum(frame[:8], order, sums))
        if frame[8:16] != salts:
            break
        told = struct.unpack(">2I", frame[16:24])
        if sums == told:
            waiting[int.from_bytes(frame[:4])] = page
        sums = told
        if int.from_bytes(frame[4:8]):  # the transaction ends here
            found |= waiting
            waiting.clear()
    return found


def is_log_header(logged: bytes) -> bool:
    """Return whether a log begins as one does whose frames SQLite reads."""
    header = logged[:_WAL_HEADER]
    if len(header) < _WAL_HEADER or int.from_bytes(header[:4]) & ~1 != 0x377F0682:
        return False
    return _checksum(header[:24], ">" if header[3] & 1 else "<", (0, 0)) == struct.unpack(">2I", header[24:32])


def _checksum(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & _WORDS
        second = (second + words[at + 1] + first) & _WORDS
    return first, second
