"""Damage of a SQLite file: a cheap check whenever it is opened, and the complete check of `toolcrib doctor`."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from agent.store import RECORD, _locking, _placing, _schema, is_link
from toolcrib.contract.errors import StoreFailed

REPAIR = "`toolcrib doctor --repair-store` restores it from a backup and saves all readable data"
ELSE = f"If it was toolcrib's, {REPAIR}; otherwise move it away, or {_schema.ELSEWHERE}"
"""Advice for a file that may not be a store at all."""
LOOKED_AT = 1024 * 1024
"""Largest file in bytes that is checked completely when opened; of a larger one, only each table's ends are read."""
SMALLEST = 512
"""Bytes of the smallest page: SQLite treats a shorter file as empty."""
_SHOWN = 5
_PATIENCE = 10.0
"""Seconds that a check waits for the file's lock."""
_BEING_MADE = 0.5
"""Seconds after which an empty file no longer counts as one that another process is creating."""


class StoreDamaged(StoreFailed):
    """The file itself is damaged, and a repair helps. Any other StoreFailed names its own remedy."""


def check_unopened(path: Path, evidence: Sequence[Path]) -> None:
    """Raise StoreDamaged if a file that was used is empty or missing, or if its log is missing: SQLite would report no error.

    Also raises it if a repair was not finished. Raises StoreFailed if the file is missing, but was linked or outside the state
    folder: its disk may not be mounted. ``evidence`` are files that exist only if the store was used before, and links to it.
    Checks names and sizes, and opens nothing.
    """
    _check_kind(path)
    if _placing.repaired(path).exists():
        raise StoreDamaged(f"{path} is damaged: its repair was not finished. `toolcrib doctor --repair-store` finishes it")
    why = _missing(path, evidence)
    if why:
        time.sleep(_BEING_MADE)  # another process may be about to create or close it
        why = _missing(path, evidence)
    if why:
        raise StoreDamaged(f"{path} is damaged: {why}")


def _check_kind(path: Path) -> None:
    """Raise StoreFailed for a pipe, a socket or a folder: reading it might never end."""
    try:
        is_other = path.exists() and not path.is_file()
    except OSError:  # a folder that can't be read, which the reader of the file reports
        return
    if is_other:
        raise StoreFailed(f"{path} is not a file; use another file for the store")


def _missing(path: Path, evidence: Sequence[Path]) -> str:
    wal, shm = _placing.beside(path)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        if link := next(filter(is_link, evidence), None):
            begin = f"to begin an empty store there, create an empty file: touch {path}"
            raise StoreFailed(
                f"{link} is a link to {path}, which does not exist. Mount its disk, restore it or change the link; {begin}"
            ) from None
        own = [file for file in evidence if file.name.startswith(path.name)]
        used = next(filter(_is_filled, (wal, *own)), None)
        anew = f"to start with an empty store, remove the files {path}-* too"
        if used is not None:
            return f"it is missing, but {used} shows that it was used. {REPAIR}; {anew}"
        if record := next((file for file in evidence if file.suffix == RECORD and _is_filled(file)), None):
            begin = f"to begin an empty store, remove {record}"
            raise StoreFailed(f"{path} is missing, but it was used before. Mount its disk, or restore it; {begin}") from None
        return ""
    except OSError:
        return ""
    if size < SMALLEST:
        used = next((file for file in (wal, *evidence) if _is_filled(file) and not is_link(file)), None)
        if used is not None:
            left = "is empty" if size == 0 else f"has only {size} byte{'' if size == 1 else 's'} left"
            return f"it {left}, but {used} shows that it was used. {REPAIR}"
        return "" if size == 0 else f"it is too short for a database. {ELSE}"
    # SQLite removes -shm before -wal and creates it after -wal: -shm never exists alone
    if not wal.exists() and shm.exists() and not wal.exists():
        return f"its log {wal.name} is missing, with the latest data. {REPAIR}"
    return ""


def record_use(path: Path, evidence: Sequence[Path]) -> None:
    """Write the record of a store that is now in use. If that fails, the store can still be used."""
    for record in evidence:
        if record.suffix == RECORD and not record.exists():
            with suppress(OSError):
                record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                record.write_text(f"{path}\n")


def check_length(path: Path) -> None:
    """Raise StoreDamaged for a log that lost committed pages. Checks only if no other process has the file open."""
    wal, shm = _placing.beside(path)
    if not (wal.exists() and shm.exists()):
        return
    with _locking.looking(path) as is_alone:
        if is_alone:
            check_length_alone(path)


def check_length_alone(path: Path) -> None:
    """Do what ``check_length`` does, with the exclusive lock already held."""
    wal, shm = _placing.beside(path)
    if wal.exists() and shm.exists():
        from agent.store._cut_log import lost_pages  # a start without a log does not need this module

        if lost := lost_pages(path):
            what = f"{lost} page{'' if lost == 1 else 's'} of its log {wal.name}, with the latest data,"
            raise StoreDamaged(f"{path} is damaged: {what} {'is' if lost == 1 else 'are'} gone. {REPAIR}")


