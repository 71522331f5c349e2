"""Access to a SQLite file: a writing thread, reading threads, and the check of a lease within a write."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agent.store import _file, _schema
from agent.store._backup import Backups
from agent.store._codec import text
from agent.store._file import Synchronous
from agent.store._jobs import Job, Work
from agent.store._readers import Readers
from agent.store._shared import lost
from agent.store._writer import Writer
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.store import Fence, Lease

T = TypeVar("T")
_LOOKS_EVERY = 60.0
"""Seconds between two checks, at writes, whether a backup is due."""
_FORKED: list[sqlite3.Connection] = []
"""Connections from before a fork, which stay open in the new process: closing them would write to the parent's file."""


class Access(ABC):
    """Methods that read and write a file. All raise StoreFailed with the file's name and a remedy."""

    path: Path

    @property
    @abstractmethod
    def token(self) -> int:
        """The fencing token of all writes from now on; 0 for none."""

    @abstractmethod
    async def write(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction that is committed when this returns. No other process writes meanwhile."""

    @abstractmethod
    async def read(self, work: Work[T]) -> T:
        """Run ``work`` on a connection that sees all earlier writes. Two of its statements may see different states."""

    async def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return await self.read(lambda connection: connection.execute(sql, parameters).fetchall())

    async def records(self, make: Callable[..., T], sql: str, parameters: Sequence[Any] = ()) -> list[T]:
        """Call ``make`` with each row's columns, and return the results."""
        return await self.read(lambda connection: self.made(make, connection.execute(sql, parameters)))

    async def row(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first row, or None."""
        return await self.read(lambda connection: connection.execute(sql, parameters).fetchone())

    async def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one writing statement. Return the number of rows that it changed."""
        return await self.write(lambda connection: connection.execute(sql, parameters).rowcount)

    def made(self, make: Callable[..., T], rows: Iterable[Any]) -> list[T]:
        """Call ``make`` with each row's columns, and return the results. Raises StoreFailed for a record that can't be read."""
        try:
            return [make(*row) for row in rows]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StoreFailed(
                f"{self.path} has an unreadable record ({type(error).__name__}: {error}); it was not changed"
            ) from error


class OpenDatabase(Access):
    """Access for the store that has opened the database, and must close it."""

    backups: Backups | None = None

    @abstractmethod
    async def alone(self, work: Work[T]) -> T:
        """Run ``work`` on the writing connection, outside a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Wait until earlier calls are done. Closing again does nothing."""


class Database(OpenDatabase):
    """A SQLite file, usable from any thread and event loop.

    ``tables`` is the folder of SQL files that create its tables. ``late``: the file is created and opened on first use.
    ``prepare`` are the first statements of the writing connection. ``backups`` are made by a reading thread during long use,
    otherwise when the database closes. ``evidence``: see _file.
    """

    def __init__(
        self,
        path: Path,
        synchronous: Synchronous,
        tables: Path | None = None,
        *,
        late: bool = False,
        prepare: Sequence[str] = (),
        backups: Backups | None = None,
        evidence: Sequence[Path] = (),
    ) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ValueError(f"synchronous is NORMAL or FULL, not {synchronous!r}")
        self.path = path
        self.synchronous = synchronous
        self._how = synchronous, tables or _schema.FOLDER, prepare
        self.backups = backups
        self._evidence = evidence
        self._next_look = time.monotonic() + _LOOKS_EVERY
        self._opening = threading.Lock()
        self._handing = threading.Lock()
        self._closed = False
        self._wrote = False
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._begin()
        if not late:
            self._connected()

    def _begin(self) -> None:
        self._writer = Writer(self.path, self._connected)
        self._readers = Readers(self.path, self._reader)
        self._used = False

    @property
    def token(self) -> int:
        return 0

    async def write(self, work: Work[T]) -> T:
        self._wrote = True
        if self.backups is not None and time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + _LOOKS_EVERY
            if self.backups.is_due():
                self._handed(self._readers_of, Job(self.backups.make))  # no caller waits for it
        return await self._handed(self._writer_of, Job(work))

    async def alone(self, work: Work[T]) -> T:
        return await self._handed(self._writer_of, Job(work, alone=True))

    async def read(self, work: Work[T]) -> T:
        return await self._handed(self._readers_of, Job(work))

    def close(self) -> None:
        with self._handing:
            closed, self._closed = self._closed, True
        if closed:
            return
        if os.getpid() != self._pid:
            _FORKED.extend(filter(None, [self._connection]))
            return
        self._readers.close()
        self._writer.close()
        connection, self._connection = self._connection, None
        if connection is not None:  # the last connection: closing it copies the log into the file
            if self.backups is not None and self._wrote and self.backups.is_due():
                self.backups.make(connection)
            _file.close_quietly(connection, self.path)

    def _writer_of(self, job: Job[Any]) -> None:
        self._writer.hand(job)

    def _readers_of(self, job: Job[Any]) -> None:
        self._readers.hand(job)

    def _handed(self, hand: Callable[[Job[T]], None], job: Job[T]) -> Job[T]:
        with self._handing:
            if self._closed:
                raise StoreFailed(f"the store {self.path} is closed")
            if os.getpid() != self._pid:
                if self._used or self._connection is not None:
                    raise StoreFailed(
                        f"the store {self.path} was opened before this process was forked; open it again in this process"
                    )
                self._pid = os.getpid()
                self._begin()
            self._used = True
            hand(job)
        return job

    def _connected(self) -> sqlite3.Connection:
        """Return the writing connection."""
        with self._opening:
            if self._connection is None:
                synchronous, tables, prepare = self._how
                evidence = [*self._evidence, *(self.backups.found() if self.backups is not None else ())]
                connection = _file.open_writer(self.path, synchronous, tables, evidence)
                for statement in prepare:
                    connection.execute(statement)
                if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                    connection.execute("PRAGMA busy_timeout = 0")  # the writer itself waits
                self._connection = connection
            return self._connection

    def _reader(self) -> sqlite3.Connection:
        self._connected()
        return _file.open_reader(self.path)


class FencedDatabase(Access):
    """A view of a database whose writes carry the fence's lease and raise LeaseLost if it was lost."""

    def __init__(self, database: Access, fence: Fence) -> None:
        self.path = database.path
        self._database = database
        self._fence = fence

    @property
    def token(self) -> int:
        return 0 if self._fence.lease is None else self._fence.lease.token

    async def write(self, work: Work[T]) -> T:
        lease = self._fence.lease
        return await self._database.write(work if lease is None else _guarded(work, lease))

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)


def _guarded(work: Work[T], lease: Lease) -> Work[T]:
    """Return ``work`` with a check of the lease before it, in the same transaction, so that the lease can't change in between."""

    def guarded(connection: sqlite3.Connection) -> T:
        held = connection.execute("SELECT 1 FROM leases WHERE name = ? AND token = ?", (text(lease.name), lease.token))
        if held.fetchone() is None:
            raise lost(lease)
        return work(connection)

    return guarded
