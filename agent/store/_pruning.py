"""Delete sessions with all their data, and rewrite their prompts."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._codec import plain, text
from agent.store._database import OpenDatabase
from agent.store._shared import Clock, rewritten
from agent.store._tickets import EXPIRE
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.store._artifacts import StoredContents
    from agent.store.search.sqlite import SqliteSearch

_log = logging.getLogger(__name__)
_PATIENCE = 1_000
"""Milliseconds to wait for readers of an older state."""
_IDLE = (
    "NOT EXISTS (SELECT 1 FROM calls WHERE calls.session_id = sessions.id"
    " AND calls.status IN ('new', 'running', 'suspended', 'resuming'))"
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session_id = sessions.id AND runs.status <> 'ended')"
    " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.session_id = sessions.id AND NOT inbox.taken)"
    " AND NOT EXISTS (SELECT 1 FROM chat_sessions AS had JOIN chats USING (session_id, chat, platform)"
    " JOIN mail USING (chat, platform) WHERE had.session_id = sessions.id AND mail.done_at IS NULL)"
)
_OLD = f"updated_at < ? AND {_IDLE}"
_GONE = "session_id NOT IN (SELECT id FROM sessions)"
_REST = (
    f"DELETE FROM calls WHERE ended_at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM tickets WHERE at < ? AND state <> 'pending' AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM audit WHERE at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM artifacts WHERE at < ? AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM steps WHERE at < ? AND {_GONE} AND row < (SELECT max(row) FROM steps)",  # noqa: S608 - see SqliteChanges.prune
    f"DELETE FROM posts WHERE moved_at < ? AND state IN ('shown', 'failed') AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM chat_sessions WHERE {_GONE} AND (chat, platform) IN (SELECT chat, platform FROM chats WHERE used_at < ?)",  # noqa: S608 - ours
    "DELETE FROM chats WHERE used_at < ? AND (chat, platform) NOT IN (SELECT chat, platform FROM chat_sessions)",
)

_THEIRS = (
    "DELETE FROM sessions WHERE id = ?",
    "DELETE FROM grants WHERE session_id = ? AND scope <> 'always'",
    "DELETE FROM runs WHERE session_id = ?",
    "DELETE FROM inbox WHERE session_id = ?",
    "DELETE FROM origins WHERE session_id = ?",
    "DELETE FROM usage WHERE session_id = ?",
    "DELETE FROM artifacts WHERE session_id = ?",
    "DELETE FROM state WHERE scope = 'session' AND owner = ?",
    "DELETE FROM posts WHERE session_id = ?",
    (
        "UPDATE chats SET session_id = '' WHERE row IN (SELECT chats.row FROM chat_sessions AS had"
        " JOIN chats USING (session_id, chat, platform) WHERE had.session_id = ?)"
    ),
    "DELETE FROM chat_sessions WHERE session_id = ?",
    "UPDATE cron_runs SET note = '' WHERE session_id = ?",
)
"""Statements that delete a session, but not its calls, tickets, audit and steps. Its lease stays, so that no token repeats."""
_ALL_THEIRS = (
    *_THEIRS,
    "DELETE FROM calls WHERE session_id = ?",
    "DELETE FROM tickets WHERE session_id = ?",
    "DELETE FROM audit WHERE session_id = ?",
    "DELETE FROM steps WHERE session_id = ? AND row < (SELECT max(row) FROM steps)",
    "UPDATE steps SET session_id = '', call_id = '', tool = '', changes = '[]', told = 1 WHERE session_id = ?",
)
"""Statements that delete all rows of a session. The newest step is only emptied, because the next number follows from it."""


async def count_old(database: OpenDatabase, before: float) -> int:
    return int((await database.row(f"SELECT count(*) FROM sessions WHERE {_OLD}", (before,)))[0])  # noqa: S608 - ours


async def prune(database: OpenDatabase, search: SqliteSearch, artifacts: StoredContents, clock: Clock, before: float) -> int:
    """See toolcrib.contract.store.Store.prune."""

    def forget(connection: sqlite3.Connection) -> int:
        connection.execute(EXPIRE, (clock(),))
        old = connection.execute(f"SELECT id FROM sessions WHERE {_OLD}", (before,)).fetchall()  # noqa: S608 - ours
        for statement in _THEIRS:
            connection.executemany(statement, old)
        for statement in _REST:
            connection.execute(statement, (before,))
        return len(old)

    old = [plain(found) for (found,) in await database.rows(f"SELECT id FROM sessions WHERE {_OLD}", (before,))]  # noqa: S608 - ours
    await search.forget(old)
    forgotten = await database.write(forget)
    await search.forgotten(old)
    await artifacts.sweep()
    await _free(database)
    return forgotten


async def delete(
    database: OpenDatabase, search: SqliteSearch, artifacts: StoredContents, clock: Clock, session_ids: Collection[str]
) -> Sequence[str]:
    """See toolcrib.contract.store.Store.delete."""
    sql = f"SELECT id FROM sessions WHERE id = ? AND {_IDLE}"  # noqa: S608 - ours

    def idle(connection: sqlite3.Connection) -> list[str]:
        return [name for name in dict.fromkeys(session_ids) if connection.execute(sql, (text(name),)).fetchone() is not None]

    def forget(connection: sqlite3.Connection) -> list[str]:
        connection.execute(EXPIRE, (clock(),))
        found = idle(connection)
        for statement in _ALL_THEIRS:
            connection.executemany(statement, [(text(name),) for name in found])
        return found

    await search.forget(session_ids)
    deleted = await database.write(forget)
    await search.forgotten(session_ids)
    if deleted:
        await artifacts.sweep()
        await _free(database)
    return deleted


async def rewrite_prompts(
    database: OpenDatabase, said: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]
) -> Sequence[str]:
    """See toolcrib.contract.store.Store.rewrite_prompts."""

    def work(connection: sqlite3.Connection) -> list[str]:
        found = connection.execute("SELECT id, prompt FROM sessions WHERE instr(prompt, ?)", (json.dumps(said)[1:-1],)).fetchall()
        changed = list(rewritten(found, rewrite))
        connection.executemany("UPDATE sessions SET prompt = ? WHERE id = ?", [(prompt, name) for name, prompt in changed])
        return [plain(name) for name, _ in changed]

    rewrote = await database.write(work)
    if rewrote:
        await _free(database)
    return rewrote


async def free(database: OpenDatabase) -> bool:
    """See toolcrib.contract.store.Store.free."""

    def work(connection: sqlite3.Connection) -> bool:
        if connection.execute("PRAGMA freelist_count").fetchone()[0]:
            connection.execute("VACUUM")
        return _checkpoint(connection)

    try:
        return await database.alone(work)
    except StoreFailed as error:
        _log.warning("deleted data still uses disk space: %s", error)
        return False


def _checkpoint(connection: sqlite3.Connection) -> bool:
    """Copy the write-ahead log into the file. Return False if a reader of an older state prevents part of it."""
    connection.execute(f"PRAGMA busy_timeout = {_PATIENCE}")  # don't wait longer: a reader may take hours
    ((busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy


async def _free(database: OpenDatabase) -> None:
    """Overwrite deleted data, and delete the backups that still have it."""

    def shrink(connection: sqlite3.Connection) -> None:
        connection.execute("VACUUM")  # otherwise the file keeps its size and the deleted data
        _checkpoint(connection)

    try:
        await database.alone(shrink)
    except StoreFailed as error:
        _log.warning("deleted data still uses disk space: %s", error)
    finally:  # a backup that began earlier may contain the deleted data
        if database.backups is not None:
            database.backups.forget()
