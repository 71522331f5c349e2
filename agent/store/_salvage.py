"""Filling new tables with the rows that can still be read of damaged ones. Each row's table is known by the row's shape."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agent.store._codec import load, load_answer, load_call, load_result, load_ticket, plain
from agent.store._packing import load_message, unpacked
from agent.store._pages import PageRow, Pages, Value
from agent.store._steps import load_changes

_Kind: TypeAlias = Literal["key", "text", "integer", "real"]
_TYPES: Mapping[_Kind, tuple[type, ...]] = {
    "key": (int,),
    "text": (str, bytes),
    "integer": (int,),
    "real": (int, float),
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
"""Columns with JSON, and what reads each; it raises for what is none of ours."""
_AGES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "sessions": lambda row: float(row["updated_at"]),
    "runs": lambda row: float(row["step"]),
    "leases": lambda row: float(row["token"]),
    "state": lambda row: float(row["version"]),
    "inbox": lambda row: float(row["taken"]),
    "mail": lambda row: row["done_at"] or 0.0,
    "posts": lambda row: float(row["moved_at"]),
    "chats": lambda row: float(row["used_at"]),
    "cron_jobs": lambda row: float(row["version"]) + (row["next_at"] or 0.0),
    "cron_runs": lambda row: (row["ended_at"] is not None) * 2 + row["is_told"],
    "calls": lambda row: (row["ended_at"] is not None) * 2 + row["handler_started"],
    "tickets": lambda row: float(row["state"] != "pending"),
}
"""By what the newer of two rows with one key is known: a page that is no longer in use may hold an older state."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: _Kind
    may_be_null: bool
    may_be_missing: bool

    def takes(self, value: Value) -> bool:
        return self.may_be_null if value is None else isinstance(value, _TYPES[self.kind])


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: Sequence[_Column]
    has_rowid: bool

    def read(self, row: PageRow) -> dict[str, Value] | None:
        """Return the row by the names of its columns; None where it is none of this table."""
        values = list(row.values)
        if self.has_rowid != (row.number is not None) or len(values) > len(self.columns):
            return None
        if self.columns[0].kind == "key":
            if values[:1] != [None]:
                return None
            values[0] = row.number
        if not all(column.takes(value) for column, value in zip(self.columns, values, strict=False)):
            return None
        if not all(column.may_be_missing for column in self.columns[len(values) :]):
            return None
        return {column.name: value for column, value in zip(self.columns, values, strict=False)}


def fill(connection: sqlite3.Connection, pages: Pages) -> int:
    """Put every row that can be read into the connection's tables. Return how many could not be used."""
    tables, ages, unusable = _tables(connection), dict[tuple[str, Value], float](), 0
    connection.execute("BEGIN")
    for row in pages.rows():
        table, values = _told(tables, row)
        if table is None or values is None:
            continue
        if not _is_sound(table.name, values):
            unusable += 1
            continue
        age = _AGES.get(table.name)
        if age is None:
            _insert(connection, "IGNORE", table.name, values)
            continue
        key = (table.name, next(iter(values.values())))
        if key not in ages or age(values) > ages[key]:
            ages[key] = age(values)
            unusable += not _insert(connection, "REPLACE", table.name, values)
    connection.execute("COMMIT")
    return unusable + pages.unreadable


def unreadable_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of rows, by table, that are there and can't be used."""
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        counts = {table.name: _count_unsound(connection, table) for table in _tables(connection)}
    finally:
        connection.text_factory = str
    return {name: number for name, number in counts.items() if number}


def _count_unsound(connection: sqlite3.Connection, table: _Table) -> int:
    names = [column.name for column in table.columns]
    rows = connection.execute(f"SELECT {', '.join(names)} FROM {table.name}")  # noqa: S608 - names of ours
    return sum(not _is_sound(table.name, dict(zip(names, row, strict=True))) for row in rows)


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of rows of each table that has some."""
    counts = {
        table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]  # noqa: S608 - a table of ours
        for table in _tables(connection)
    }
    return {name: number for name, number in counts.items() if number}


def _tables(connection: sqlite3.Connection) -> list[_Table]:
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    found = []
    for name, made in connection.execute(sql).fetchall():
        columns = [
            _Column(
                column, "key" if kind == "INTEGER" and key else _kind(kind), not (required or key), bool(default or not required)
            )
            for _, column, kind, required, default, key in connection.execute(f"PRAGMA table_info({name})")
        ]
        found.append(_Table(name, columns, "WITHOUT ROWID" not in made.upper()))
    return found


def _kind(declared: str) -> _Kind:
    kinds: Mapping[str, _Kind] = {"TEXT": "text", "INTEGER": "integer", "REAL": "real"}
    return kinds[declared]


def _told(tables: Sequence[_Table], row: PageRow) -> tuple[_Table | None, dict[str, Value] | None]:
    """Return the only table that the row can be of, with its columns."""
    fitting = [(table, values) for table in tables if (values := table.read(row)) is not None]
    fitting = [(table, values) for table, values in fitting if table.name != "origins" or _is_path(values["path"])]
    return fitting[0] if len(fitting) == 1 else (None, None)


def _is_path(value: Any) -> bool:
    """Return whether it is a file's: entries of an index have the same shape as the origin of a file."""
    return bool(value.startswith("/" if isinstance(value, str) else b"/"))


def _is_sound(table: str, values: Mapping[str, Any]) -> bool:
    """Return whether the contents of a row can be used: no checksum says so."""
    try:
        readers = _READERS.get(table, {})
        for name, value in values.items():
            if isinstance(value, str):
                value.encode()  # what was no text can't be encoded
            if name in readers and value is not None:
                readers[name](value)
            elif isinstance(value, bytes):
                plain(value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
    return True


def _check_message(record: Any) -> None:
    """Raise for what is no record of a conversation: see agent.conversation.transcript."""
    match record["role"]:
        case "results":
            texts = [one[key] for one in record["results"] for key in ("call_id", "name", "text")]
        case "assistant" | "user" | "system" | "compressed":
            texts = [record["text"], *(call[key] for call in record.get("calls") or () for key in ("id", "name"))]
        case role:
            raise ValueError(f"{role!r} is no role")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("ids, names and texts are text")


def _insert(connection: sqlite3.Connection, otherwise: str, table: str, values: Mapping[str, Value]) -> bool:
    columns, marks = ", ".join(values), ", ".join("?" * len(values))
    try:
        connection.execute(f"INSERT OR {otherwise} INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))  # noqa: S608 - names of ours
    except sqlite3.IntegrityError:
        return False
    return True
