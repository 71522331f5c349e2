"""Merge a backup of the store with the readable part of the damaged file: each conversation comes from the fuller source."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agent.store._codec import plain

Source: TypeAlias = Literal["file", "copy", "both"]
_APART = ("sessions", "messages", "leases")
"""Tables that are not merged row by row.

A conversation comes from one source only, because two states of it may number its messages differently. A lease keeps the higher
of its two tokens.
"""
_FOUND = (
    "SELECT s.row, s.messages, count(m.row), coalesce(max(m.seq), -1) + 1"
    " FROM main.sessions AS s LEFT JOIN main.messages AS m ON m.session = s.row WHERE s.id = ? GROUP BY s.row"
)
"""The part of a conversation that the damaged file still has."""
_FREE = (
    "SELECT CASE WHEN ? NOT IN (SELECT row FROM main.sessions) THEN ?"
    " ELSE max((SELECT max(row) FROM main.sessions), (SELECT max(row) FROM copy.sessions)) + 1 END"
)
"""A number for a conversation: its number in the backup, or a new one if the file has another conversation with that number."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A conversation in the repaired file. ``source`` is "both" if the damaged file and the backup have the same messages."""

    id: str
    title: str
    messages: int
    source: Source


def lay_over(connection: sqlite3.Connection, copy: Path) -> Sequence[Restored]:
    """Add the rows that only ``copy`` has. ``copy`` is an intact file of the same version. Raises sqlite3.Error.

    Return every conversation with its source.
    """
    with _attached(connection, copy):
        connection.execute("BEGIN")
        (others,) = connection.execute(
            "SELECT count(*) FROM main.sessions JOIN copy.sessions AS copied USING (row) WHERE sessions.id <> copied.id"
        ).fetchone()  # not 0: the file is a new store beside the backup of another one, so equal numbers mean different rows
        copied = connection.execute("SELECT row, id, messages FROM copy.sessions").fetchall()
        sources = {name: _settle(connection, row, name, messages) for row, name, messages in copied}
        if not others:
            _join_rows(connection)
        connection.execute("COMMIT")
    found = connection.execute(
        "SELECT id, title, (SELECT count(*) FROM messages WHERE session = sessions.row) FROM sessions"
        " ORDER BY updated_at DESC, row DESC"
    ).fetchall()
    return [Restored(plain(name), plain(title), messages, sources.get(name, "file")) for name, title, messages in found]


@contextmanager
def _attached(connection: sqlite3.Connection, copy: Path) -> Iterator[None]:
    connection.execute("ATTACH ? AS copy", (f"{copy.absolute().as_uri()}?mode=ro",))
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("DETACH copy")


def _join_rows(connection: sqlite3.Connection) -> None:
    """Add the backup's rows that the file lacks. A row that both have stays as it is in the file, which is newer."""
    sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    for (table,) in connection.execute(sql).fetchall():
        if table not in _APART:
            connection.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM copy.{table}")  # noqa: S608 - a table of ours
    connection.execute(
        "INSERT INTO main.leases SELECT * FROM copy.leases WHERE true"
        " ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token)"
    )


def _settle(connection: sqlite3.Connection, row: int, name: object, copied: int) -> Source:
    """Take one conversation from the backup, unless the file has more messages, or as many without a gap. Return its source."""
    number, counted, messages, end = connection.execute(_FOUND, (name,)).fetchone() or (None, 0, 0, 0)
    is_whole = messages == end == counted
    if number is not None and (messages > copied or (messages == copied and is_whole)):
        return "both" if messages == copied else "file"
    if number is None:
        (number,) = connection.execute(_FREE, (row, row)).fetchone()
    _take(connection, row, number)
    return "copy"


def _take(connection: sqlite3.Connection, row: int, number: int) -> None:
    """Copy the conversation ``row`` of the backup to the row ``number`` of the file."""
    connection.execute("DELETE FROM main.messages WHERE session = ?", (number,))
    connection.execute("DELETE FROM main.sessions WHERE row = ?", (number,))
    columns = [column for _, column, *_ in connection.execute("PRAGMA main.table_info(sessions)") if column != "row"]
    names = ", ".join(columns)
    connection.execute(
        f"INSERT INTO main.sessions (row, {names}) SELECT ?, {names} FROM copy.sessions WHERE row = ?",  # noqa: S608 - columns of ours
        (number, row),
    )
    connection.execute(
        "INSERT INTO main.messages (session, seq, body, at)"
        " SELECT ?, seq, body, at FROM copy.messages WHERE session = ? ORDER BY seq",
        (number, row),
    )
