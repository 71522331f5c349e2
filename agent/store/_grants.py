"""Grants and the audit log over SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent.store._codec import Stored, dump, dump_grant, load_grant, text
from agent.store._database import Access
from agent.store._from_rows import AUDIT, read_entry
from toolcrib.contract.store import AuditEntry, Grant, GrantStore


class SqliteGrants:
    """Grants over SQLite. A resumed session has its grants again."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def add(self, grant: Grant) -> None:
        """Store a grant. A grant with a known id changes nothing."""
        await self._access.run(
            "INSERT INTO grants (id, session_id, scope, uses_left, principal, body) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO NOTHING",
            (text(grant.id), text(grant.session_id), grant.scope, grant.uses_left, text(grant.principal), dump_grant(grant)),
        )

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Return the session's grants and the principal's permanent ones, oldest first; without a session, all grants."""
        where, values = "", list[Stored]()
        if session_id is not None:
            where = "WHERE CASE scope WHEN 'always' THEN principal = ? ELSE session_id = ? END"
            values = [text(principal), text(session_id)]
        sql = f"SELECT id, session_id, scope, uses_left, principal, body FROM grants {where} ORDER BY row"  # noqa: S608 - ours
        return await self._access.records(load_grant, sql, values)

    async def spend(self, grant_id: str) -> bool:
        """Use a counted grant once, and return whether it was available. Of two processes that want the last use, one gets it."""
        sql = "UPDATE grants SET uses_left = uses_left - 1 WHERE id = ? AND uses_left >= 1"
        return await self._access.run(sql, (text(grant_id),)) == 1

    async def revoke(self, grant_id: str) -> bool:
        return await self._access.run("DELETE FROM grants WHERE id = ?", (text(grant_id),)) == 1


class FencedGrants:
    """Grants of another store, which can be changed only while ``access`` has its lease."""

    def __init__(self, kept: GrantStore, access: Access) -> None:
        self._kept = kept
        self._access = access

    async def add(self, grant: Grant) -> None:
        await self._check()
        await self._kept.add(grant)

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        return await self._kept.all(session_id, principal)

    async def spend(self, grant_id: str) -> bool:
        await self._check()
        return await self._kept.spend(grant_id)

    async def revoke(self, grant_id: str) -> bool:
        await self._check()
        return await self._kept.revoke(grant_id)

    async def _check(self) -> None:
        """Raise LeaseLost if another process has taken the lease."""
        await self._access.write(lambda connection: None)


async def revoke_sessions(grants: GrantStore, session_ids: Collection[str]) -> None:
    """Revoke the grants of these sessions, but not the permanent ones."""
    for session_id in session_ids:
        for grant in await grants.all(session_id):
            if grant.scope != "always":
                await grants.revoke(grant.id)


class SqliteAudit:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def record(self, entry: AuditEntry) -> None:
        names = (entry.session_id, entry.call_id, entry.tool, entry.decision, entry.by)
        await self._access.run(
            "INSERT INTO audit (at, session_id, call_id, tool, decision, by, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (entry.at, *map(text, names), dump(entry.detail)),
        )

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        """Return entries in order: all, or the entries of one session."""
        where, values = ("", ()) if session_id is None else ("WHERE session_id = ?", (text(session_id),))
        sql = f"SELECT {AUDIT} FROM audit {where} ORDER BY row"  # noqa: S608 - ours
        return await self._access.records(read_entry, sql, values)
