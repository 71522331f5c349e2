"""Conversations over SQLite: each message is a row, on disk when ``append`` returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agent.store._codec import Sharing, Stored, dump, plain, text
from agent.store._database import Database
from agent.store._shared import CANDIDATES, Clock, ambiguous, title_of
from toolcrib._store import SessionInfo
from toolcrib._types import Json

_SELECT = "SELECT id, title, platform, user, model, cwd, created_at, updated_at, messages, place FROM sessions"
_AT_ONCE = 64
"""How many rows are read before they are decoded: few, since each stands in memory twice meanwhile."""


class SqliteSessions:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        session_id: str,
        *,
        platform: str,
        user: str,
        model: str = "",
        cwd: str = "",
        place: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Creating a session again leaves it as it is."""
        now = self._clock()
        self._database.run(
            "INSERT INTO sessions (id, platform, user, model, cwd, place, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO NOTHING",
            (*map(text, (session_id, platform, user, model, cwd)), json.dumps(dict(place)), now, now),
        )

    def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        place: Mapping[str, str] | None = None,
    ) -> None:
        """Change what is given. Raises KeyError for a session that was never created."""
        values = [None if value is None else text(value) for value in (title, model, cwd)]
        values.append(None if place is None else json.dumps(dict(place)))
        changed = self._database.run(
            "UPDATE sessions SET title = coalesce(?, title), model = coalesce(?, model), cwd = coalesce(?, cwd),"
            " place = coalesce(?, place), updated_at = ? WHERE id = ?",
            (*values, self._clock(), text(session_id)),
        )
        if not changed:
            raise KeyError(session_id)

    def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Raises KeyError for a session that was never created."""
        self.append_many(session_id, [message])

    def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """All of them or, where it raises, none."""
        bodies: list[Stored] = []
        titles: list[str] = []
        for message in messages:
            bodies.append(dump(message))
            title = title_of(message)
            if title is not None:
                titles.append(title)
        key = text(session_id)
        with self._database.transaction() as connection:
            found = connection.execute("SELECT row, messages FROM sessions WHERE id = ?", (key,)).fetchone()
            if found is None:
                raise KeyError(session_id)
            row, count = found
            connection.executemany(
                "INSERT INTO messages (session, seq, body) VALUES (?, ?, ?)",
                ((row, count + number, body) for number, body in enumerate(bodies)),
            )
            connection.execute(
                "UPDATE sessions SET messages = messages + ?, updated_at = ?, spoken = max(spoken, ?),"
                " title = CASE WHEN title = '' THEN ? ELSE title END WHERE row = ?",
                (len(bodies), self._clock(), bool(titles), text(next(filter(None, titles), "")), row),
            )

    def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """In order. Raises KeyError for a session that was never created."""
        found = self._database.row("SELECT row, messages FROM sessions WHERE id = ?", (text(session_id),))
        if found is None:
            raise KeyError(session_id)
        row, end = found
        if limit is not None:
            end = min(end, offset + limit)
        decoder, kept = Sharing(), []
        for start in range(offset, end, _AT_ONCE):
            kept += self._database.records(
                decoder.load,
                "SELECT body FROM messages WHERE session = ? AND seq >= ? AND seq < ? ORDER BY seq",
                (row, start, min(end, start + _AT_ONCE)),
            )
        return kept

    def get(self, prefix: str) -> SessionInfo | None:
        """The session of that id, or the only one whose id begins so. Raises ToolcribError with the candidates of several."""
        found = self._database.records(_info, f"{_SELECT} WHERE id = ?", (text(prefix),))
        if not found:
            sql = f"{_SELECT} WHERE substr(id, 1, ?) = ? ORDER BY updated_at DESC, row DESC LIMIT ?"
            found = self._database.records(_info, sql, (len(prefix), text(prefix), CANDIDATES + 1))
        if len(found) > 1:
            raise ambiguous(prefix, [info.id for info in found])
        return found[0] if found else None

    def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        return next(iter(self.list(1, platform=platform, user=user, cwd=cwd)), None)

    def list(
        self, limit: int = 20, *, platform: str | None = None, user: str | None = None, cwd: str | None = None
    ) -> Sequence[SessionInfo]:
        """Those in which a user said something, the last one that was used first."""
        given: dict[str, Any] = {"platform": platform, "user": user, "cwd": cwd}
        wanted = {column: text(value) for column, value in given.items() if value is not None}
        where = "".join(f" AND {column} = ?" for column in wanted)
        sql = f"{_SELECT} WHERE spoken{where} ORDER BY updated_at DESC, row DESC LIMIT ?"
        return self._database.records(_info, sql, (*wanted.values(), limit))


def _info(
    session_id: Stored,
    title: Stored,
    platform: Stored,
    user: Stored,
    model: Stored,
    cwd: Stored,
    created_at: float,
    updated_at: float,
    messages: int,
    place: str,
) -> SessionInfo:
    who = plain(session_id), plain(title), plain(platform), plain(user), plain(model), plain(cwd)
    return SessionInfo(*who, created_at, updated_at, messages, json.loads(place))