def _is_filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def check_log(path: Path) -> None:
    """Do what ``check_opened`` does for a file with a log, on a connection that can't copy a foreign log into the file.

    Raises StoreFailed, and sqlite3.Error if SQLite can't read it at all.
    """
    wal = path.with_name(f"{path.name}-wal")
    if _is_filled(wal):
        from agent.store._cut_log import is_log_header  # a start without a log does not need this module

        begin = b""
        with suppress(FileNotFoundError), wal.open("rb") as log:  # the process that used it may have just ended
            begin = log.read(32)
        if len(begin) == 32 and not is_log_header(begin):
            raise damaged(path, [f"the header of its log {wal.name}"])
        with closing(read_only(path)) as connection:
            check_opened(connection, path)


def read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that writes nothing and leaves no files beside an unused file.

    Raises sqlite3.Error, and StoreFailed for a path that is not a file.
    """
    _check_kind(path)
    alone = not path.with_name(f"{path.name}-wal").exists() and _has_log_mode(path)
    uri = f"{path.absolute().as_uri()}?{'immutable=1' if alone else 'mode=ro'}"
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _has_log_mode(path: Path) -> bool:
    """Return whether the file uses a log when open. This process must not have it open: see _file._CREATING."""
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\2\2"


def check_opened(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreFailed for damage that a quick check finds. Raises sqlite3.Error if SQLite itself finds damage."""
    if path.stat().st_size <= LOOKED_AT:
        if found := _faults(connection, most=1):
            raise damaged(path, found)
        return
    for table in _filled(connection):
        for order in ("ASC", "DESC"):
            connection.execute(f'SELECT * FROM "{table}" ORDER BY 1 {order} LIMIT 1').fetchone()  # noqa: S608 - a name of ours


def _filled(connection: sqlite3.Connection) -> list[str]:
    """Return the tables that have rows.

    One statement reads the first page of each, because most are empty and preparing a statement takes longer than running it.
    """
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    looks = ", ".join(f'EXISTS (SELECT 1 FROM "{table}" NOT INDEXED)' for table in tables)  # noqa: S608 - names of ours
    filled = connection.execute(f"SELECT {looks}").fetchone() if tables else ()
    return [table for table, has_rows in zip(tables, filled, strict=True) if has_rows]


def damaged(path: Path, found: Sequence[str]) -> StoreDamaged:
    """Return the error for a file with the faults ``found``."""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    said = "; ".join(" ".join(line.split()) for line in found[:_SHOWN])
    return StoreDamaged(f"{path} is damaged ({said}{more}) and was not changed. {REPAIR}")


def check_whole(path: Path, evidence: Sequence[Path] = ()) -> None:
    """Check all of a file, at about a second or more per gigabyte. Nothing is written.

    Raises StoreDamaged, and sqlite3.Error if SQLite can't read it at all.
    """
    check_unopened(path, evidence)
    if not path.exists() or not path.stat().st_size:
        return
    check_log(path)
    with closing(read_only(path)) as connection:
        if found := _faults(connection, most=20) or _miscounted(connection, most=20):
            raise damaged(path, found)


def fault_of_backup(path: Path) -> str:
    """Check all of a backup, and return why it can't restore anything, or "" for a sound one. Nothing is written."""
    try:
        _check_kind(path)
        if path.stat().st_size < SMALLEST:
            return "it is empty"
        check_whole(path)
        with closing(read_only(path)) as connection:
            is_ours = connection.execute("PRAGMA application_id").fetchone()[0] == _schema.APPLICATION_ID
        return "" if is_ours else "it is a database of another program"
    except (OSError, sqlite3.Error, UnicodeDecodeError, StoreFailed) as error:
        return " ".join(str(error).split())


def _faults(connection: sqlite3.Connection, most: int) -> list[str]:
    """Return the faults of the pages or, if there are none, the rows with dangling references."""
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")  # error messages contain damaged names
    try:
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({most})")]
    finally:
        connection.text_factory = str
    if found != ["ok"]:
        return found
    dangling = connection.execute("PRAGMA foreign_key_check").fetchmany(most)
    return [f"a row of {table} refers to a missing row of {other}" for table, _, other, _ in dangling]


def _miscounted(connection: sqlite3.Connection, most: int) -> list[str]:
    """Return faults for sessions whose messages do not match their count: some rows are from another state of the file."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"sessions", "messages"} <= tables:
        return []
    return [f"the session {name} has a wrong number of messages" for (name,) in connection.execute(UNEVEN).fetchmany(most)]


UNEVEN = (
    "SELECT sessions.id FROM sessions LEFT JOIN messages ON messages.session = sessions.row GROUP BY sessions.row"
    " HAVING count(messages.row) <> sessions.messages OR coalesce(max(messages.seq), -1) <> sessions.messages - 1"
)
