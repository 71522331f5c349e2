"""The tables, created by numbered SQL files; ``PRAGMA user_version`` is the number of files that were applied."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from toolcrib.contract.errors import StoreFailed

FOLDER = Path(__file__).with_name("sql")
APPLICATION_ID = 0x74637262
"""'tcrb': the mark of toolcrib's own files."""
ELSEWHERE = "name another file (store.path, or TOOLCRIB_STATE)"
"""Advice for a file that can't be used."""


def steps(folder: Path) -> dict[int, Path]:
    """Return the SQL files by number: 1, 2, 3 ..., each once."""
    found = sorted((int(file.name.partition("_")[0]), file) for file in folder.glob("*.sql"))
    numbers = [number for number, _ in found]
    assert numbers == list(range(1, len(found) + 1)), f"the files in {folder} are not numbered consecutively"  # noqa: S101 - ours
    return dict(found)


def upgrade(connection: sqlite3.Connection, path: Path, folder: Path, *, upto: int | None = None) -> None:
    """Upgrade the file to the newest version, or to ``upto``, each step atomically. Two processes may do it at once."""
    files = steps(folder)
    for number, file in sorted(files.items()):
        if check(connection, path, len(files)) >= number or (upto is not None and number > upto):
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            if check(connection, path, len(files)) < number:
                for statement in statements(file.read_text("utf-8")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def check(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    """Return the file's version. Raises StoreFailed for a newer one and for another program's database.

    One statement reads all that is needed, because another process may be creating the tables.
    """
    found = connection.execute(
        "SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id AS a, pragma_user_version AS v"
    ).fetchone()
    ours, version, tables = found[0] == APPLICATION_ID, int(found[1]), found[2]
    if not ours and (version or tables or found[0]):
        raise StoreFailed(f"{path} is a database of another program and was not changed; {ELSEWHERE}")
    if version > newest:
        raise StoreFailed(
            f"{path} was written by a newer toolcrib (version {version} of the store; this one knows up to {newest})"
            f" and was not changed; upgrade toolcrib, or {ELSEWHERE}"
        )
    return version


def statements(script: str) -> Iterator[str]:
    """Yield the statements of an SQL script. ``executescript`` would commit the open transaction."""
    waiting = ""
    for line in script.splitlines(keepends=True):
        waiting += line
        if sqlite3.complete_statement(waiting):
            yield waiting
            waiting = ""
    if waiting.strip():
        yield waiting
