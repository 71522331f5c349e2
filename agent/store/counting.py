"""Numbers that describe a store, without its contents."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.contract.store import Store


async def numbers_of(store: Store) -> dict[str, Any]:
    """Return the kind of a store; for a file also its version, its bytes, and the number of rows of each table.

    Raises StoreFailed.
    """
    from agent.store.sqlite import SqliteStore

    if not isinstance(store, SqliteStore):
        return {"kind": type(store).__name__.removesuffix("Store").lower()}
    return {"kind": "sqlite", **await store.read(_counted)}


def _counted(connection: sqlite3.Connection) -> dict[str, Any]:
    version, pages, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "page_count", "page_size")
    )
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    rows = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in names.fetchall()}  # noqa: S608 - its own tables
    return {"schema": version, "bytes": pages * size, "sqlite": sqlite3.sqlite_version, "rows": rows}
