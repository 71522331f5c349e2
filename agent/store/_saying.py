"""Search in all stored data of sessions, not only in the indexed messages."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from agent.store._codec import plain
from agent.store._database import Access
from agent.store._packing import unpacked

_PACKED = "SELECT sessions.id, messages.body FROM messages JOIN sessions ON sessions.row = messages.session"
_CALLS = ("SELECT session_id, call FROM calls", "SELECT session_id, result FROM calls WHERE result IS NOT NULL")
_OTHERS = (
    "SELECT id, title FROM sessions WHERE title <> ''",
    "SELECT session_id, ticket FROM tickets",
    "SELECT session_id, answer FROM tickets WHERE answer IS NOT NULL",
    "SELECT session_id, detail FROM audit",
    "SELECT session_id, state FROM runs",
    "SELECT session_id, body FROM posts WHERE session_id <> ''",
)
TEXTS = (*_CALLS, *_OTHERS)
"""Queries for (session id, text) that all SQL stores share."""
_WAITING = "SELECT session_id, body FROM inbox WHERE NOT taken"
_MAIL = "SELECT session_id, mail.body FROM mail JOIN chats USING (chat, platform) WHERE done_at IS NULL AND session_id <> ''"


def saying_of(rows: Iterable[tuple[str, str]], says: Callable[[str], bool], found: dict[str, None]) -> None:
    """Add to ``found`` the sessions whose texts match ``says``. Sessions in ``found`` are not checked again."""
    for name, kept in rows:
        if name not in found and says(kept):
            found[name] = None


async def saying(database: Access, says: Callable[[str], bool]) -> Sequence[str]:
    """See toolcrib.contract.store.Store.saying."""

    def find(connection: sqlite3.Connection) -> list[str]:
        found: dict[str, None] = {}
        for sql in (_PACKED, *_CALLS):
            saying_of(((plain(name), plain(unpacked(stored))) for name, stored in connection.execute(sql)), says, found)
        for sql in (*_OTHERS, _WAITING, _MAIL):
            saying_of(((plain(name), plain(stored)) for name, stored in connection.execute(sql)), says, found)
        return list(found)

    return await database.read(find)
