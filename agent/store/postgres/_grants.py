"""Grants and the audit log."""

from __future__ import annotations

from collections.abc import Sequence

from agent.store._codec import dump, dump_grant, load_grant
from agent.store._from_rows import AUDIT, read_entry
from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._text import to_json, to_text
from toolcrib.contract.store import AuditEntry, Fence, Grant


class PostgresGrants:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def add(self, grant: Grant) -> None:
        """Store a grant. A grant with a known id changes nothing."""
        await self._database.write(
            self._fence,
            "INSERT INTO grants (id, session_id, principal, scope, uses_left, body)"
            " VALUES (%(id)s, %(session)s, %(principal)s, %(scope)s, %(uses_left)s, %(body)s)"
            " ON CONFLICT (id) DO NOTHING RETURNING row",
            {
                "id": to_text(grant.id),
                "session": to_text(grant.session_id),
                "principal": to_text(grant.principal),
                "scope": grant.scope,
                "uses_left": grant.uses_left,
                "body": to_json(dump_grant(grant)),
            },
        )

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        theirs = "WHERE CASE WHEN scope = 'always' THEN principal = %(principal)s ELSE session_id = %(session)s END"
        where = "" if session_id is None else theirs
        sql = f"SELECT id, session_id, scope, uses_left, principal, body FROM grants {where} ORDER BY row"  # noqa: S608 - ours
        values = {} if session_id is None else {"session": to_text(session_id), "principal": to_text(principal)}
        return await self._database.records(load_grant, sql, values)

    async def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, and return whether it was available. Of two processes that want the last use, one gets it."""
        sql = "UPDATE grants SET uses_left = uses_left - 1 WHERE id = %(id)s AND uses_left >= 1 RETURNING row"
        return bool(await self._database.write(self._fence, sql, {"id": to_text(grant_id)}))

    async def revoke(self, grant_id: str) -> bool:
        sql = "DELETE FROM grants WHERE id = %(id)s RETURNING row"
        return bool(await self._database.write(self._fence, sql, {"id": to_text(grant_id)}))


class PostgresAudit:
    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def record(self, entry: AuditEntry) -> None:
        names = {name: to_text(getattr(entry, name)) for name in ("session_id", "call_id", "tool", "decision", "by")}
        await self._database.write(
            self._fence,
            "INSERT INTO audit (at, session_id, call_id, tool, decision, by, detail)"
            " VALUES (%(at)s, %(session_id)s, %(call_id)s, %(tool)s, %(decision)s, %(by)s, %(detail)s) RETURNING row",
            {**names, "at": entry.at, "detail": to_json(dump(entry.detail))},
        )

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        where = "" if session_id is None else "WHERE session_id = %(session)s"
        sql = f"SELECT {AUDIT} FROM audit {where} ORDER BY row"  # noqa: S608 - ours
        values = {} if session_id is None else {"session": to_text(session_id)}
        return await self._database.records(read_entry, sql, values)
