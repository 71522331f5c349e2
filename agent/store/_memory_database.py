"""A SQLite database in memory, which never writes to a disk."""

from __future__ import annotations

import atexit
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from agent.store import _file, _schema
from agent.store._database import OpenDatabase
from agent.store._jobs import Work, done

T = TypeVar("T")
_COPYING = threading.Lock()


class MemoryDatabase(OpenDatabase):
    """A database on one connection, which threads and event loops use in turn. Its methods never suspend.

    Its tables are created on first use. It ends with the last reference to it; a forked process has its own copy.
    """

    path = Path(":memory:")
    """Name of the database in messages."""

    def __init__(self, tables: Path = _schema.FOLDER) -> None:
        self._tables = tables
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @property
    def token(self) -> int:
        return 0

    async def write(self, work: Work[T]) -> T:
        def whole(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN")
            with connection:
                return work(connection)

        return await self.read(whole)

    async def read(self, work: Work[T]) -> T:
        with self._lock:
            try:
                return done(work, self._connected())  # type: ignore[return-value]  # no caller uses a cursor
            except sqlite3.Error as error:
                raise _file.explained(self.path, error) from error

    async def alone(self, work: Work[T]) -> T:
        return await self.read(work)

    async def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the rows, none before the first write.

        The first write creates the tables. A process that only reads is spared that: it takes longer than a short command.
        """
        return await super().rows(sql, parameters) if self._connection else []

    async def records(self, make: Callable[..., T], sql: str, parameters: Sequence[Any] = ()) -> list[T]:
        return await super().records(make, sql, parameters) if self._connection else []

    def close(self) -> None:
        """Do nothing: a closed store can still be read."""

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connected()
            weakref.finalize(self, connection.close)
            self._copy(connection)
            self._connection = connection
        return self._connection

    def _copy(self, connection: sqlite3.Connection) -> None:
        """Copy the initial content into the empty database."""
        with _COPYING:
            _template(self._tables).backup(connection)


@cache
def _template(tables: Path) -> sqlite3.Connection:
    """Return a database with empty tables. Creating the tables takes 15 ms, copying them less than 1 ms."""
    connection = connected()
    atexit.register(connection.close)
    _schema.upgrade(connection, MemoryDatabase.path, tables)
    return connection


def connected() -> sqlite3.Connection:
    """Return a connection to a new, empty database in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA temp_store = MEMORY")  # a large sort would use a file
    return connection
