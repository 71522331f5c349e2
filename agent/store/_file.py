"""Open a SQLite file, and explain its errors to users."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from agent.store import _damage, _locking, _schema, is_link
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.passing import is_passing, shortage

_log = logging.getLogger(__name__)

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
_FULL = "can't grow: the disk is full; free space and try again. Earlier data is kept"
_UNREADABLE = ("Could not decode to UTF-8", "unsupported file format")
"""Beginnings of errors without a code, which occur only for a damaged file."""
_A_LITTLE = 64 * 1024
"""Free bytes below which a disk counts as full: the index of the log alone needs half of them."""
BUSY_SECONDS = 10.0
"""Maximum number of seconds that another process may keep the file locked."""

_CREATING = threading.Lock()
"""Held while a file is created, so that no thread connects then.

When a process closes any handle of a file, it loses all its POSIX locks on the file, SQLite's too.
"""


_LATER = "this machine is short of file descriptors, memory or processes: close other programs, then retry"


def open_writer(path: Path, synchronous: str, tables: Path, evidence: Sequence[Path] = ()) -> sqlite3.Connection:
    """Connect to the file, creating it and its tables if missing. Raises StoreFailed, also for a damaged file.

    ``evidence`` are files that exist only if this one was used before; see check_unopened.
    """
    try:
        if not path.parent.exists():  # the folder is created only for a store that was never used
            _damage.check_unopened(path, evidence)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _damage.check_length(path)
        with _locking.opening(path, BUSY_SECONDS) as lock:
            _damage.check_unopened(path, evidence)
            made = _make_file(path)
            try:
                _damage.check_log(path)
                connection = _connect(path, synchronous, tables)
                _damage.record_use(path, evidence)
                return connection
            except BaseException:
                if made and lock.is_alone() and not path.stat().st_size:
                    path.unlink()  # on a full disk: an empty file would look like one that lost its data
                raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise explained(path, error) from error
    except OSError as error:
        raise StoreFailed(f"{path} can't be opened: {error.strerror or error}; {_mend(path, error)}") from error


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a read-only connection to a file that ``open_writer`` has opened. Raises StoreFailed."""
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise explained(path, error) from error
    return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether the error means that another connection holds the lock."""
    return _code(error) == sqlite3.SQLITE_BUSY


def close_quietly(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.close()
    except sqlite3.Error as error:
        _log.warning("%s was not closed properly; the written data is kept: %s", path, error)


def _mend(path: Path, error: OSError) -> str:
    """Return the remedy, with the folder that it concerns: the nearest existing one."""
    folder = next((each for each in path.parents if each.exists()), path.parent)
    if link := next((each for each in path.parents if is_link(each) and not each.exists()), None):
        return f"{link} is a link whose target does not exist: mount its disk, create the target or change the link"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"free space in {folder}, or {_schema.ELSEWHERE}"
    if is_passing(error):
        return _LATER
    return f"make its folder writable ({folder}), or {_schema.ELSEWHERE}"


def _make_file(path: Path) -> bool:
    """Create a file that only its owner may read, if there is none. Return whether it was created."""
    made = True
    with _CREATING:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            made = False
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise StoreFailed(f"{path} is not a file; use another file for the store") from None
            if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                path.chmod(0o600)
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        raise unwritable(path)
    return made


def unwritable(path: Path) -> StoreFailed:
    """Return the error for an existing file that can't be written."""
    why = ": its file system is read-only" if os.statvfs(path).f_flag & os.ST_RDONLY else ""
    return StoreFailed(f"{path} can't be written{why}; make it and its folder writable, or {_schema.ELSEWHERE}")


def _connect(path: Path, synchronous: str, tables: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        if _schema.check(connection, path, len(_schema.steps(tables))):  # first, because the file may not be toolcrib's
            _damage.check_opened(connection, path)
        _use_wal(connection, path)
        _schema.upgrade(connection, path, tables)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Switch the file to WAL. SQLite does not wait for the exclusive access that this needs, so this function does."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        _log.warning("%s: this file system supports no write-ahead log (%s is used): slower, but as safe", path, mode)


def _is_full(folder: Path) -> bool:
    """Return whether the disk has no room for a few pages: SQLite reports some full disks as broken ones."""
    try:
        return shutil.disk_usage(folder).free < _A_LITTLE
    except OSError:
        return False


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explained(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreFailed:
    """Return SQLite's error as StoreFailed, with a remedy. The error's text is not valid UTF-8 if a table's name is damaged."""
    if isinstance(error, UnicodeDecodeError):
        return _damage.damaged(path, ["a table name is not text"])
    match _code(error):
        case sqlite3.SQLITE_NOTADB:
            return _damage.StoreDamaged(f"{path} is not a database and was not changed. {_damage.ELSE} ({error})")
        case sqlite3.SQLITE_CORRUPT:
            return _damage.damaged(path, [str(error)])
        case _ if str(error).startswith(_UNREADABLE):
            return _damage.damaged(path, [str(error)[:200]])
        case _ if short := shortage():
            why = f"can't be used now ({short}); {_LATER}"
        case sqlite3.SQLITE_FULL:
            why = _FULL
        case sqlite3.SQLITE_IOERR if _is_full(path.parent):
            why = _FULL
        case sqlite3.SQLITE_IOERR:
            why = "can't be read or written; check for a full or failing disk. Earlier data is kept"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            why = f"can't be written; make it and its folder writable, or {_schema.ELSEWHERE}"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            why = f"was locked by another process for more than {BUSY_SECONDS:g} s; stop that process, or try again"
        case _:
            why = "is unusable"
    return StoreFailed(f"{path} {why} ({error})")
