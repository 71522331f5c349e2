"""Mail, posts and chats of a gateway over SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from agent.store._codec import Stored, dump_body, plain, text
from agent.store._database import Access
from agent.store._from_gateway_rows import CHAT, MAIL, POST, read_chat, read_mail, read_post
from agent.store._shared import Clock
from toolcrib.contract.dataclass import replace
from toolcrib.contract.frozen import freeze
from toolcrib.contract.mail import ChatRecord, Mail, Post, PostState
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from toolcrib.contract.mail import MailStore

_AT_ONCE = 1_000
"""Maximum number of rows that a sweep deletes before other processes can write."""
_ARRIVED = "INSERT INTO mail (at, platform, chat, key, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_MAIL = f"SELECT {MAIL} FROM mail"  # noqa: S608 - ours
_POST = f"SELECT {POST} FROM posts"  # noqa: S608 - ours
_IS_OVER = "state IN ('shown', 'failed')"
_BEGINS = f"{_IS_OVER} OR tries = 0"
_KEEP = f"""
INSERT INTO posts (at, moved_at, platform, chat, key, session_id, body, state, shown_as, tries, due_at, problem)
  VALUES (:now, :now, :platform, :chat, :key, CASE WHEN :session <> '' THEN :session ELSE
    coalesce((SELECT session_id FROM chats WHERE chats.chat = :chat AND chats.platform = :platform), '') END,
    :body, 'waiting', '', 0, :due_at, '')
  ON CONFLICT (key, platform) DO UPDATE SET body = excluded.body, moved_at = excluded.moved_at,
    session_id = CASE WHEN session_id = '' THEN excluded.session_id ELSE session_id END,
    state = CASE WHEN {_BEGINS} THEN 'waiting' ELSE state END,
    tries = CASE WHEN {_BEGINS} THEN 0 ELSE tries END,
    due_at = CASE WHEN {_BEGINS} THEN excluded.due_at ELSE max(due_at, excluded.due_at) END,
    problem = CASE WHEN {_BEGINS} THEN '' ELSE problem END
  WHERE NOT ({_IS_OVER} AND body = excluded.body)
"""  # noqa: S608 - ours
_REPLACED = "(:state IN ('shown', 'failed') AND body <> :sent)"
_MOVE = (
    f"UPDATE posts SET state = CASE WHEN {_REPLACED} THEN 'waiting' ELSE :state END,"  # noqa: S608 - ours
    f" tries = CASE WHEN {_REPLACED} THEN 0 ELSE tries + :counts END, due_at = :due_at, problem = :problem, moved_at = :now,"
    " shown_as = CASE WHEN :shown_as = '' THEN shown_as ELSE :shown_as END WHERE row = :row"
)
_RUN, _OF_RUN, _NEXT = "'run:' || runs.id", "'run:' || runs.id || ':'", "'run:' || runs.id || ';'"
UNPOSTED = (
    "SELECT runs.id FROM runs INDEXED BY runs_ended CROSS JOIN chat_sessions ON chat_sessions.session_id = runs.session_id"  # noqa: S608 - ours
    " WHERE runs.status = 'ended' AND runs.updated_at >= :since AND chat_sessions.platform = :platform AND NOT EXISTS"
    f" (SELECT 1 FROM posts WHERE platform = :platform AND (key = {_RUN} OR (key >= {_OF_RUN} AND key < {_NEXT})"
    f" OR key = CAST({_RUN} AS BLOB) OR (key >= CAST({_OF_RUN} AS BLOB) AND key < CAST({_NEXT} AS BLOB))))"
    " ORDER BY runs.updated_at, runs.row"
)
"""A key is a BLOB if it has lone surrogates, in its run's id or in the part after it."""
WAITING = f"{_MAIL} WHERE platform = ? AND done_at IS NULL ORDER BY row"
PENDING = f"{_POST} WHERE platform = ? AND state IN ('waiting', 'sending') ORDER BY row"
QUESTIONS = (
    f"{_POST} WHERE platform = ? AND ((key >= 'ticket:' AND key < 'ticket;')"
    " OR (key >= CAST('ticket:' AS BLOB) AND key < CAST('ticket;' AS BLOB))) ORDER BY row"
)
_CHAT = f"SELECT {CHAT} FROM chats"  # noqa: S608 - ours
_ENTER = (
    "INSERT INTO chats (created_at, used_at, platform, chat, session_id, body) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (chat, platform) DO UPDATE SET used_at = excluded.used_at, session_id = excluded.session_id,"
    " body = excluded.body"
)
_HAD = (
    "INSERT INTO chat_sessions (session_id, platform, chat) VALUES (?, ?, ?)"
    " ON CONFLICT (session_id) DO UPDATE SET platform = excluded.platform, chat = excluded.chat"
)
_SWEPT = (
    "DELETE FROM mail WHERE row IN (SELECT row FROM mail WHERE done_at < ? LIMIT ?)",
    "DELETE FROM posts WHERE row IN (SELECT row FROM posts WHERE state IN ('shown', 'failed') AND moved_at < ? LIMIT ?)",
)


