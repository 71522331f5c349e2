"""Conversations over SQLite: each message is a row that is committed when ``append`` returns."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agent.store._codec import Sharing, Stored, dump, text
from agent.store._database import Access
from agent.store._from_rows import SESSION, read_session
from agent.store._jobs import Work
from agent.store._packing import pack, unpacked
from agent.store._shared import CANDIDATES, Clock, ambiguous, first_title, tag_in, tags_of, times_of, title_of
from agent.store._usage import Used, insert, used
from toolcrib.contract.store import SessionInfo
from toolcrib.contract.types import Json

_SELECT = f"SELECT {SESSION} FROM sessions"  # noqa: S608 - ours
BY_PREFIX = f"{_SELECT} WHERE id >= ? AND id < ? AND substr(id, 1, ?) = ? ORDER BY id = ? DESC, updated_at DESC, row DESC LIMIT ?"
"""Query for an id or its beginning. It uses the index, because a gateway runs it for each new chat, over very many sessions."""
_NO_END = 2**62
_BEHIND = "\U0010ffff"
"""A character that sorts after all characters of ids."""
_AT_ONCE = 64
"""Number of rows that are read and decoded at once: few, because each is in memory twice while it is decoded."""


class SqliteSessions:
    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

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
        """Create a session. An existing session stays unchanged."""
        now = self._clock()
        await self._access.run(
            "INSERT INTO sessions (id, platform, user, model, cwd, parent_id, why, place, via, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            (
                *map(text, (session_id, platform, user, model, cwd, parent, why)),
                *(json.dumps(dict(place)), json.dumps(dict(via)), now, now),
            ),
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
        """Change the given fields. Raises KeyError for an unknown session."""
        values = [None if value is None else text(value) for value in (title, model, cwd, host)]
        values += [None if value is None else json.dumps(dict(value)) for value in (place, via, prompt)]
        changed = await self._access.run(
            "UPDATE sessions SET title = coalesce(?, title), model = coalesce(?, model), cwd = coalesce(?, cwd),"
            " host = coalesce(?, host), place = coalesce(?, place), via = coalesce(?, via),"
            " prompt = coalesce(?, prompt), updated_at = ? WHERE id = ?",
            (*values, self._clock(), text(session_id)),
        )
        if not changed:
            raise KeyError(session_id)

    async def label(self, session_id: str, *, title: str | None = None, tags: Iterable[str] | None = None) -> None:
        """Set the user's title and tags. Raises KeyError for an unknown session."""
        values = None if title is None else text(title), None if tags is None else tags_of(tags)
        sql = "UPDATE sessions SET title = coalesce(?, title), tags = coalesce(?, tags) WHERE id = ?"
        if not await self._access.run(sql, (*values, text(session_id))):
            raise KeyError(session_id)

    async def add(self, info: SessionInfo, messages: Sequence[Mapping[str, Json]], times: Sequence[float] = ()) -> bool:
        """Store a complete session from elsewhere. Return False if its id exists."""
        return await self._access.write(adding(info, messages, times))

    async def prompt(self, session_id: str) -> Mapping[str, Json]:
        """Return the session's stored prompt. Raises KeyError for an unknown session."""
        for (stored,) in await self._access.rows("SELECT prompt FROM sessions WHERE id = ?", (text(session_id),)):
            return dict(json.loads(stored))
        raise KeyError(session_id)

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Append a message. Raises KeyError for an unknown session."""
        await self.append_many(session_id, [message])

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """Append messages: all of them, or none if it raises."""
        await self._access.write(appending(session_id, messages, self._clock()))

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """Return messages in order. Raises KeyError for an unknown session."""
        key = text(session_id)

        def work(connection: sqlite3.Connection) -> list[Mapping[str, Json]]:
            found = connection.execute("SELECT row FROM sessions WHERE id = ?", (key,)).fetchone()
            if found is None:
                raise KeyError(session_id)
            sql = "SELECT body FROM messages WHERE session = ? AND seq >= ? AND seq < ? ORDER BY seq"
            end = _NO_END if limit is None else offset + limit
            rows = connection.execute(sql, (found[0], offset, end))
            decoder = Sharing()

            def read(body: Stored) -> Mapping[str, Json]:
                record: Mapping[str, Json] = decoder.load(unpacked(body))
                return record

            parts = iter(lambda: rows.fetchmany(_AT_ONCE), [])
            return list(itertools.chain.from_iterable(self._access.made(read, part) for part in parts))

        return await self._access.read(work)

    async def get(self, prefix: str) -> SessionInfo | None:
        """Return the session with the id ``prefix``, or the only one whose id starts with it.

        Raises ToolcribError for several.
        """
        begin = text(prefix)
        end = begin + _BEHIND if isinstance(begin, str) else begin + b"\xff"
        found = await self._access.records(read_session, BY_PREFIX, (begin, end, len(begin), begin, begin, CANDIDATES + 1))
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
        """Return the sessions with at least one message from a user, most recently used first."""
        given: dict[str, Any] = {"platform": platform, "user": user, "cwd": cwd}
        wanted = {column: text(value) for column, value in given.items() if value is not None}
        where = "".join(f" AND {column} = ?" for column in wanted)
        marked = [tag_in(tag) for tag in tags]
        where += " AND instr(tags, ?)" * len(marked) + ("" if delegates else " AND why <> 'delegate'")
        sql = f"{_SELECT} WHERE spoken{where} ORDER BY updated_at DESC, row DESC LIMIT ?"
        return await self._access.records(read_session, sql, (*wanted.values(), *marked, limit))

    async def children(self, session_id: str) -> Sequence[SessionInfo]:
        """Return the child sessions of this one, oldest first."""
        sql = f"{_SELECT} WHERE parent_id = ? AND parent_id <> '' ORDER BY row"
        return await self._access.records(read_session, sql, (text(session_id),))


def appending(session_id: str, messages: Iterable[Mapping[str, Json]], now: float) -> Work[None]:
    """Return the work that appends copies of these messages.

    Raises TypeError, ValueError or RecursionError for anything that is not JSON; the work raises KeyError for an unknown session.
    """
    bodies: list[Stored] = []
    titles: list[str] = []
    spent: list[Used] = []
    for message in messages:
        spent += used(message)
        bodies.append(pack(dump(message)))
        title = title_of(message)
        if title is not None:
            titles.append(title)
    key, title_text = text(session_id), text(next(filter(None, titles), ""))

    def work(connection: sqlite3.Connection) -> None:
        found = connection.execute("SELECT row, messages FROM sessions WHERE id = ?", (key,)).fetchone()
        if found is None:
            raise KeyError(session_id)
        row, count = found
        connection.executemany(
            "INSERT INTO messages (session, seq, body, at) VALUES (?, ?, ?, ?)",
            ((row, count + number, body, now) for number, body in enumerate(bodies)),
        )
        connection.execute(
            "UPDATE sessions SET messages = messages + ?, updated_at = ?, spoken = max(spoken, ?),"
            " title = CASE WHEN title = '' THEN ? ELSE title END WHERE row = ?",
            (len(bodies), now, bool(titles), title_text, row),
        )
        insert(connection, key, now, spent)

    return work


def adding(info: SessionInfo, messages: Sequence[Mapping[str, Json]], times: Sequence[float]) -> Work[bool]:
    """Return the work that stores a session from elsewhere. Raises what ``appending`` raises for anything that is not JSON."""
    title, spoken = first_title(messages)
    said = [(pack(dump(message)), at) for message, at in zip(messages, times_of(info, times, len(messages)), strict=True)]
    spent = [(at, list(used(message))) for message, (_, at) in zip(messages, said, strict=True)]
    key = text(info.id)
    about = map(text, (info.id, info.platform, info.user, info.model, info.cwd, info.title or title, info.parent, info.why))
    rest = json.dumps(dict(info.place)), json.dumps(dict(info.via)), tags_of(info.tags), info.created_at, info.updated_at
    values = (*about, *rest, spoken, len(said))

    def work(connection: sqlite3.Connection) -> bool:
        added = connection.execute(
            "INSERT INTO sessions (id, platform, user, model, cwd, title, parent_id, why, place, via, tags, created_at,"
            " updated_at, spoken, messages) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            values,
        )
        if not added.rowcount:
            return False
        connection.executemany(
            "INSERT INTO messages (session, seq, body, at) VALUES (?, ?, ?, ?)",
            ((added.lastrowid, number, body, at) for number, (body, at) in enumerate(said)),
        )
        for at, rows in spent:
            insert(connection, key, at, rows)
        return True

    return work
