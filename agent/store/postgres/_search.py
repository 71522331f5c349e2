"""Full-text search on the server. A search first splits new messages into words, and stores the words beside them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent.store._codec import load
from agent.store._shared import tag_in
from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._text import Value, from_text, to_text
from agent.store.search.words import Query, Term, parse, searched, snippet, words_of
from toolcrib.contract.context import LOCAL_PLATFORMS
from toolcrib.contract.search import SearchFilter, SearchHit, SearchOrder

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection
    from toolcrib.contract.search import MessageSearch

_AT_ONCE = 500
RANKED = 2_000
_ALL = SearchFilter()
_NEW = "SELECT number, body FROM messages WHERE words IS NULL ORDER BY number LIMIT %(most)s FOR UPDATE SKIP LOCKED"
_TAKE = (
    "UPDATE messages SET words = new.words::tsvector FROM unnest(%(numbers)s::bigint[], %(words)s::text[]) AS new (number, words)"
    " WHERE messages.number = new.number"
)
_FOUND = (
    "SELECT s.id, s.title, m.seq, m.body, coalesce(nullif(m.at, 0), s.updated_at), s.platform, s.cwd, m.number, m.words"
    " FROM messages AS m JOIN sessions AS s ON s.row = m.session WHERE m.words @@ %(query)s::tsquery"
)
_COLUMNS = "id, title, seq, body, at, platform, cwd"
_NEWEST = "{found} ORDER BY m.number DESC LIMIT %(limit)s OFFSET %(offset)s"
_BEST = (
    f"SELECT {_COLUMNS} FROM ({{found}} ORDER BY m.number DESC LIMIT {RANKED}) AS one ({_COLUMNS}, number, words)"  # noqa: S608 - ours
    " ORDER BY ts_rank_cd(words, %(query)s::tsquery, 1) DESC, number DESC LIMIT %(limit)s OFFSET %(offset)s"
)


class PostgresSearch:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def find(
        self, query: str, where: SearchFilter = _ALL, *, order: SearchOrder = "newest", limit: int = 20, offset: int = 0
    ) -> Sequence[SearchHit]:
        """See toolcrib.contract.search.MessageSearch."""
        wanted = parse(query)
        while await self._database.transact(None, _take):
            pass
        clauses, values = clauses_of(where)
        sql = (_NEWEST if order == "newest" else _BEST).format(found=_FOUND + clauses)
        values |= {"query": _tsquery(wanted), "limit": limit, "offset": offset}
        hits: list[SearchHit] = []
        for row in await self._database.rows(sql, values):
            with suppress(ValueError, KeyError, TypeError):  # an unreadable message is not found
                hits.append(_hit(wanted, *row[:7]))
        return hits


async def _take(connection: Connection) -> int:
    """Index a batch of the messages that have no words yet. Return how many were indexed."""
    rows = await (await connection.execute(_NEW, {"most": _AT_ONCE})).fetchall()
    if rows:
        await connection.execute(_TAKE, {"numbers": [row[0] for row in rows], "words": [_tsvector(row[1]) for row in rows]})
    return len(rows)


def _tsvector(body: str) -> str:
    """Return the words with their positions, within the server's limits: 256 positions a word, none above 16,383."""
    places: dict[str, list[int]] = {}
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        for place, word in enumerate(words_of(searched(load(from_text(body)))), 1):
            places.setdefault(word, []).append(min(place, 16_383))
    return " ".join(f"{_quoted(word)}:{','.join(map(str, at[:256]))}" for word, at in places.items())


def _tsquery(query: Query) -> str:
    wanted = [f"({' | '.join(map(_term, either))})" for either in query.every]
    return " & ".join([*wanted, *(f"!({_term(term)})" for term in query.none)])


def _term(term: Term) -> str:
    words = [_quoted(word) for word in term.words]
    return f"({' <-> '.join(words)}{':*' if term.begins else ''})"


def _quoted(word: str) -> str:
    return "'" + to_text(word).replace("\\", "\\\\").replace("'", "''") + "'"


def clauses_of(where: SearchFilter) -> tuple[str, dict[str, Value]]:
    """Return the clauses of a filter, for the tables ``s`` of sessions and ``m`` of messages, and their values."""
    clauses: list[tuple[str, dict[str, Value]]] = []
    if where.session_id is not None:
        clauses.append((" AND s.id = %(session)s", {"session": to_text(where.session_id)}))
    if where.platform is not None:
        clauses.append((" AND s.platform = %(platform)s", {"platform": to_text(where.platform)}))
    if (person := where.principal) is not None:
        platforms = sorted(LOCAL_PLATFORMS) if person.is_local else [to_text(person.platform)]
        theirs: dict[str, Value] = {"user": to_text(person.user), "platforms": platforms}
        clauses.append((' AND s."user" = %(user)s AND s.platform = ANY(%(platforms)s)', theirs))
    if where.cwd is not None:
        below = to_text(where.cwd.rstrip("/") + "/")
        clauses.append((" AND (s.cwd = %(cwd)s OR starts_with(s.cwd, %(below)s))", {"cwd": below[:-1], "below": below}))
    if where.since is not None:
        clauses.append((" AND coalesce(nullif(m.at, 0), s.updated_at) >= %(since)s", {"since": where.since}))
    if where.until is not None:
        clauses.append((" AND coalesce(nullif(m.at, 0), s.updated_at) < %(until)s", {"until": where.until}))
    for number, tag in enumerate(where.tags):
        clauses.append((f" AND strpos(s.tags, %(tag{number})s) > 0", {f"tag{number}": tag_in(tag)}))
    if where.roles:
        roles = list(where.roles)
        clauses.append((" AND m.body::json ->> 'role' = ANY(%(roles)s)", {"roles": roles}))
    return "".join(clause for clause, _ in clauses), {name: value for _, values in clauses for name, value in values.items()}


def _hit(query: Query, session_id: str, title: str, seq: int, body: str, at: float, platform: str, cwd: str) -> SearchHit:
    record: Any = load(from_text(body))
    shown = snippet(searched(record), query)
    about = from_text(session_id), from_text(title), seq, str(record["role"]), at, shown.text, shown.marks
    return SearchHit(*about, from_text(platform), from_text(cwd), str(record.get("source", "")))


if TYPE_CHECKING:

    def _conforms(search: PostgresSearch) -> MessageSearch:
        return search
