"""Mail, posts and chats of a gateway."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent.store._codec import dump_body, plain
from agent.store._from_gateway_rows import CHAT, MAIL, POST, read_chat, read_mail, read_post
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import Values, digest, to_json, to_text
from toolcrib.contract.dataclass import replace
from toolcrib.contract.frozen import freeze
from toolcrib.contract.mail import ChatRecord, Mail, Post, PostState
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from toolcrib.contract.mail import MailStore

_AT_ONCE = 1_000
"""Maximum number of rows that a sweep deletes in one transaction."""
_ARRIVED = (
    "INSERT INTO mail (place, chat_place, platform, chat, key, body, at)"  # noqa: S608 - NOW is ours
    f" VALUES (%(place)s, %(chat_place)s, %(platform)s, %(chat)s, %(key)s, %(body)s, coalesce(%(at)s, {NOW}))"
    " ON CONFLICT DO NOTHING RETURNING row, at"
)
_DONE = (
    f"UPDATE mail SET body = '', done_at = {NOW} WHERE row = ANY(%(rows)s::bigint[]) AND done_at IS NULL"  # noqa: S608 - ours
    " RETURNING row"
)
_POST = f"SELECT {POST} FROM posts"  # noqa: S608 - ours
_IS_OVER = "posts.state IN ('shown', 'failed')"
_BEGINS = f"{_IS_OVER} OR posts.tries = 0"
_KEEP = f"""
INSERT INTO posts
  (place, chat_place, platform, chat, key, session_id, body, state, shown_as, tries, due_at, problem, at, moved_at)
  VALUES (%(place)s, %(chat_place)s, %(platform)s, %(chat)s, %(key)s,
    coalesce(nullif(%(session)s, ''), (SELECT session_id FROM chats WHERE chats.place = %(chat_place)s), ''),
    %(body)s, 'waiting', '', 0, %(due_at)s, '', {NOW}, {NOW})
  ON CONFLICT (place) DO UPDATE SET body = excluded.body, moved_at = excluded.moved_at,
    session_id = CASE WHEN posts.session_id = '' THEN excluded.session_id ELSE posts.session_id END,
    state = CASE WHEN {_BEGINS} THEN 'waiting' ELSE posts.state END,
    tries = CASE WHEN {_BEGINS} THEN 0 ELSE posts.tries END,
    due_at = CASE WHEN {_BEGINS} THEN excluded.due_at ELSE greatest(posts.due_at, excluded.due_at) END,
    problem = CASE WHEN {_BEGINS} THEN '' ELSE posts.problem END
  WHERE NOT ({_IS_OVER} AND posts.body = excluded.body)
  RETURNING {POST}
"""  # noqa: S608 - ours
_REPLACED = "(%(state)s IN ('shown', 'failed') AND body <> %(sent)s::text)"
_MOVE = f"""
UPDATE posts SET state = CASE WHEN {_REPLACED} THEN 'waiting' ELSE %(state)s END,
    tries = CASE WHEN {_REPLACED} THEN 0 ELSE tries + %(counts)s END,
    due_at = %(due_at)s, problem = %(problem)s, moved_at = {NOW},
    shown_as = CASE WHEN %(shown_as)s = '' THEN shown_as ELSE %(shown_as)s END,
    shown_place = CASE WHEN %(shown_as)s = '' THEN shown_place ELSE sha256(chat_place || %(shown)s::bytea) END
  WHERE row = %(row)s RETURNING {POST}
"""  # noqa: S608 - ours
UNPOSTED = (
    "WITH ended AS MATERIALIZED"
    " (SELECT row, id, session_id, updated_at FROM runs WHERE status = 'ended' AND updated_at >= %(since)s)"
    " SELECT ended.id FROM ended JOIN chat_sessions USING (session_id) WHERE chat_sessions.platform = %(platform)s"
    " AND (SELECT 1 FROM posts WHERE starts_with(posts.key, 'run:')"
    " AND left(split_part(posts.key, ':', 2), 200) = left(split_part(ended.id, ':', 1), 200)"
    " AND posts.platform = %(platform)s"
    " AND (posts.key = 'run:' || ended.id OR starts_with(posts.key, 'run:' || ended.id || ':')) LIMIT 1) IS NULL"
    " ORDER BY ended.updated_at, ended.row"
)
"""Written so that the planner can't choose a slow plan while it has no statistics."""
WAITING = f"SELECT {MAIL} FROM mail WHERE platform = %(platform)s AND done_at IS NULL ORDER BY row"  # noqa: S608 - ours
PENDING = f"{_POST} WHERE platform = %(platform)s AND state IN ('waiting', 'sending') ORDER BY row"
QUESTIONS = f"{_POST} WHERE platform = %(platform)s AND starts_with(key, 'ticket:') ORDER BY row"
_CHAT = f"SELECT {CHAT} FROM chats"  # noqa: S608 - ours
_ENTER = f"""
INSERT INTO chats (place, platform, chat, session_id, body, created_at, used_at)
  VALUES (%(place)s, %(platform)s, %(chat)s, %(session)s, %(body)s,
    coalesce(%(created_at)s, {NOW}), coalesce(%(used_at)s, {NOW}))
  ON CONFLICT (place) DO UPDATE SET used_at = excluded.used_at, session_id = excluded.session_id, body = excluded.body
  RETURNING row
"""  # noqa: S608 - ours
_HAD = (
    "had AS (INSERT INTO chat_sessions (session_id, platform, place)"
    " SELECT %(session)s, %(platform)s, %(place)s WHERE %(session)s <> ''"
    " ON CONFLICT (session_id) DO UPDATE SET platform = excluded.platform, place = excluded.place)"
)
_SWEPT = tuple(
    f"DELETE FROM {table} WHERE row = ANY(ARRAY(SELECT row FROM {table} WHERE {is_over} LIMIT {_AT_ONCE})) RETURNING row"  # noqa: S608 - ours
    for table, is_over in (
        ("mail", "done_at < %(before)s"),
        ("posts", "state IN ('shown', 'failed') AND moved_at < %(before)s"),
    )
)


