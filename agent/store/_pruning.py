"""Forgetting old sessions, with all that was kept of them."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

from agent.store._codec import plain
from agent.store._database import Database
from agent.store._shared import Clock
from agent.store._tickets import EXPIRE
from toolcrib import StoreFailed

if TYPE_CHECKING:
    from agent.store.search.sqlite import SqliteSearch

_log = logging.getLogger(__name__)
_OLD = (
    "updated_at < ? AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.session_id = sessions.id"
    " AND calls.status IN ('new', 'running', 'suspended', 'resuming'))"
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session_id = sessions.id AND runs.status <> 'ended')"
    " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.session_id = sessions.id AND NOT inbox.taken)"
)
_GONE = "session_id NOT IN (SELECT id FROM sessions)"
_REST = (
    f"DELETE FROM calls WHERE ended_at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM tickets WHERE at < ? AND state <> 'pending' AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM audit WHERE at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM steps WHERE at < ? AND {_GONE} AND row < (SELECT max(row) FROM steps)",  # noqa: S608 - see SqliteChanges.prune
)


_THEIRS = (
    "DELETE FROM sessions WHERE id = ?",
    "DELETE FROM grants WHERE session_id = ? AND scope <> 'always'",
    "DELETE FROM runs WHERE session_id = ?",
    "DELETE FROM inbox WHERE session_id = ?",
    "DELETE FROM origins WHERE session_id = ?",
    "DELETE FROM usage WHERE session_id = ?",
)
"""A lease stays: its token must not begin again."""


async def count_old(database: Database, before: float) -> int:
    return int((await database.row(f"SELECT count(*) FROM sessions WHERE {_OLD}", (before,)))[0])  # noqa: S608 - ours


async def prune(database: Database, search: SqliteSearch, clock: Clock, before: float) -> int:
    """See toolcrib._store.Store.prune."""

    def forget(connection: sqlite3.Connection) -> int:
        connection.execute(EXPIRE, (clock(),))
        old = connection.execute(f"SELECT id FROM sessions WHERE {_OLD}", (before,)).fetchall()  # noqa: S608 - ours
        for statement in _THEIRS:
            connection.executemany(statement, old)
        for statement in _REST:
            connection.execute(statement, (before,))
        return len(old)

    def shrink(connection: sqlite3.Connection) -> None:
        connection.execute("VACUUM")  # else the file stays as large, and has what was deleted
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    old = [plain(found) for (found,) in await database.rows(f"SELECT id FROM sessions WHERE {_OLD}", (before,))]  # noqa: S608 - ours
    await search.forget(old)
    forgotten = await database.write(forget)
    await search.forgotten(old)
    if database.backups is not None:
        database.backups.forget()
    try:
        await database.alone(shrink)
    except StoreFailed as error:
        _log.warning("what was deleted still takes its room: %s", error)
    return forgotten