class SqliteMail:
    """See toolcrib.contract.mail.MailStore. ``access`` carries no lease."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def arrived(self, mail: Mail) -> Mail | None:
        at = mail.at or self._clock()
        values = (at, text(mail.platform), text(mail.chat), text(mail.key), dump_body(mail.body))

        def work(connection: sqlite3.Connection) -> int | None:
            done = connection.execute(_ARRIVED, values)
            return done.lastrowid if done.rowcount else None

        number = await self._access.write(work)
        return None if number is None else replace(mail, id=number, at=at, body=freeze(mail.body))

    async def waiting(self, platform: str) -> Sequence[Mail]:
        return await self._access.records(read_mail, WAITING, (text(platform),))

    async def done(self, mail_ids: Collection[int]) -> None:
        rows = [(self._clock(), number) for number in sorted(mail_ids)]
        sql = "UPDATE mail SET body = '', done_at = ? WHERE row = ? AND done_at IS NULL"
        await self._access.write(lambda connection: connection.executemany(sql, rows))

    async def post(self, post: Post) -> Post:
        place = {"platform": text(post.platform), "key": text(post.key)}
        values = {
            **place,
            "now": self._clock(),
            "chat": text(post.chat),
            "session": text(post.session_id),
            "body": dump_body(post.body),
            "due_at": post.due_at,
        }

        def work(connection: sqlite3.Connection) -> Any:
            connection.execute(_KEEP, values)
            return connection.execute(f"{_POST} WHERE key = :key AND platform = :platform", place).fetchone()

        return self._access.made(read_post, [await self._access.write(work)])[0]

    async def get(self, platform: str, key: str) -> Post | None:
        return await self._first("WHERE key = ? AND platform = ?", (text(key), text(platform)))

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        where = "WHERE chat = ? AND shown_as = ? AND shown_as <> '' AND platform = ? ORDER BY row DESC LIMIT 1"
        return await self._first(where, (text(chat), text(shown_as), text(platform)))

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> Post | None:
        values = {
            "row": post_id,
            "state": state,
            "counts": state == "sending" and not problem,
            "shown_as": text(shown_as),
            "due_at": due_at,
            "problem": text(problem),
            "sent": None if body is None else dump_body(body),
            "now": self._clock(),
        }

        def work(connection: sqlite3.Connection) -> list[Any]:
            connection.execute(_MOVE, values)
            return connection.execute(f"{_POST} WHERE row = ?", (post_id,)).fetchall()

        return next(iter(self._access.made(read_post, await self._access.write(work))), None)

    async def pending(self, platform: str) -> Sequence[Post]:
        return await self._access.records(read_post, PENDING, (text(platform),))

    async def questions(self, platform: str) -> Sequence[Post]:
        return await self._access.records(read_post, QUESTIONS, (text(platform),))

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        def find(connection: sqlite3.Connection) -> list[str]:
            found = connection.execute(UNPOSTED, {"platform": text(platform), "since": since})
            return [plain(run_id) for (run_id,) in found]

        return await self._access.read(find)

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        found = await self._access.records(read_chat, f"{_CHAT} WHERE chat = ? AND platform = ?", (text(chat), text(platform)))
        return next(iter(found), None)

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        sql = f"{_CHAT} JOIN chat_sessions AS had USING (chat, platform) WHERE had.session_id = ?"
        return next(iter(await self._access.records(read_chat, sql, (text(session_id),))), None)

    async def enter(self, record: ChatRecord) -> None:
        now, session = self._clock(), text(record.session_id)
        place = text(record.platform), text(record.chat)
        values = (record.created_at or now, record.used_at or now, *place, session, dump_body(record.body))

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_ENTER, values)
            if session:
                connection.execute(_HAD, (session, *place))

        await self._access.write(work)

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        sql = f"{_CHAT} WHERE ? IN ('', platform) ORDER BY used_at DESC, row LIMIT ? OFFSET ?"
        return await self._access.records(read_chat, sql, (text(platform), limit, offset))

    async def sweep(self, before: float) -> int:
        swept = 0
        for sql in _SWEPT:
            while gone := await self._access.run(sql, (before, _AT_ONCE)):
                swept += gone
        return swept

    async def _first(self, where: str, values: Sequence[Stored]) -> Post | None:
        return next(iter(await self._access.records(read_post, f"{_POST} {where}", values)), None)


if TYPE_CHECKING:

    def _conforms(mail: SqliteMail) -> MailStore:
        return mail
