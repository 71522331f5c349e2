"""Delete sessions with all their data, and rewrite prompts. Leases stay, so that their tokens never repeat."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._saying import TEXTS, saying_of
from agent.store._shared import rewritten
from agent.store.postgres._artifacts import SWEEP
from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._text import Values, from_text, to_text
from agent.store.postgres._tickets import LASTS
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_IDLE = (
    "NOT EXISTS (SELECT FROM calls WHERE calls.session_id = sessions.id"
    " AND calls.status IN ('new', 'running', 'suspended', 'resuming'))"
    " AND NOT EXISTS (SELECT FROM runs WHERE runs.session_id = sessions.id AND runs.status <> 'ended')"
    " AND NOT EXISTS (SELECT FROM inbox WHERE inbox.session_id = sessions.id AND NOT inbox.taken)"
    " AND NOT EXISTS (SELECT FROM chat_sessions AS had JOIN chats USING (session_id, place)"
    " JOIN mail ON mail.chat_place = chats.place WHERE had.session_id = sessions.id AND mail.done_at IS NULL)"
)
_OLD = f"updated_at < %(before)s AND {_IDLE}"
_THEIRS = (
    "DELETE FROM grants WHERE session_id = ANY(%(old)s) AND scope <> 'always'",
    "DELETE FROM runs WHERE session_id = ANY(%(old)s)",
    "DELETE FROM inbox WHERE session_id = ANY(%(old)s)",
    "DELETE FROM origins WHERE session_id = ANY(%(old)s)",
    "DELETE FROM usage WHERE session_id = ANY(%(old)s)",
    "DELETE FROM artifacts WHERE session_id = ANY(%(old)s)",
    "DELETE FROM state WHERE scope = 'session' AND owner = ANY(%(old)s)",
    "DELETE FROM posts WHERE session_id = ANY(%(old)s)",
    (
        "UPDATE chats SET session_id = '' FROM chat_sessions AS had"
        " WHERE had.place = chats.place AND had.session_id = chats.session_id AND had.session_id = ANY(%(old)s)"
    ),
    "DELETE FROM chat_sessions WHERE session_id = ANY(%(old)s)",
    "UPDATE cron_runs SET note = '' WHERE session_id = ANY(%(old)s)",
)
_ALL_THEIRS = (
    *_THEIRS,
    "DELETE FROM calls WHERE session_id = ANY(%(old)s)",
    "DELETE FROM tickets WHERE session_id = ANY(%(old)s)",
    "DELETE FROM audit WHERE session_id = ANY(%(old)s)",
    "DELETE FROM steps WHERE session_id = ANY(%(old)s)",
)
_GONE = "NOT EXISTS (SELECT FROM sessions WHERE sessions.id = session_id)"
_REST = (
    f"DELETE FROM calls WHERE ended_at < %(before)s AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM tickets WHERE at < %(before)s AND NOT (state = 'pending' AND {LASTS}) AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM audit WHERE at < %(before)s AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM artifacts WHERE at < %(before)s AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM steps WHERE at < %(before)s AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM posts WHERE moved_at < %(before)s AND state IN ('shown', 'failed') AND {_GONE}",  # noqa: S608 - ours
    f"DELETE FROM chat_sessions WHERE {_GONE} AND place IN (SELECT place FROM chats WHERE used_at < %(before)s)",  # noqa: S608 - ours
    "DELETE FROM chats WHERE used_at < %(before)s AND place NOT IN (SELECT place FROM chat_sessions)",
)

_MAIL = (
    "SELECT session_id, mail.body FROM mail JOIN chats ON chats.place = mail.chat_place"
    " WHERE done_at IS NULL AND session_id <> ''"
)


async def count_old(database: PostgresDatabase, before: float) -> int:
    sql = f"SELECT count(*) FROM sessions WHERE {_OLD}"  # noqa: S608 - ours
    ((found,),) = await database.rows(sql, {"before": before})
    return int(found)


async def prune(database: PostgresDatabase, before: float) -> int:
    """See toolcrib.contract.store.Store.prune. The server's autovacuum frees the space."""

    async def forget(connection: Connection) -> int:
        found = await connection.execute(f"DELETE FROM sessions WHERE {_OLD} RETURNING id", {"before": before})  # noqa: S608 - ours
        old = [row[0] for row in await found.fetchall()]
        values: Values = {"old": old, "before": before, **database.now()}
        for statement in (*_THEIRS, *_REST, *SWEEP):
            await connection.execute(statement, values)
        return len(old)

    return await database.transact(None, forget, patient=True)


async def delete(database: PostgresDatabase, session_ids: Collection[str]) -> Sequence[str]:
    """See toolcrib.contract.store.Store.delete."""
    wanted = [to_text(name) for name in dict.fromkeys(session_ids)]

    async def forget(connection: Connection) -> list[str]:
        sql = f"DELETE FROM sessions WHERE id = ANY(%(wanted)s) AND {_IDLE} RETURNING id"  # noqa: S608 - ours
        found = await connection.execute(sql, {"wanted": wanted})
        deleted = [row[0] for row in await found.fetchall()]
        for statement in (*_ALL_THEIRS, *SWEEP):
            await connection.execute(statement, {"old": deleted})
        return [name for name in dict.fromkeys(session_ids) if to_text(name) in deleted]

    return await database.transact(None, forget, patient=True)


async def saying(database: PostgresDatabase, says: Callable[[str], bool]) -> Sequence[str]:
    """See toolcrib.contract.store.Store.saying. Messages are read one session at a time."""
    found: dict[str, None] = {}
    for (session,) in await database.rows("SELECT row FROM sessions", {}):
        sql = "SELECT id, body FROM messages JOIN sessions ON sessions.row = session WHERE session = %(session)s"
        rows = await database.rows(sql, {"session": session})
        saying_of(((from_text(name), from_text(body)) for name, body in rows), says, found)
    for sql in (*TEXTS, "SELECT session_id, item FROM inbox WHERE NOT taken", _MAIL):
        saying_of(((from_text(name), from_text(kept)) for name, kept in await database.rows(sql, {})), says, found)
    return list(found)


async def rewrite_prompts(
    database: PostgresDatabase, said: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]
) -> Sequence[str]:
    """See toolcrib.contract.store.Store.rewrite_prompts."""

    async def work(connection: Connection) -> list[str]:
        sql = "SELECT id, prompt FROM sessions WHERE strpos(prompt, %(said)s) > 0 FOR UPDATE"
        found = await (await connection.execute(sql, {"said": json.dumps(said)[1:-1]})).fetchall()
        changed = list(rewritten([(row[0], row[1]) for row in found], rewrite))
        for name, prompt in changed:
            await connection.execute("UPDATE sessions SET prompt = %(prompt)s WHERE id = %(id)s", {"prompt": prompt, "id": name})
        return [from_text(name) for name, _ in changed]

    return await database.transact(None, work, patient=True)