class PostgresMail:
    """See toolcrib.contract.mail.MailStore."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def arrived(self, mail: Mail) -> Mail | None:
        values: Values = {
            **self._database.now(),
            **_chat_values(mail.platform, mail.chat),
            "place": _place(mail.platform, mail.chat, mail.key),
            "key": to_text(mail.key),
            "body": to_json(dump_body(mail.body)),
            "at": mail.at or None,
        }
        found = await self._database.write(None, _ARRIVED, values)
        return replace(mail, id=found[0][0], at=found[0][1], body=freeze(mail.body)) if found else None

    async def waiting(self, platform: str) -> Sequence[Mail]:
        return await self._database.records(read_mail, WAITING, {"platform": to_text(platform)})

    async def done(self, mail_ids: Collection[int]) -> None:
        await self._database.write(None, _DONE, {**self._database.now(), "rows": sorted(mail_ids)})

    async def post(self, post: Post) -> Post:
        values: Values = {
            **self._database.now(),
            **_chat_values(post.platform, post.chat),
            "place": _place(post.platform, post.key),
            "key": to_text(post.key),
            "session": to_text(post.session_id),
            "body": to_json(dump_body(post.body)),
            "due_at": post.due_at,
        }
        while True:
            rows = await self._database.write(None, _KEEP, values)
            found = self._database.made(read_post, rows)[0] if rows else await self.get(post.platform, post.key)
            if found is not None:  # otherwise it was swept meanwhile
                return found

    async def get(self, platform: str, key: str) -> Post | None:
        return await self._first("WHERE place = %(place)s", {"place": _place(platform, key)})

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        place = hashlib.sha256(_place(platform, chat) + digest(shown_as)).digest()
        return await self._first("WHERE shown_place = %(place)s ORDER BY row DESC LIMIT 1", {"place": place})

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> Post | None:
        values: Values = {
            **self._database.now(),
            "row": post_id,
            "state": state,
            "counts": int(state == "sending" and not problem),
            "shown_as": to_text(shown_as),
            "shown": digest(shown_as),
            "due_at": due_at,
            "problem": to_text(problem),
            "sent": None if body is None else to_json(dump_body(body)),
        }
        return next(iter(self._database.made(read_post, await self._database.write(None, _MOVE, values))), None)

    async def pending(self, platform: str) -> Sequence[Post]:
        return await self._database.records(read_post, PENDING, {"platform": to_text(platform)})

    async def questions(self, platform: str) -> Sequence[Post]:
        return await self._database.records(read_post, QUESTIONS, {"platform": to_text(platform)})

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        return await self._database.records(plain, UNPOSTED, {"platform": to_text(platform), "since": since})

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        sql = f"{_CHAT} WHERE place = %(place)s"
        return next(iter(await self._database.records(read_chat, sql, {"place": _place(platform, chat)})), None)

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        sql = f"{_CHAT} JOIN chat_sessions AS had USING (place) WHERE had.session_id = %(session)s"
        return next(iter(await self._database.records(read_chat, sql, {"session": to_text(session_id)})), None)

    async def enter(self, record: ChatRecord) -> None:
        values: Values = {
            **self._database.now(),
            "place": _place(record.platform, record.chat),
            "platform": to_text(record.platform),
            "chat": to_text(record.chat),
            "session": to_text(record.session_id),
            "body": to_json(dump_body(record.body)),
            "created_at": record.created_at or None,
            "used_at": record.used_at or None,
        }
        await self._database.write(None, _ENTER, values, parts=_HAD)

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        where = "WHERE platform = %(platform)s" if platform else ""
        sql = f"{_CHAT} {where} ORDER BY used_at DESC, row LIMIT %(limit)s OFFSET %(offset)s"
        return await self._database.records(read_chat, sql, {"platform": to_text(platform), "limit": limit, "offset": offset})

    async def sweep(self, before: float) -> int:
        swept = 0
        for sql in _SWEPT:
            while gone := await self._database.write(None, sql, {"before": before}):
                swept += len(gone)
        return swept

    async def _first(self, where: str, values: Values) -> Post | None:
        return next(iter(await self._database.records(read_post, f"{_POST} {where}", values)), None)


def _place(*names: str) -> bytes:
    return hashlib.sha256(b"".join(map(digest, names))).digest()


def _chat_values(platform: str, chat: str) -> dict[str, str | bytes]:
    return {"platform": to_text(platform), "chat": to_text(chat), "chat_place": _place(platform, chat)}


if TYPE_CHECKING:

    def _conforms(mail: PostgresMail) -> MailStore:
        return mail
