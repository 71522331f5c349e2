"""Conversations: each message is a row that is committed when ``append`` returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.store._codec import Sharing, dump
from agent.store._from_rows import SESSION, read_session
from agent.store._shared import CANDIDATES, ambiguous, first_title, tag_in, tags_of, times_of, title_of
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import Value, to_json, to_text
from agent.store.postgres._usage import USE, USE_THEN, spent, spent_json
from toolcrib.contract.store import Fence, SessionInfo
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_SELECT = f"SELECT {SESSION} FROM sessions"  # noqa: S608 - ours
_AT_ONCE = 256
"""Number of rows that are read and decoded at once: few, because each is in memory twice while it is decoded."""

GROW = (
    "UPDATE sessions SET messages = messages + %(count)s::int,"  # noqa: S608 - NOW is ours
    f" updated_at = {NOW}, spoken = spoken OR %(spoken)s, title = CASE WHEN title = '' THEN %(title)s ELSE title END"
    " {source} WHERE id = %(session)s RETURNING sessions.row, messages - %(count)s::int AS start"
)
SAY = (
    f"INSERT INTO messages (session, seq, body, at) SELECT grown.row, grown.start + one.number - 1, one.body, {NOW}"  # noqa: S608 - ours
    " FROM grown, json_array_elements_text(%(bodies)s::json) WITH ORDINALITY AS one (body, number)"
)

_ADD = (
    'added AS (INSERT INTO sessions (id, platform, "user", model, cwd, title, parent_id, why, place, via, tags, created_at,'  # noqa: S608 - ours
    " updated_at, spoken, messages) VALUES (%(session)s, %(platform)s, %(user)s, %(model)s, %(cwd)s, %(title)s, %(parent)s,"
    " %(why)s, %(place)s, %(via)s, %(tags)s,"
    " %(created)s, %(updated)s, %(spoken)s, %(count)s) ON CONFLICT (id) DO NOTHING RETURNING row),"
    " said AS (INSERT INTO messages (session, seq, body, at)"
    " SELECT added.row, one.number - 1, one.body, one.at::float8 FROM added,"
    " ROWS FROM (json_array_elements_text(%(bodies)s::json),"
    " json_array_elements_text(%(times)s::json)) WITH ORDINALITY AS one (body, at, number)),"
    f" used AS ({USE_THEN})"
)


def said(session_id: str, messages: Iterable[Mapping[str, Json]]) -> dict[str, Value]:
    """Return the values for GROW, SAY and USE."""
    bodies: list[str] = []
    titles, used = [], []
    for message in messages:
        used += spent(message)
        bodies.append(to_json(dump(message)))
        title = title_of(message)
        if title is not None:
            titles.append(title)
    title = to_text(next(filter(None, titles), ""))
    rows: dict[str, Value] = {"count": len(bodies), "bodies": _listed(bodies), "used": spent_json(used)}
    return {"session": to_text(session_id), "spoken": bool(titles), "title": title, **rows}


def _listed(bodies: Sequence[str]) -> str:
    """Return records as one JSON value for a statement: it is written and read many times faster than an array."""
    return json.dumps(bodies, ensure_ascii=False)


class PostgresSessions:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def create(
        self,
        session_id: str,
        *,
        platform: str,
        user: str,
        model: str = "",
        cwd: str = "",
        place: Mapping[str, str] = MappingProxyType({}),
        via: Mapping[str, str] = MappingProxyType({}),
        parent: str = "",
        why: str = "",
    ) -> None:
        await self._database.write(
            self._fence,
            'INSERT INTO sessions (id, platform, "user", model, cwd, place, via, parent_id, why, created_at, updated_at)'  # noqa: S608 - NOW is ours
            " SELECT %(id)s, %(platform)s, %(user)s, %(model)s, %(cwd)s, %(place)s, %(via)s, %(parent)s, %(why)s, at, at"
            f" FROM (SELECT {NOW} AS at) AS now ON CONFLICT (id) DO NOTHING RETURNING row",
            {
                **self._database.now(),
                "id": to_text(session_id),
                "platform": to_text(platform),
                "user": to_text(user),
                "model": to_text(model),
                "cwd": to_text(cwd),
                "place": json.dumps(dict(place)),
                "via": json.dumps(dict(via)),
                "parent": to_text(parent),
                "why": to_text(why),
            },
        )

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        place: Mapping[str, str] | None = None,
        host: str | None = None,
        via: Mapping[str, str] | None = None,
        prompt: Mapping[str, Json] | None = None,
    ) -> None:
        given = {"title": title, "model": model, "cwd": cwd, "host": host}
        changed = await self._database.write(
            self._fence,
            "UPDATE sessions SET title = coalesce(%(title)s, title), model = coalesce(%(model)s, model),"  # noqa: S608 - NOW is ours
            " cwd = coalesce(%(cwd)s, cwd), host = coalesce(%(host)s, host), place = coalesce(%(place)s, place),"
            " via = coalesce(%(via)s, via), prompt = coalesce(%(prompt)s, prompt),"
            f" updated_at = {NOW} WHERE id = %(id)s RETURNING row",
            {
                **self._database.now(),
                **{name: None if value is None else to_text(value) for name, value in given.items()},
                "place": None if place is None else json.dumps(dict(place)),
                "via": None if via is None else json.dumps(dict(via)),
                "prompt": None if prompt is None else json.dumps(dict(prompt)),
                "id": to_text(session_id),
            },
        )
        if not changed:
            raise KeyError(session_id)

    async def label(self, session_id: str, *, title: str | None = None, tags: Iterable[str] | None = None) -> None:
        values: dict[str, Value] = {"title": None if title is None else to_text(title), "id": to_text(session_id)}
        values["tags"] = None if tags is None else tags_of(tags)
        sql = "UPDATE sessions SET title = coalesce(%(title)s, title), tags = coalesce(%(tags)s, tags)"
        sql += " WHERE id = %(id)s RETURNING row"
        if not await self._database.write(self._fence, sql, values):
            raise KeyError(session_id)

    async def add(self, info: SessionInfo, messages: Sequence[Mapping[str, Json]], times: Sequence[float] = ()) -> bool:
        title, spoken = first_title(messages)
        at = times_of(info, times, len(messages))
        names = {"title": info.title or title, "platform": info.platform, "user": info.user, "model": info.model, "cwd": info.cwd}
        names |= {"parent": info.parent, "why": info.why}
        values: dict[str, Value] = {
            **{name: to_text(value) for name, value in {**names, "session": info.id}.items()},
            "place": json.dumps(dict(info.place)),
            "via": json.dumps(dict(info.via)),
            "tags": tags_of(info.tags),
            "created": info.created_at,
            "updated": info.updated_at,
            "spoken": spoken,
            "count": len(messages),
            "bodies": _listed([to_json(dump(message)) for message in messages]),
            "times": json.dumps(at),
            "used": spent_json(
                [{**row, "at": then} for message, then in zip(messages, at, strict=True) for row in spent(message)]
            ),
        }
        return bool(await self._database.write(self._fence, "SELECT row FROM added", values, parts=_ADD))

    async def prompt(self, session_id: str) -> Mapping[str, Json]:
        for (stored,) in await self._database.rows("SELECT prompt FROM sessions WHERE id = %(id)s", {"id": to_text(session_id)}):
            return dict(json.loads(stored))
        raise KeyError(session_id)

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        await self.append_many(session_id, [message])

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        values = {**said(session_id, messages), **self._database.now()}
        parts = f"grown AS ({GROW.format(source='')}), said AS ({SAY}), used AS ({USE})"
        if not await self._database.write(self._fence, "SELECT row FROM grown", values, parts=parts):
            raise KeyError(session_id)

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        decoder = Sharing()

        async def read(connection: Connection) -> list[Mapping[str, Json]]:
            kept: list[Mapping[str, Json]] = []
            while True:
                wanted = _AT_ONCE if limit is None else min(_AT_ONCE, limit - len(kept))
                found = await connection.execute(
                    # a session without messages in this range gives one row without a body; an unknown session gives no row
                    "SELECT body FROM sessions LEFT JOIN messages ON session = row AND seq >= %(start)s AND seq < %(end)s"
                    " WHERE id = %(id)s ORDER BY seq",
                    {"id": to_text(session_id), "start": offset + len(kept), "end": offset + len(kept) + wanted},
                )
                rows = await found.fetchall()
                if not rows:
                    raise KeyError(session_id)
                bodies = [row for row in rows if row[0] is not None]
                kept += self._database.made(decoder.load, bodies)
                if len(bodies) < _AT_ONCE:
                    return kept

        return await self._database.read(read)

    async def get(self, prefix: str) -> SessionInfo | None:
        sql = f"{_SELECT} WHERE id ^@ %(prefix)s ORDER BY id = %(prefix)s DESC, updated_at DESC, row DESC LIMIT {CANDIDATES + 1}"
        found = await self._database.records(read_session, sql, {"prefix": to_text(prefix)})
        if len(found) > 1 and found[0].id != prefix:
            raise ambiguous(prefix, [info.id for info in found])
        return found[0] if found else None

    async def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        return next(iter(await self.list(1, platform=platform, user=user, cwd=cwd)), None)

    async def list(
        self,
        limit: int = 20,
        *,
        platform: str | None = None,
        user: str | None = None,
        cwd: str | None = None,
        tags: Iterable[str] = (),
        delegates: bool = True,
    ) -> Sequence[SessionInfo]:
        given = {"platform": platform, "user": user, "cwd": cwd}
        wanted: dict[str, Value] = {column: to_text(value) for column, value in given.items() if value is not None}
        where = "".join(f' AND "{column}" = %({column})s' for column in wanted)
        for number, tag in enumerate(tags):
            where, wanted[f"tag{number}"] = f"{where} AND strpos(tags, %(tag{number})s) > 0", tag_in(tag)
        where += "" if delegates else " AND why <> 'delegate'"
        sql = f"{_SELECT} WHERE spoken{where} ORDER BY updated_at DESC, row DESC LIMIT %(limit)s"
        return await self._database.records(read_session, sql, {**wanted, "limit": limit})

    async def children(self, session_id: str) -> Sequence[SessionInfo]:
        sql = f"{_SELECT} WHERE parent_id = %(parent)s AND parent_id <> '' ORDER BY row"
        return await self._database.records(read_session, sql, {"parent": to_text(session_id)})
