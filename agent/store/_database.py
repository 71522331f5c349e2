"""One SQLite connection behind one lock, and what its errors mean to a person."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from agent.store import _schema
from toolcrib import StoreFailed

_log = logging.getLogger(__name__)
T = TypeVar("T")

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
BUSY_SECONDS = 10.0
"""How long another process may keep the file locked."""

_CREATING = threading.Lock()
"""Closing any handle of a file drops all its POSIX locks, SQLite's too: nobody may connect while the file is being made."""


class Database:
    """Thread-safe. Every method raises StoreFailed with the file's name and what to do. ``tables``: the folder of SQL files that
    make its tables. ``late``: the file is opened, and made, when it is first used.
    """

    def __init__(self, path: Path, synchronous: Synchronous, tables: Path | None = None, *, late: bool = False) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ValueError(f"synchronous is NORMAL or FULL, not {synchronous!r}")
        self.path = path
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._open: Callable[[], sqlite3.Connection] | None = lambda: _opened(path, synchronous, tables or _schema.FOLDER)
        """None once it is closed."""
        self._connection: sqlite3.Connection | None = None if late else self._open()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._held() as connection:
            return connection.execute(sql, parameters).fetchall()

    def records(self, make: Callable[..., T], sql: str, parameters: Sequence[Any] = ()) -> list[T]:
        """``make`` of each row's columns."""
        found = self.rows(sql, parameters)
        try:
            return [make(*row) for row in found]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StoreFailed(
                f"{self.path} holds a record that cannot be read ({type(error).__name__}: {error}); it was left as it is"
            ) from error

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row or None."""
        with self._held() as connection:
            return connection.execute(sql, parameters).fetchone()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Write with one statement, which is on disk at the return. How many rows it changed."""
        with self._held() as connection:
            return connection.execute(sql, parameters).rowcount

    def insert(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Insert a row, which is on disk at the return. Its number."""
        with self._held() as connection:
            return connection.execute(sql, parameters).lastrowid or 0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Several statements, all or none; no other process writes meanwhile."""
        with self._held() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Closing again does nothing."""
        with self._lock:
            connection, self._connection, self._open = self._connection, None, None
            if connection is None:
                return
            try:
                connection.close()
            except sqlite3.Error as error:
                _log.warning("%s did not close well; what was written is kept: %s", self.path, error)

    @contextlib.contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._open is None:
                raise StoreFailed(f"the store {self.path} is closed")
            if self._connection is not None and os.getpid() != self._pid:
                raise StoreFailed(f"the store {self.path} was opened before this process was forked; open one of its own")
            if self._connection is None:
                self._connection, self._pid = self._open(), os.getpid()
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise explained(self.path, error) from error


def _opened(path: Path, synchronous: str, tables: Path) -> sqlite3.Connection:
    try:
        _make_file(path)
        return _connect(path, synchronous, tables)
    except sqlite3.Error as error:
        raise explained(path, error) from error
    except OSError as error:
        raise StoreFailed(f"{path} cannot be opened: {error.strerror or error}; {_mend(path, error)}") from error


def _mend(path: Path, error: OSError) -> str:
    """What helps, with the folder that it is about: of missing ones, the one that they would be made in."""
    folder = next((each for each in path.parents if each.exists()), path.parent)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make room in {folder}, or {_schema.ELSEWHERE}"
    return f"make its folder writable ({folder}), or {_schema.ELSEWHERE}"


def _make_file(path: Path) -> None:
    """A file that only its owner may read, in a folder of the same kind where there was none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _CREATING:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise StoreFailed(f"{path} is not a file; name another one for the store") from None
            if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                path.chmod(0o600)
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        raise StoreFailed(f"{path} cannot be written; make it and its folder writable, or {_schema.ELSEWHERE}")


def _connect(path: Path, synchronous: str, tables: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        _schema.check(connection, path, len(_schema.steps(tables)))  # before anything is written to what is not ours
        _use_wal(connection, path)
        _schema.upgrade(connection, path, tables)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    """A change to WAL needs the file alone and does not wait for it, so that we wait here."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        _log.warning("%s: this file system has no write-ahead log (%s is used): slower, and as safe", path, mode)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explained(path: Path, error: sqlite3.Error) -> StoreFailed:
    """What an error of SQLite means, and what to do."""
    match _code(error):
        case sqlite3.SQLITE_NOTADB:
            why = f"is not a database, and was left as it is; move it away, or {_schema.ELSEWHERE}"
        case sqlite3.SQLITE_CORRUPT:
            why = (
                "is damaged, and was left as it is; move it away with its -wal and -shm files to begin anew"
                f" (sqlite3 {path.name} .recover may save what it holds)"
            )
        case sqlite3.SQLITE_FULL:
            why = "cannot grow: the disk is full; make room and try again. What it held before is kept"
        case sqlite3.SQLITE_IOERR:
            why = "cannot be read or written by the disk; look for a full or failing disk. What it held before is kept"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            why = f"cannot be written; make it and its folder writable, or {_schema.ELSEWHERE}"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            why = f"was kept locked by another process for more than {BUSY_SECONDS:g} s; end that process, or try again"
        case _:
            why = "cannot be used"
    return StoreFailed(f"{path} {why} ({error})")
