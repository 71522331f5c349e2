"""Forgetting old sessions, with all that was kept of them."""

from __future__ import annotations

import logging
import sqlite3

from agent.store._database import Database
from toolcrib import StoreFailed

_log = logging.getLogger(__name__)
_OLD = (
    "updated_at < ? AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.session_id = sessions.id"
    " AND calls.status IN ('new', 'running', 'suspended', 'resuming'))"
)
_GONE = "session_id NOT IN (SELECT id FROM sessions)"
_REST = (
    f"DELETE FROM calls WHERE ended_at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM tickets WHERE at < ? AND state <> 'pending' AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM audit WHERE at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM steps WHERE at < ? AND {_GONE} AND row < (SELECT max(row) FROM steps)",  # noqa: S608 - see SqliteChanges.prune
)


def count_old(database: Database, before: float) -> int:
    return int(database.row(f"SELECT count(*) FROM sessions WHERE {_OLD}", (before,))[0])  # noqa: S608 - ours


def prune(database: Database, before: float) -> int:
    """See toolcrib._store.Store.prune."""
    with database.transaction() as connection:
        old = connection.execute(f"SELECT id FROM sessions WHERE {_OLD}", (before,)).fetchall()  # noqa: S608 - ours
        connection.executemany("DELETE FROM sessions WHERE id = ?", old)
        connection.executemany("DELETE FROM grants WHERE session_id = ? AND scope <> 'always'", old)
        for statement in _REST:
            connection.execute(statement, (before,))
    try:
        database.rows("VACUUM")  # else the file stays as large, and has what was deleted
        database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    except (StoreFailed, sqlite3.Error) as error:
        _log.warning("what was deleted still takes its room: %s", error)
    return len(old)
