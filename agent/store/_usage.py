"""Usage, taken from messages as they are appended: a row for each reply of a model, and for each call of a tool."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agent.store._codec import Stored, text
from agent.store._from_rows import read_sum
from toolcrib.contract.types import Json
from toolcrib.contract.usage import UsageSum

if TYPE_CHECKING:  # the PostgreSQL store uses this module, too, and needs no SQLite
    import sqlite3

    from agent.store._database import Access

Used: TypeAlias = "tuple[str, str, str, str, int, int, int, int, float | None, float, bool, str]"
"""Columns of a row after session and time: see COLUMNS."""
COLUMNS = ("day", "model", "provider", "tool", "input", "output", "cached", "reasoning", "cost", "seconds", "failed", "estimated")
_INSERT = f"INSERT INTO usage (session_id, at, {', '.join(COLUMNS)}) VALUES (?, ?{', ?' * len(COLUMNS)})"  # noqa: S608 - names of ours


def used(message: Mapping[str, Json]) -> Iterator[Used]:
    """Yield the rows of a message: one for a reply or summary by a model, or one for each result with a duration.

    Messages that a fork copied count for their original session.
    """
    if message.get("forked"):
        return
    at = message.get("at")
    day = time.strftime("%Y-%m-%d", time.localtime(at if isinstance(at, float) else None))
    if message.get("role") in ("assistant", "compressed") and (message.get("via") or message.get("usage")):
        via, usage, cost = message.get("via") or {}, message.get("usage") or {}, message.get("cost")
        tokens = [_count(usage.get(name)) for name in ("input", "output", "cached", "reasoning")]
        priced = float(cost) if isinstance(cost, int | float) and math.isfinite(cost) else None
        model = str(message.get("model") or via.get("model") or "")
        estimated = "" if priced is None else str(message.get("estimated") or "")
        provider = str(via.get("provider", ""))
        yield day, model, provider, "", tokens[0], tokens[1], tokens[2], tokens[3], priced, 0.0, False, estimated
    elif message.get("role") == "results":
        for result in message.get("results") or ():
            if "seconds" in result:
                seconds, failed = float(result["seconds"]), bool(result.get("is_error"))
                yield day, "", "", str(result["name"]), 0, 0, 0, 0, None, seconds, failed, ""


def _count(value: Json) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0


def insert(connection: sqlite3.Connection, session: Stored, now: float, rows: Sequence[Used]) -> None:
    """Insert rows of one session, in the connection's transaction."""
    if not rows:
        return
    values = [(session, now, *(text(value) if isinstance(value, str) else value for value in row)) for row in rows]
    connection.executemany(_INSERT, values)


class SqliteUsage:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def sums(self, *, since: float = 0.0, session_id: str | None = None) -> Sequence[UsageSum]:
        where, values = ("", [since]) if session_id is None else (" AND session_id = ?", [since, text(session_id)])
        sql = (
            "SELECT session_id, day, model, provider, tool, count(*), sum(failed), sum(input), sum(output), sum(cached),"  # noqa: S608 - ours
            f" sum(reasoning), sum(cost), sum(seconds), max(estimated) FROM usage WHERE at >= ?{where}"
            " GROUP BY session_id, day, model, provider, tool ORDER BY day, min(row)"
        )
        return await self._access.records(read_sum, sql, values)
