"""Rows of a store: check which are usable, and copy readable rows from a damaged file."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from agent.store import _artifacts
from agent.store._codec import load, load_answer, load_call, load_result, load_ticket, plain
from agent.store._packing import load_message, unpacked
from agent.store._steps import load_changes

_log = logging.getLogger(__name__)
_Columns: TypeAlias = Mapping[str, str]
"""The declared type of each column of a table."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str, bytes, type(None)),
    "INTEGER": (int, type(None)),
    "REAL": (int, float, type(None)),
    "BLOB": (bytes, type(None)),
}
_READERS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "sessions": {
        **{name: lambda stored: dict(load(stored)) for name in ("place", "via", "prompt")},
        "tags": lambda stored: [text.encode() for text in load(stored)],
    },
    "messages": {"body": lambda stored: _check_message(load_message(stored))},
    "calls": {"call": lambda stored: load_call("", unpacked(stored)), "result": lambda stored: load_result(unpacked(stored))},
    "tickets": {"ticket": load_ticket, "answer": load_answer},
    "audit": {"detail": lambda stored: dict(load(stored))},
    "steps": {"changes": load_changes},
    "runs": {"state": lambda stored: dict(load(stored))},
    "state": {"value": load},
    "mail": {"body": lambda stored: dict(load(stored or "{}"))},
    **{name: {"body": lambda stored: dict(load(stored))} for name in ("posts", "chats", "cron_jobs")},
}
"""Columns with JSON, and the function that reads each and raises for invalid data."""


class _UnreadableTableError(Exception):
    """SQLite met a damaged page, or the table is missing."""


def copy_rows(damaged: sqlite3.Connection, target: sqlite3.Connection) -> tuple[int, Sequence[str]]:
    """Copy the usable rows that SQLite can read. Return the number of unusable rows, and the tables that were not read
    completely.

    SQLite stops at the first damaged page of a table. Such a table is then read from its end, too, because the newest rows are
    there.
    """
    unusable, cut = 0, []
    damaged.text_factory = _any_text
    target.execute("BEGIN")
    for table, columns in _tables(target).items():
        try:
            unusable += sum(not _copy(target, table, columns, row) for row in _read(damaged, table, columns))
        except _UnreadableTableError:
            cut.append(table)
            try:
                for row in _read(damaged, table, columns, "ORDER BY rowid DESC"):
                    _copy(target, table, columns, row)
            except _UnreadableTableError as error:
                _log.info("%s was read from both ends, up to its damaged pages: %s", table, error)
    target.execute("COMMIT")
    return unusable, cut


def unreadable_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of unusable rows by table."""
    connection.text_factory = _any_text
    try:
        counts = {name: _count_unsound(connection, name, columns) for name, columns in _tables(connection).items()}
    finally:
        connection.text_factory = str
    return {name: number for name, number in counts.items() if number}


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of rows of each table that has any."""
    counts = {
        name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - a table of ours
        for name in _tables(connection)
    }
    return {name: number for name, number in counts.items() if number}


def _tables(connection: sqlite3.Connection) -> dict[str, _Columns]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    return {
        table: {column: kind for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})")}
        for (table,) in connection.execute(sql).fetchall()
    }


def _any_text(raw: bytes) -> str:
    """Decode any bytes, so that reading continues. ``_is_sound`` recognises invalid text, because it can't be encoded again."""
    return raw.decode("utf-8", "surrogateescape")


def _count_unsound(connection: sqlite3.Connection, table: str, columns: _Columns) -> int:
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - names of ours
    return sum(not _is_sound(table, columns, row) for row in rows)


def _read(damaged: sqlite3.Connection, table: str, columns: _Columns, order: str = "") -> Iterator[Sequence[Any]]:
    try:
        yield from damaged.execute(f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED {order}")  # noqa: S608 - names of ours
    except sqlite3.DatabaseError as error:
        raise _UnreadableTableError(str(error)) from error


def _copy(target: sqlite3.Connection, table: str, columns: _Columns, row: Sequence[Any]) -> bool:
    """Insert a row unless it can't be used or is there already. Return whether it was inserted."""
    if not _is_sound(table, columns, row):
        return False
    marks = ", ".join("?" * len(row))
    sql = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of ours
    return target.execute(sql, row).rowcount == 1


def _is_sound(table: str, columns: _Columns, row: Sequence[Any]) -> bool:
    """Return whether the contents of a row are usable. SQLite does not detect damaged contents, because it has no checksums."""
    values, readers = dict(zip(columns, row, strict=True)), _READERS.get(table, {})
    try:
        for name, value in values.items():
            if not isinstance(value, _TYPES[columns[name]]):
                return False
            if isinstance(value, str):
                value.encode()  # raises for invalid text
            if name in readers and value is not None:
                readers[name](value)
            elif isinstance(value, bytes) and columns[name] == "TEXT":
                plain(value)
        if table == "contents":
            _artifacts.unpacked(values["body"], values["digest"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
    return True


def _check_message(record: Any) -> None:
    """Raise for anything that is not a record of a conversation: see agent.conversation.transcript."""
    match record["role"]:
        case "results":
            texts = [one[key] for one in record["results"] for key in ("call_id", "name", "text")]
        case "assistant" | "user" | "system" | "compressed":
            texts = [record["text"], *(call[key] for call in record.get("calls") or () for key in ("id", "name"))]
        case role:
            raise ValueError(f"{role!r} is not a role")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("ids, names and texts are text")
