"""Forgetting old sessions, with all that was kept of them. A lease stays: its token must not begin again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._text import Values
from agent.store.postgres._tickets import LASTS

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_OLD = (
    "updated_at < %(before)s AND NOT EXISTS (SELECT FROM calls WHERE calls.session_id = sessions.id"
    " AND calls.status IN ('new', 'running', 'suspended', 'resuming'))"
    " AND NOT EXISTS (SELECT FROM runs WHERE runs.session_id = sessions.id AND runs.status <> 'ended')"
    " AND NOT EXISTS (SELECT FROM inbox WHERE inbox.session_id = sessions.id AND NOT inbox.taken)"
)
_THEIRS = (
    "DELETE FROM grants WHERE session_id = ANY(%(old)s) AND scope <> 'always'",
    "DELETE FROM runs WHERE session_id = ANY(%(old)s)",
    "DELETE FROM inbox WHERE session_id = ANY(%(old)s)",
    "DELETE FROM origins WHERE session_id = ANY(%(old)s)",
    "DELETE FROM usage WHERE session_id = ANY(%(old)s)",
)
_GONE = "NOT EXISTS (SELECT FROM sessions WHERE sessions.id = session_id)"
_REST = (
    f"DELETE FROM calls WHERE ended_at < %(before)s AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM tickets WHERE at < %(before)s AND NOT (state = 'pending' AND {LASTS}) AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM audit WHERE at < %(before)s AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM steps WHERE at < %(before)s AND {_GONE}",  # noqa: S608 - ours
)


async def count_old(database: PostgresDatabase, before: float) -> int:
    sql = f"SELECT count(*) FROM sessions WHERE {_OLD}"  # noqa: S608 - ours
    ((found,),) = await database.rows(sql, {"before": before})
    return int(found)


async def prune(database: PostgresDatabase, before: float) -> int:
    """See toolcrib._store.Store.prune. The server's autovacuum makes the room free."""

    async def forget(connection: Connection) -> int:
        found = await connection.execute(f"DELETE FROM sessions WHERE {_OLD} RETURNING id", {"before": before})  # noqa: S608 - ours
        old = [row[0] for row in await found.fetchall()]
        values: Values = {"old": old, "before": before, **database.now()}
        for statement in (*_THEIRS, *_REST):
            await connection.execute(statement, values)
        return len(old)

    return await database.transact(None, forget, patient=True)
