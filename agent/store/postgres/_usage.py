"""Usage of sessions: rows that are inserted together with their messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.store._from_rows import read_sum
from agent.store._usage import COLUMNS, used
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import Values, to_text
from toolcrib.contract.types import Json
from toolcrib.contract.usage import UsageSum

_NAMES = ", ".join(COLUMNS)
USE = (
    f"INSERT INTO usage (session_id, at, {_NAMES}) SELECT %(session)s, {NOW}, {_NAMES} FROM grown,"  # noqa: S608 - names of ours
    " json_to_recordset(%(used)s::json) AS one (day text, model text, provider text, tool text, input bigint, output bigint,"
    " cached bigint, reasoning bigint, cost float8, seconds float8, failed boolean, estimated text)"
)
"""Inserts the rows of ``spent``, as part of a statement of _sessions."""

USE_THEN = (
    f"INSERT INTO usage (session_id, at, {_NAMES}) SELECT %(session)s, at, {_NAMES} FROM added,"  # noqa: S608 - names of ours
    " json_to_recordset(%(used)s::json) AS one (at float8, day text, model text, provider text, tool text, input bigint,"
    " output bigint, cached bigint, reasoning bigint, cost float8, seconds float8, failed boolean, estimated text)"
)
"""Inserts the rows with their own times, as part of the statement that stores a session from elsewhere."""


def spent(message: Mapping[str, Json]) -> list[dict[str, Any]]:
    """Return the rows of a message for USE."""
    return [
        {name: to_text(value) if isinstance(value, str) else value for name, value in zip(COLUMNS, row, strict=True)}
        for row in used(message)
    ]


def spent_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as USE's value."""
    return json.dumps(list(rows))


class PostgresUsage:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def sums(self, *, since: float = 0.0, session_id: str | None = None) -> Sequence[UsageSum]:
        where = "" if session_id is None else " AND session_id = %(session)s"
        values: Values = {"since": since, "session": None if session_id is None else to_text(session_id)}
        sql = (
            "SELECT session_id, day, model, provider, tool, count(*), count(*) FILTER (WHERE failed), sum(input)::bigint,"  # noqa: S608 - ours
            " sum(output)::bigint, sum(cached)::bigint, sum(reasoning)::bigint, sum(cost), sum(seconds), max(estimated)"
            f" FROM usage WHERE at >= %(since)s{where}"
            " GROUP BY session_id, day, model, provider, tool ORDER BY day, min(row)"
        )
        return await self._database.records(read_sum, sql, values)
