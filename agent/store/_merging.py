"""Laying a copy of the store over what could be read of the damaged file: each conversation from where there is more of it."""

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
"""Tables that are not joined row by row. A conversation comes from one source only, since two states of it may have numbered its
messages differently; the token of a lease only rises."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A conversation in the repaired file. ``source`` is "both" where the damaged file and the copy have the same of it."""

    id: str
    title: str
    messages: int
    source: Source


@dataclass(frozen=True, slots=True)
class _Found:
    """A conversation as far as the damaged file still has it. ``number`` is its row."""

    number: int
    is_named: bool
    messages: int
    is_whole: bool

    def is_worse_than(self, copied: int) -> bool:
        return self.messages < copied or (self.messages == copied and not self.is_whole)


def lay_over(connection: sqlite3.Connection, copy: Path) -> Sequence[Restored]:
    """Put into the connection's tables what ``copy``, a sound file of the same version, has more. Raises sqlite3.Error.

    Return every conversation with its source.
    """
    with _attached(connection, copy):
        connection.execute("BEGIN")
        (others,) = connection.execute(
            "SELECT count(*) FROM main.sessions JOIN copy.sessions AS copied USING (row) WHERE sessions.id <> copied.id"
        ).fetchone()  # the store was begun anew beside the copy of another: rows of one number are not the same
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
    """Add what else the copy has: a row that both have is the same one, and the file's is the newer."""
    sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    for (table,) in connection.execute(sql).fetchall():
        if table not in _APART:
            connection.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM copy.{table}")  # noqa: S608 - a table of ours
    connection.execute(
        "INSERT INTO main.leases SELECT * FROM copy.leases WHERE true"
        " ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token)"
    )


def _settle(connection: sqlite3.Connection, row: int, name: object, copied: int) -> Source:
    """Take one conversation of the copy, unless the file has more of it."""
    found = _look(connection, row, name)
    if found.is_worse_than(copied):
        _take(connection, row, found.number)
        return "copy"
    if not found.is_named:  # only its messages are left
        _name(connection, row, found.number, found.messages)
    return "both" if found.messages == copied else "file"


def _look(connection: sqlite3.Connection, row: int, name: object) -> _Found:
    named = connection.execute("SELECT row, messages FROM main.sessions WHERE id = ?", (name,)).fetchone()
    number, counted = (row, None) if named is None else named
    if named is None and connection.execute("SELECT 1 FROM main.sessions WHERE row = ?", (row,)).fetchone():
        (number,) = connection.execute(
            "SELECT max(coalesce((SELECT max(row) FROM main.sessions), 0), coalesce((SELECT max(session) FROM main.messages), 0),"
            " (SELECT max(row) FROM copy.sessions)) + 1"
        ).fetchone()
    messages, last = connection.execute(
        "SELECT count(*), coalesce(max(seq), -1) FROM main.messages WHERE session = ?", (number,)
    ).fetchone()
    return _Found(number, named is not None, messages, messages == last + 1 == (last + 1 if counted is None else counted))


def _take(connection: sqlite3.Connection, row: int, number: int) -> None:
    connection.execute("DELETE FROM main.messages WHERE session = ?", (number,))
    connection.execute("DELETE FROM main.sessions WHERE row = ?", (number,))
    (messages,) = connection.execute("SELECT messages FROM copy.sessions WHERE row = ?", (row,)).fetchone()
    _name(connection, row, number, messages)
    connection.execute(
        "INSERT INTO main.messages (session, seq, body, at)"
        " SELECT ?, seq, body, at FROM copy.messages WHERE session = ? ORDER BY seq",
        (number, row),
    )


def _name(connection: sqlite3.Connection, row: int, number: int, messages: int) -> None:
    """Copy what is known of a conversation but its messages."""
    columns = [
        column for _, column, *_ in connection.execute("PRAGMA main.table_info(sessions)") if column not in ("row", "messages")
    ]
    names = ", ".join(columns)
    connection.execute(
        f"INSERT INTO main.sessions (row, messages, {names}) SELECT ?, ?, {names} FROM copy.sessions WHERE row = ?",  # noqa: S608 - columns of ours
        (number, messages, row),
    )
